"""Compares clocks: this machine's with those of its servers, and a node's with the API server's; reads none.

A reaper whose clock is behind asks Prometheus for the past, and would not see that a pod has become busy.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from msgspec import structs

from policy.verdicts import Reason, VerdictKind
from reaper.evidence import Verdict
from reaper.pods import GpuPod

TOLERANCE_SECONDS = 60
EARLY_SECONDS = 300


def server_time(headers: Mapping[str, str]) -> datetime | None:
    """Gives what a server's clock showed when it answered; None if the answer does not say."""
    try:
        found = parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def disagreement(whose: str, theirs: datetime | None, ours: datetime, tolerance_seconds: float) -> str | None:
    """Gives a sentence if a server's clock and ours differ by more than that; a server may tell no time."""
    if theirs is None:
        return None
    ahead = (theirs - ours).total_seconds()
    if abs(ahead) <= tolerance_seconds:
        return None
    return f"the clock of {whose} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours"


def believed(verdict: Verdict, pod: GpuPod, early_seconds: float) -> Verdict:
    """Gives the verdict, unless it rests on a container that claims to be older than its pod.

    The clock of its node is behind then, and the samples may be those of an earlier pod of that name.
    """
    started = pod.containers_started
    if verdict.kind is not VerdictKind.IDLE or started is None:
        return verdict
    if started >= pod.created - timedelta(seconds=early_seconds):
        return verdict
    early = (pod.created - started).total_seconds()
    return structs.replace(
        verdict,
        kind=VerdictKind.UNKNOWN,
        reason=Reason.CLOCKS_DIFFER,
        idle_since=None,
        parked=False,
        sentence=f"a container claims to have started {early:.0f} s before its pod was created",
    )
