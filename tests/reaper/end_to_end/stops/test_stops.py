"""Owners that the running reaper stops, under the profile that enforces and guards."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.reaper.end_to_end.stops.owners import STOP, Owners


def stopped_note(found: Any) -> dict[str, Any]:
    """Gives what the reaper noted on a stopped owner."""
    note: dict[str, Any] = json.loads(found["metadata"]["annotations"]["gpu-tenure.io/stopped"])
    return note


def test_owners_of_the_built_in_kinds_stay_stopped(owners: Owners, start_reaper: Callable[..., Any]) -> None:
    """Each in its way, with what it was before in its record and on itself."""
    web = owners.scaled("deployments", "web", replicas=2)
    alone = owners.scaled("replicasets", "alone")
    store = owners.scaled("statefulsets", "store")
    job = owners.job("train", activeDeadlineSeconds=7200)
    owners.running(5)
    start_reaper()
    for path in (web, alone, store):
        found = owners.wait(path, lambda one: one["spec"]["replicas"] == 0, f"{path} is at zero")
        assert stopped_note(found)["former"] == (2 if path == web else 1)
        managers = {one["manager"] for one in found["metadata"]["managedFields"]}
        assert "gpu-tenure-reaper" in managers
    owners.wait(job, lambda one: one["spec"].get("suspend") is True, "the Job is suspended")
    owners.api.wait(lambda: owners.api.list(owners.stage.pods) == [], 60, "all pods are gone")
    owners.api.wait(
        lambda: {one.get("status", {}).get("phase") for one in owners.stage.records()} == {"Accepted"},
        20,
        "all records are completed",
    )
    records = owners.records()
    assert sorted(records) == ["alone", "store", "train", "web"]
    assert records["web"]["status"]["stop"]["former"] == "2"
    assert records["train"]["status"]["stop"]["deadlineSeconds"] == 7200
    assert records["train"]["status"]["stop"]["usedSeconds"] >= 0
    assert {one["spec"]["action"] for one in records.values()} == {"stop"}
    assert "gpu-tenure resume deployment/web" in records["web"]["spec"]["howToGetBack"]
    times = [datetime.fromisoformat(one["status"]["completedAt"]) for one in records.values()]
    decided = [datetime.fromisoformat(one["spec"]["decidedAt"]) for one in records.values()]
    assert all(begun <= done for begun, done in zip(decided, times, strict=True))


def test_kinds_of_other_projects_stop_by_the_table(owners: Owners, start_reaper: Callable[..., Any]) -> None:
    """A field, a nested field or an annotation; a Notebook by Kubeflow's own."""
    pod = {
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    }
    worker = {"replicas": 1, "template": pod}
    jobs = [{"name": "w", "template": {"spec": {"template": pod}}}]
    notebook = owners.custom("kubeflow.org/v1", "Notebook", "notebooks", "book", {"template": pod})
    jobset = owners.custom("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", "set", {"replicatedJobs": jobs})
    leaders = owners.custom(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "leaderworkersets",
        "lws",
        {"replicas": 3, "leaderWorkerTemplate": {"workerTemplate": pod}},
    )
    ray = owners.custom("ray.io/v1", "RayCluster", "rayclusters", "ray", {"headGroupSpec": {"template": pod}})
    torch = owners.custom(
        "kubeflow.org/v1", "PyTorchJob", "pytorchjobs", "torch", {"pytorchReplicaSpecs": {"Worker": worker}}
    )
    service = owners.custom(
        "serving.kserve.io/v1beta1", "InferenceService", "inferenceservices", "llm", {"predictor": {}}
    )
    owners.running(6)
    start_reaper()
    suspended = {jobset: ("suspend",), ray: ("suspend",), torch: ("runPolicy", "suspend")}
    for path, keys in suspended.items():

        def is_suspended(found: Any, keys: tuple[str, ...] = keys) -> bool:
            value = found["spec"]
            for key in keys:
                value = (value or {}).get(key)
            return value is True

        owners.wait(path, is_suspended, f"{path} is suspended")
    found = owners.wait(leaders, lambda one: one["spec"]["replicas"] == 0, "the LeaderWorkerSet is at zero")
    assert stopped_note(found)["former"] == 3
    key = "kubeflow-resource-stopped"
    owners.wait(
        notebook, lambda one: key in one["metadata"].get("annotations", {}), "the Notebook is stopped"
    )
    key = "serving.kserve.io/stop"
    found = owners.wait(service, lambda one: key in one["metadata"].get("annotations", {}), "it is stopped")
    assert found["metadata"]["annotations"][key] == "true"


