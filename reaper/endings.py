"""How the containers of pods ended, kept until the records of their pods are completed; writes nothing."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from typing import Any

from msgspec import Struct

from policy.durations import format_time, readable_time
from reaper.pods import GpuPod

REMEMBERED = 2000
MOST_CONTAINERS = 64
LONGEST_REASON = 128


class Ended(Struct, frozen=True):
    """How one container ended."""

    name: str
    exit_code: int
    reason: str = ""
    finished_at: datetime | None = None


class Endings:
    """The last that was seen of pods whose containers ended, the newest first to stay."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._seen: OrderedDict[str, tuple[Ended, ...]] = OrderedDict()

    def note(self, pod: GpuPod) -> None:
        """Looks at a pod as the watch shows it; the kubelet tells of the end before the pod is gone."""
        ended = endings_of(pod)
        if ended:
            self._seen[pod.uid] = ended
            self._seen.move_to_end(pod.uid)
            if len(self._seen) > self._most:
                self._seen.popitem(last=False)

    def of(self, uid: str) -> tuple[Ended, ...]:
        """Gives how the containers of a pod ended; empty where nobody saw it."""
        return self._seen.get(uid, ())


def endings_of(pod: GpuPod) -> tuple[Ended, ...]:
    """Reads the containers that have ended, in the order of the pod."""
    status = pod.pod.status
    found = []
    for one in (status.container_statuses or ()) if status else ():
        terminated = one.state.terminated if one.state else None
        if terminated is not None and terminated.exit_code is not None:
            reason = (terminated.reason or "")[:LONGEST_REASON]
            found.append(Ended(one.name, terminated.exit_code, reason, readable_time(terminated.finished_at)))
    return tuple(found[:MOST_CONTAINERS])


def as_status(ended: tuple[Ended, ...]) -> list[dict[str, Any]]:
    """Gives the containers as a GPUReclaim has them."""
    return [
        {
            "name": one.name,
            "exitCode": one.exit_code,
            **({"reason": one.reason} if one.reason else {}),
            **({"finishedAt": format_time(one.finished_at)} if one.finished_at else {}),
        }
        for one in ended
    ]
