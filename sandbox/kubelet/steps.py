"""What to do next about a pod, and what to report of it: pure decisions; starts, stops and sends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from sandbox.kubelet.pods import Pod

LONGEST_PAUSE_SECONDS = 30.0


class Step(Enum):
    """What the kubelet does about a pod."""

    WAIT = "wait"
    START = "start"
    STOP = "stop"
    FINISH = "finish"
    REMOVE = "remove"


@dataclass(frozen=True)
class Seen:
    """The process of a pod as it is now.

    Attributes:
        code: Its exit code; None while it runs.
        stopping: Whether it was asked to end.
        restarts: How often it was started again.
        ended_seconds: How long ago it ended.
    """

    code: int | None = None
    stopping: bool = False
    restarts: int = 0
    ended_seconds: float = 0.0


def next_step(pod: Pod, seen: Seen | None, *, files: bool) -> Step:
    """Decides about a pod; `files` says whether all that it mounts is there."""
    runs = seen is not None and seen.code is None
    if pod.deleting:
        return (Step.WAIT if seen and seen.stopping else Step.STOP) if runs else Step.REMOVE
    if runs or pod.finished or not pod.scheduled:
        return Step.WAIT
    if seen is None:
        return Step.START if files else Step.WAIT
    if not starts_again(pod, seen):
        return Step.FINISH
    return Step.START if files and seen.ended_seconds >= pause_seconds(seen.restarts) else Step.WAIT


def starts_again(pod: Pod, seen: Seen) -> bool:
    """Says whether a container that ended is started again."""
    return pod.restarts == "Always" or (pod.restarts == "OnFailure" and seen.code != 0)


def pause_seconds(restarts: int) -> float:
    """How long to wait before a container is started again: doubled each time, up to half a minute."""
    return min(2.0 ** min(restarts, 10), LONGEST_PAUSE_SECONDS)


def status_of(pod: Pod, seen: Seen | None, *, ready: bool, address: str, since: str) -> dict[str, Any]:
    """Gives the pod's status: `since` is when what it says began, as the API server writes times."""
    if seen is not None and seen.code is not None and not starts_again(pod, seen):
        phase = "Succeeded" if seen.code == 0 else "Failed"
    else:
        phase = "Running" if seen is not None else "Pending"
    ready = ready and phase == "Running"
    truth = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": [
            {"type": name, "status": str(true), "lastTransitionTime": since} for name, true in truth.items()
        ],
        "containerStatuses": [_container(pod, seen, phase, since) | {"ready": ready}],
    }
    return status | ({"podIP": address, "podIPs": [{"ip": address}]} if seen is not None else {})


def _container(pod: Pod, seen: Seen | None, phase: str, since: str) -> dict[str, Any]:
    if seen is None:
        state: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
    elif seen.code is None:
        state = {"running": {"startedAt": since}}
    elif phase == "Running":
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": f"exit code {seen.code}"}}
    else:
        reason = "Completed" if seen.code == 0 else "Error"
        state = {"terminated": {"exitCode": seen.code, "reason": reason, "finishedAt": since}}
    return {
        "name": pod.container,
        "image": pod.image,
        "imageID": pod.image if seen is not None else "",
        "started": seen is not None and seen.code is None,
        "restartCount": seen.restarts if seen is not None else 0,
        "state": state,
    }