def test_what_kueue_manages_is_stopped_through_its_workload(
    owners: Owners, start_reaper: Callable[..., Any]
) -> None:
    """The Job itself is never suspended: Kueue would start it again."""
    queue = {"kueue.x-k8s.io/queue-name": "team"}
    job = owners.job("queued", labels=queue)
    uid = owners.api.get(job)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "queued", "uid": uid, "controller": True}
    workloads = owners.path("kueue.x-k8s.io/v1beta1", "workloads")
    sets = [{"name": "main", "count": 1, "template": owners.template("queued")}]
    for name, references in (("job-queued", [owner]), ("other", [])):
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {"name": name, "ownerReferences": references},
            "spec": {"queueName": "team", "podSets": sets},
        }
        owners.api.create(workloads, body)
    owners.running(1)
    start_reaper()
    owners.wait(
        f"{workloads}/job-queued", lambda one: one["spec"].get("active") is False, "the Workload is inactive"
    )
    assert "active" not in owners.api.get(f"{workloads}/other")["spec"]
    assert not owners.api.get(job)["spec"].get("suspend")


@pytest.mark.parametrize("available", [2, 1])
def test_a_budget_keeps_an_owner_running(
    available: int, owners: Owners, start_reaper: Callable[..., Any]
) -> None:
    """A scale to zero would not ask it: the reaper does, about every pod and about all of them together."""
    web = owners.scaled("deployments", "web", replicas=2)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": "web"}}},
    }
    budgets = owners.path("policy/v1", "poddisruptionbudgets")
    owners.api.create(budgets, budget)
    owners.running(2)
    owners.api.wait(
        lambda: owners.api.get(f"{budgets}/web").get("status", {}).get("currentHealthy") == 2,
        30,
        "the budget counts its pods",
    )
    reaper = start_reaper()
    owners.api.wait(
        lambda: [one.get("status", {}).get("phase") for one in owners.stage.records()] == ["Blocked"],
        45,
        "a record says that a budget refused",
    )
    reaper.wait_cycles(2)
    assert owners.api.get(web)["spec"]["replicas"] == 2
    assert len(owners.api.list(owners.stage.pods)) == 2


def test_a_pod_that_only_names_an_owner_does_not_stop_it(
    owners: Owners, start_reaper: Callable[..., Any]
) -> None:
    """Whoever may create pods could otherwise stop any workload of the namespace."""
    api = owners.api
    template = owners.template("shop")
    del template["spec"]["containers"][0]["resources"]
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "shop"}}, "template": template}
    path = owners.path("apps/v1", "deployments")
    made = api.create(path, {"metadata": {"name": "shop"}, "spec": spec})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": made["metadata"]["uid"]}
    owners.stage.pod("forged", labels=STOP, ownerReferences=[{**owner, "controller": True}])
    owners.running(2)
    start_reaper()
    owners.api.wait(
        lambda: [one.get("status", {}).get("phase") for one in owners.stage.records()] == ["Refused"],
        45,
        "a record says that the owner makes no GPU pods",
    )
    (record,) = owners.stage.records()
    assert "makes no GPU pods" in record["status"]["message"]
    assert api.get(f"{path}/shop")["spec"]["replicas"] == 1


def test_a_stop_that_an_operator_undoes_is_named_and_not_repeated(
    owners: Owners, start_reaper: Callable[..., Any]
) -> None:
    """KEDA or GitOps apply their number again: the record and an Event on the owner say who did it."""
    web = owners.scaled("deployments", "web")
    owners.running(1)
    reaper = start_reaper("--actions-per-owner=9")
    owners.wait(web, lambda one: one["spec"]["replicas"] == 0, "the Deployment is at zero")
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1},
    }
    owners.api.patch(f"{web}?fieldManager=keda-operator&force=true", body, "apply")
    owners.api.wait(
        lambda: [one.get("status", {}).get("phase") for one in owners.stage.records()] == ["Reverted"],
        60,
        "the record says that the stop was undone",
    )
    (record,) = owners.stage.records()
    assert record["status"]["message"] == "keda-operator started it again"
    owners.api.wait(
        lambda: any("keda-operator started it again" in note for note in owners.stage.events("web")),
        20,
        "an Event on the owner says so too",
    )
    assert reaper.value("gpu_tenure_reaper_stops_reverted_total") == 1
    owners.running(1)
    name = owners.api.list(owners.stage.pods)[0]["metadata"]["name"]
    owners.api.wait(
        lambda: "gpu-tenure.io/warned-uid" in owners.stage.annotations(name), 40, "the new pod is warned"
    )
    reaper.wait_cycles(8)
    assert "gpu-tenure.io/reclaim-at" not in owners.stage.annotations(name)
    assert owners.api.get(web)["spec"]["replicas"] == 1
