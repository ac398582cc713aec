"""Tells pods that have just turned idle from those that were before; must not know what the brake does."""

from __future__ import annotations

from datetime import datetime, timedelta

from policy.verdicts import VerdictKind
from reaper.memory import Seen
from reaper.subjects import Subject


def turned_idle(
    subject: Subject, before: Seen, *, once: bool, first: bool, span_seconds: int, now: datetime
) -> bool:
    """True if the pod's devices count as turned idle with this cycle.

    A process that goes on compares with its last verdict; its first verdicts are where it starts from. A
    single run has none and looks at the times: a stretch becomes a verdict once it is as long as the terms
    want.
    """
    verdict = subject.verdict
    if verdict is None or verdict.kind is not VerdictKind.IDLE or subject.skip is not None:
        return False
    if not once:
        return not first and before.kind is not None and before.kind is not VerdictKind.IDLE
    starts = [verdict.idle_since, subject.mark.idle_since if subject.mark else None]
    start = min((one for one in starts if one is not None), default=now)
    after = subject.terms.after.delta if subject.terms else timedelta()
    return now - (start + after) < timedelta(seconds=span_seconds)
