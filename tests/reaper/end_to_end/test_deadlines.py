"""Deadlines on the real parts: users are told before and after, without Prometheus, and once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

NOWHERE = "--prometheus-url=http://127.0.0.1:1"


def pod(name: str, seconds: int, ago: str, origin: str) -> dict[str, Any]:
    """Gives a pod with a deadline that has run for a while."""
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    return {
        "metadata": {
            "name": name,
            "annotations": {
                "gpu-tenure.io/deadline": origin,
                "sandbox.gpu-tenure.io/started-ago": ago,
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": seconds,
            "containers": [{"name": "main", "image": "registry.example/x:1", "resources": resources}],
        },
    }


def deadline_events(stage: Any) -> dict[tuple[str, str], list[str]]:
    """Gives the notes of our Events about deadlines, by kind and name of their object and by reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in stage.api.list(f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events"):
        if one["reportingController"] == "gpu-tenure.io/reaper" and one["reason"].startswith("Deadline"):
            about = f"{one['regarding']['kind']} {one['regarding']['name']}"
            found.setdefault((about, one["reason"]), []).append(one["note"])
    return found


def test_users_hear_of_deadlines_before_and_after(
    stage: Any, start_reaper: Callable[..., Any], terms: Mapping[str, str]
) -> None:
    """A pod that nears its end, one that came to it, and a Job with its pod; a second reaper is silent."""
    soon = pod("soon", 1000, "905s", "injected")
    soon["metadata"]["labels"] = dict(terms)
    over = pod("over", 1000, "1000s", "lowered")
    inner = pod("x", 1, "0s", "job")
    job = {
        "metadata": {"name": "train", "annotations": {"gpu-tenure.io/deadline": "kept"}},
        "spec": {
            # One second more than an hour: so the moment at which an hour is left comes at once.
            "activeDeadlineSeconds": 3601,
            "template": {
                "metadata": {"annotations": inner["metadata"]["annotations"]},
                "spec": {key: value for key, value in inner["spec"].items() if "Deadline" not in key},
            },
        },
    }
    stage.api.create(stage.pods, soon)
    stage.api.create(stage.pods, over)
    stage.api.create(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs", job)
    stage.api.wait(lambda: (stage.find("over") or {})["status"].get("reason"), 30, "one pod is ended")
    expected = {
        ("Pod soon", "DeadlineApproaching"),
        ("Pod over", "DeadlineExceeded"),
        ("Job train", "DeadlineApproaching"),
    }
    first = start_reaper(NOWHERE)
    stage.api.wait(lambda: expected <= set(deadline_events(stage)), 30, "all are told")
    first.kill()
    second = start_reaper(NOWHERE, name="reaper-again")
    second.wait_cycles(2, "held")
    told = deadline_events(stage)
    assert {len(notes) for notes in told.values()} == {1}
    pods = [about for about, _ in told if about.startswith("Pod train-")]
    assert len(pods) == 1
    (note,) = told["Pod soon", "DeadlineApproaching"]
    assert "which policy end-to-end set because none was asked for" in note
    assert "A pod's deadline cannot be raised" in note
    assert "Ask in gpu-help." in note
    (note,) = told["Pod over", "DeadlineExceeded"]
    assert note.startswith("Ended by its deadline of 16m40s, lowered to the maximum of policy end-to-end.")
    (note,) = told["Job train", "DeadlineApproaching"]
    assert "raise activeDeadlineSeconds of the Job" in note


def test_a_job_that_its_deadline_ends_is_explained(stage: Any, start_reaper: Callable[..., Any]) -> None:
    """By the real Job controller; its pods are gone by then."""
    inner = pod("x", 1, "0s", "job")["spec"]
    job = {
        "metadata": {"name": "short", "annotations": {"gpu-tenure.io/deadline": "injected"}},
        "spec": {
            "activeDeadlineSeconds": 1,
            "template": {"spec": {key: value for key, value in inner.items() if "Deadline" not in key}},
        },
    }
    stage.api.create(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs", job)
    start_reaper(NOWHERE)
    stage.api.wait(
        lambda: ("Job short", "DeadlineExceeded") in deadline_events(stage), 40, "the Job is explained"
    )
    (note,) = deadline_events(stage)["Job short", "DeadlineExceeded"]
    assert "by its deadline of 1s, which policy end-to-end set" in note
