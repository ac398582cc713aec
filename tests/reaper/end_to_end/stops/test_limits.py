"""When the running reaper acts on whom: pod groups whole, only under pressure, deadlines that came late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox.install import Installation

GANG = {"scheduling.x-k8s.io/pod-group": "gang"}
LATE = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "end-to-end-late"},
    "spec": {
        "priority": 2,
        "namespaceSelector": {"matchLabels": {"end-to-end-late": "true"}},
        "idle": {"action": "warn", "after": "2s", "grace": "1h", "warmUp": "1s"},
        "deadline": {"default": "3d", "max": "7d"},
    },
}
DAY = 86_400


def test_a_pod_group_goes_whole(stage: Any, start_reaper: Callable[..., Any]) -> None:
    """Pods without owner that a scheduler starts together: a busy one keeps the others."""
    stage.pod("rank-0", labels=GANG)
    stage.pod("rank-1", labels=GANG)
    stage.pod("rank-2", activity="busy", labels=GANG)
    stage.history()
    reaper = start_reaper()
    reaper.wait_cycles(6)
    assert "gpu-tenure.io/idle-since" not in stage.annotations("rank-0")
    stage.api.delete(f"{stage.pods}/rank-2", {"gracePeriodSeconds": 0})
    stage.wait_gone("rank-0", "rank-1", seconds=45)
    decided = {record["spec"]["decidedAt"] for record in stage.records()}
    assert len(decided) == 1


def test_nothing_is_taken_until_somebody_waits_for_it(stage: Any, start_reaper: Callable[..., Any]) -> None:
    """The warning comes, its time passes, and only a pod that finds no place has the idle one evicted."""
    stage.pod("idle")
    stage.history()
    reaper = start_reaper("--on-pressure")
    stage.wait_warned("idle")
    reaper.wait_log('"skip": "NoPressure"')
    reaper.wait_cycles(4)
    assert stage.find("idle") is not None
    body = {
        "metadata": {"name": "waits"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": stage.node},
            "containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 40}}}],
        },
    }
    stage.api.create(stage.pods, body)
    stage.wait_gone("idle", seconds=45)
    stage.api.wait_running(stage.namespace, "waits")


@pytest.fixture
def late(reaping: Installation) -> Iterator[Callable[[], None]]:
    """A policy that demands deadlines, and what goes from observing to enforcing them."""
    api = reaping.sandbox.api()
    path = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
    api.create(path, LATE)
    before = reaping.values.get("profile", "observe")

    def enforce() -> None:
        reaping.upgrade({"profile": "enforce", "reaper": {"backfill": {"deadline": True}}})

    yield enforce
    reaping.upgrade({"profile": before, "reaper": {"backfill": {"deadline": False}}})
    api.delete(f"{path}/end-to-end-late")


def test_what_was_admitted_without_a_deadline_gets_one(
    late: Callable[[], None], make_stage: Callable[..., Any], start_reaper: Callable[..., Any]
) -> None:
    """A pod and a Job, past the guards, with an Event that says when it ends."""
    stage = make_stage({"end-to-end-late": "true"})
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": stage.node},
        "containers": [{"name": "main", "image": "i", "resources": resources}],
    }
    stage.api.create(stage.pods, {"metadata": {"name": "alone"}, "spec": spec})
    jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    stage.api.create(jobs, {"metadata": {"name": "train"}, "spec": {"template": {"spec": spec}}})
    stage.api.wait_running(stage.namespace, "alone")
    late()
    start_reaper("--backfill-deadline")
    for path in (f"{stage.pods}/alone", f"{jobs}/train"):
        stage.api.wait(
            lambda path=path: "activeDeadlineSeconds" in stage.api.get(path)["spec"],
            40,
            f"{path} ends some day",
        )
        found = stage.api.get(path)
        assert 3 * DAY - 5 <= found["spec"]["activeDeadlineSeconds"] <= 3 * DAY + 5
        assert found["metadata"]["annotations"]["gpu-tenure.io/deadline"] == "injected"
    assert any("without a deadline" in note for note in stage.events("alone"))
    assert any("this Job ends at" in note for note in stage.events("train"))


def test_missing_rights_are_named(
    reaping: Installation, start_reaper: Callable[..., Any], stage: Any
) -> None:
    """With the chart's rights nothing is missing; without those to stop owners, readiness says which."""
    reaper = start_reaper()
    stage.api.wait(lambda: reaper.ready()[0] == 200, 30, "it has all rights that it needs")
    reaper.kill()
    reaping.upgrade({"reaper": {"stop": {"enabled": False}}})
    try:
        lacking = start_reaper("--stop", name="reaper-lacking")
        stage.api.wait(lambda: "may not" in lacking.ready()[1], 30, "readiness names what is missing")
        status, text = lacking.ready()
        assert status == 503
        assert "patch deployments.apps" in text
        assert "patch pods" not in text
        assert lacking.value("gpu_tenure_reaper_missing_rights") >= 5
        lacking.wait_log("rights are missing")
    finally:
        reaping.upgrade({"reaper": {"stop": {"enabled": True}}})
