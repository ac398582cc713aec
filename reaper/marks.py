"""What the reaper wrote on a pod, read back; must not know verdicts or limits.

Three annotations carry it, so that a new process forgets nothing:

| idle-since | warned-uid | reclaim-at | means |
|---|---|---|---|
| set | - | - | seen Idle by a run of `--once`, or while snoozed; the next cycle may warn |
| set | this pod's | - | warned; nothing will be done to the pod |
| set | this pod's | set | warned; the action is due at `reclaim-at` |

Anything else (another pod's UID, an unreadable time, a sighting from before the pod itself) is no mark.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from policy.durations import format_time, parse_time
from policy.errors import FormatError
from policy.keys import REAPER_ONLY, Annotation
from policy.terms import Terms
from policy.verdicts import VerdictKind
from reaper.evidence import Verdict
from reaper.pods import GpuPod

CLOCK_SKEW = timedelta(minutes=5)
"""The reaper's clock may be behind the API server's."""


class Mark(Struct, frozen=True):
    """A sighting or a warning of one pod.

    Attributes:
        idle_since: Start of the idle stretch it belongs to.
        warned: False if the pod was only seen Idle.
        reclaim_at: When the action is due; None if none will be.
    """

    idle_since: datetime
    warned: bool = True
    reclaim_at: datetime | None = None


def mark_of(pod: GpuPod) -> Mark | None:
    """Reads the mark of a pod; None if it has none that counts for it."""
    found = pod.annotations
    try:
        idle_since = parse_time(found.get(Annotation.IDLE_SINCE, ""))
        reclaim_text = found.get(Annotation.RECLAIM_AT)
        reclaim_at = parse_time(reclaim_text) if reclaim_text is not None else None
    except FormatError:
        return None
    warned_uid = found.get(Annotation.WARNED_UID)
    if warned_uid is None:
        # A sighting names no UID: one that is older than the pod was copied from another.
        own = reclaim_at is None and idle_since >= pod.created - CLOCK_SKEW
        return Mark(idle_since, warned=False) if own else None
    return Mark(idle_since, reclaim_at=reclaim_at) if warned_uid == pod.uid else None


def has_any(pod: GpuPod) -> bool:
    """True if the pod carries one of our annotations, readable or not."""
    return any(key in pod.annotations for key in REAPER_ONLY)


def annotations_of(mark: Mark | None, uid: str) -> dict[str, Any]:
    """Gives the annotations that say this, as a merge patch (None removes)."""
    if mark is None:
        return dict.fromkeys((key.value for key in REAPER_ONLY), None)
    return {
        Annotation.IDLE_SINCE.value: format_time(mark.idle_since),
        Annotation.RECLAIM_AT.value: format_time(mark.reclaim_at) if mark.reclaim_at else None,
        Annotation.WARNED_UID.value: uid if mark.warned else None,
    }


def same_stretch(mark: Mark, verdict: Verdict, terms: Terms, last_idle: datetime | None) -> bool:
    """True if the idleness seen now is the one the mark speaks of, without a gap nobody looked at.

    An Idle verdict vouches for all of its window. When the mark was written its stretch was at least `after`
    long, and `last_idle` is until when this process saw no break since; the window of today's verdict must
    reach back to either.
    """
    if verdict.kind is not VerdictKind.IDLE or verdict.idle_since is None:
        return False
    known_until = mark.idle_since + terms.after.delta
    if last_idle is not None:
        known_until = max(known_until, last_idle)
    return verdict.idle_since <= known_until
