"""What the reaper's account may do to owners, and what a dry run does to them, on a real API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.api import Api, ApiError
from sandbox.install import Installation
from tests.reaper.end_to_end.stops.owners import Owners


@pytest.fixture
def reaper(stopping: Installation) -> Api:
    """The API server for the reaper's account, with the chart's rights and guard."""
    return stopping.sandbox.api("reaper")


def refused(api: Api, path: str, body: Any) -> str:
    """Gives the sentence of the guard that refuses a patch."""
    with pytest.raises(ApiError) as caught:
        api.patch(path, body)
    assert "gpu-tenure-guard-reaper" in caught.value.message
    return caught.value.message


def test_a_nested_field_is_bounded_too(owners: Owners, reaper: Api) -> None:
    """It may suspend a PyTorchJob, and neither start it nor touch what is beside."""
    path = owners.path("kubeflow.org/v1", "pytorchjobs")
    spec = {"pytorchReplicaSpecs": {}, "runPolicy": {"suspend": False, "activeDeadlineSeconds": 60}}
    owners.api.create(
        path, {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}, "spec": spec}
    )
    path = f"{path}/a"
    beside = {"spec": {"runPolicy": {"activeDeadlineSeconds": 61}}}
    assert "only set spec.runPolicy.suspend to true" in refused(reaper, path, beside)
    gone = {"spec": {"runPolicy": {"activeDeadlineSeconds": None}}}
    assert "only set spec.runPolicy.suspend to true" in refused(reaper, path, gone)
    assert "fields that stop an owner" in refused(reaper, path, {"spec": {"pytorchReplicaSpecs": {"a": {}}}})
    reaper.patch(path, {"spec": {"runPolicy": {"suspend": True}}})
    assert "only set spec.runPolicy.suspend to true" in refused(
        reaper, path, {"spec": {"runPolicy": {"suspend": False}}}
    )


def test_each_kind_has_its_own_fields(owners: Owners, reaper: Api) -> None:
    """An annotation that stops one kind is no business of another; Kueue's Workloads go off, never on."""
    kueue = owners.path("kueue.x-k8s.io/v1beta1", "workloads")
    typed = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"}}
    owners.api.create(kueue, {**typed, "spec": {"queueName": "q"}})
    reaper.patch(f"{kueue}/w", {"spec": {"active": False}})
    assert "only set spec.active to false" in refused(reaper, f"{kueue}/w", {"spec": {"active": True}})
    assert "fields that stop an owner" in refused(reaper, f"{kueue}/w", {"spec": {"queueName": "other"}})
    service = owners.path("serving.kserve.io/v1beta1", "inferenceservices")
    typed = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "s"}}
    owners.api.create(service, {**typed, "spec": {}})
    reaper.patch(f"{service}/s", {"metadata": {"annotations": {"serving.kserve.io/stop": "true"}}})
    gone = {"metadata": {"annotations": {"serving.kserve.io/stop": None}}}
    assert "and set those that stop" in refused(reaper, f"{service}/s", gone)
    other = {"metadata": {"annotations": {"kubeflow-resource-stopped": "now"}}}
    assert "annotations that begin with" in refused(reaper, f"{service}/s", other)


def test_a_dry_run_shows_what_would_have_been_stopped(
    owners: Owners, start_reaper: Callable[..., Any]
) -> None:
    """The API server is asked about every pod and about the owner, and nothing changes."""
    web = owners.scaled("deployments", "web", replicas=2)
    owners.running(2)
    reaper = start_reaper("--dry-run")
    reaper.wait_log("dry run: stop answered", seconds=45)
    assert '"outcome": "Accepted"' in reaper.log()
    found = owners.api.get(web)
    assert found["spec"]["replicas"] == 2
    assert "gpu-tenure.io/stopped" not in found["metadata"].get("annotations", {})
    assert owners.stage.records() == []
    assert len(owners.api.list(owners.stage.pods)) == 2


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({"backoffLimit": 0}, "This ends the Job", id="it may not fail"),
        pytest.param(
            {
                "backoffLimit": 0,
                "podFailurePolicy": {
                    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
                },
            },
            "This restarts it",
            id="it ignores disruptions",
        ),
    ],
)
def test_a_warning_says_what_an_eviction_does_to_a_job(
    spec: Any, words: str, stage: Any, terms: Any, start_reaper: Callable[..., Any]
) -> None:
    """And the API server then does just that."""
    job = Owners(stage).job("train", **spec)
    made: list[Any] = []

    def running() -> bool:
        made[:] = stage.api.list(stage.pods)
        return bool(made) and made[0].get("status", {}).get("phase") == "Running"

    stage.api.wait(running, 30, "the Job runs")
    first = made[0]["metadata"]
    stage.api.patch(f"{stage.pods}/{first['name']}", {"metadata": {"labels": dict(terms)}})
    stage.history()
    start_reaper()
    stage.api.wait(lambda: any(words in note for note in stage.events(first["name"])), 40, "it is warned")

    path = f"{stage.pods}/{first['name']}"

    def settled() -> bool:
        going = stage.api.find(path) or {"metadata": {}}
        if going["metadata"].get("deletionTimestamp") and going["status"]["phase"] == "Running":
            # A real kubelet says so before the pod is gone; the simulated one only lets it go.
            stage.api.patch(f"{path}/status", {"status": {"phase": "Failed"}})
        if words == "This ends the Job":
            conditions = stage.api.get(job).get("status", {}).get("conditions", [])
            return any((one["type"], one["status"]) == ("Failed", "True") for one in conditions)
        uids = {one["metadata"]["uid"] for one in stage.api.list(stage.pods)}
        return bool(uids - {first["uid"]})

    stage.api.wait(settled, 60, f"{words} came true")
