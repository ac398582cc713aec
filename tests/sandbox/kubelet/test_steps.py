"""What the kubelet does next, and what it reports."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.kubelet.steps import Seen, Step, next_step, pause_seconds, status_of
from tests.sandbox.kubelet.objects import pod

DELETED = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
RUNS = Seen()
JOB: dict[str, Any] = {"restartPolicy": "Never"}


@pytest.mark.parametrize(
    ("changes", "seen", "files", "expected"),
    [
        pytest.param({}, None, True, Step.START, id="a scheduled pod starts"),
        pytest.param({}, None, False, Step.WAIT, id="it waits for its Secrets"),
        pytest.param({"nodeName": ""}, None, True, Step.WAIT, id="it waits for a node"),
        pytest.param({}, RUNS, True, Step.WAIT, id="what runs is left alone"),
        pytest.param({}, RUNS, False, Step.WAIT, id="also without its Secrets"),
        pytest.param({}, Seen(1, ended_seconds=0.5), True, Step.WAIT, id="what ended pauses first"),
        pytest.param({}, Seen(1, ended_seconds=1), True, Step.START, id="and starts again"),
        pytest.param({}, Seen(1, restarts=3, ended_seconds=7), True, Step.WAIT, id="each time later"),
        pytest.param({}, Seen(0, ended_seconds=1), True, Step.START, id="even if it ended well"),
        pytest.param(JOB, Seen(0), True, Step.FINISH, id="a Job's pod ends for good"),
        pytest.param(JOB, Seen(1), True, Step.FINISH, id="with its failure"),
        pytest.param(
            {"restartPolicy": "OnFailure"}, Seen(1, ended_seconds=1), True, Step.START, id="or tries again"
        ),
        pytest.param(
            JOB | {"status": {"phase": "Succeeded"}}, Seen(0), True, Step.WAIT, id="nothing after the end"
        ),
        pytest.param(
            JOB | {"status": {"phase": "Failed"}}, None, True, Step.WAIT, id="nor by another kubelet"
        ),
        pytest.param(DELETED, RUNS, True, Step.STOP, id="a deleted pod is asked to end"),
        pytest.param(DELETED, Seen(stopping=True), True, Step.WAIT, id="once"),
        pytest.param(DELETED, Seen(0, stopping=True), True, Step.REMOVE, id="and goes when it has ended"),
        pytest.param(DELETED, None, True, Step.REMOVE, id="at once if it never ran"),
        pytest.param(DELETED | {"nodeName": ""}, None, True, Step.REMOVE, id="also if it never had a node"),
    ],
)
def test_what_is_next(changes: dict[str, Any], seen: Seen | None, files: bool, expected: Step) -> None:
    """As a kubelet does it."""
    assert next_step(pod(**changes), seen, files=files) is expected


def test_pauses_grow_up_to_half_a_minute() -> None:
    """A container that cannot run does not keep the machine busy."""
    assert [pause_seconds(restarts) for restarts in (0, 1, 4, 5, 10_000)] == [1, 2, 16, 30, 30]


@pytest.mark.parametrize(
    ("changes", "seen", "ready", "phase", "state"),
    [
        pytest.param({}, None, False, "Pending", "waiting", id="what did not start is pending"),
        pytest.param({}, RUNS, False, "Running", "running", id="what runs need not be ready"),
        pytest.param({}, RUNS, True, "Running", "running", id="or is"),
        pytest.param({}, Seen(1), False, "Running", "waiting", id="a crash is waited after"),
        pytest.param(JOB, Seen(0), True, "Succeeded", "terminated", id="an end is an end"),
        pytest.param(JOB, Seen(3), True, "Failed", "terminated", id="or a failure"),
    ],
)
def test_what_is_reported(
    changes: dict[str, Any], seen: Seen | None, ready: bool, phase: str, state: str
) -> None:
    """Phase, readiness and the state of the container."""
    status = status_of(pod(**changes), seen, ready=ready, address="10.200.0.2", since="now")
    assert status["phase"] == phase
    (container,) = status["containerStatuses"]
    assert list(container["state"]) == [state]
    truth = {one["type"]: one["status"] for one in status["conditions"]}
    is_ready = ready and phase == "Running"
    assert container["ready"] is is_ready
    assert truth == {"Initialized": "True", "ContainersReady": str(is_ready), "Ready": str(is_ready)}
    assert ("podIP" in status) is (seen is not None)
