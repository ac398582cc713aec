"""Reads a user's snooze and bounds it; must not know who asked, nor how it is written back.

`keep-until` holds a time, or a duration that the reaper turns into a time once it sees it. Either is cut to the longest
snooze from now on, and to the policy's bound counted from the start of the idle stretch. The cut is written back, so that
a time far ahead does not become a snooze that rolls on for ever.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from policy.durations import format_time, parse_duration, parse_time
from policy.errors import FormatError


class Snooze(Struct, frozen=True):
    """A readable snooze.

    Attributes:
        until: Keep the pod until then; may have passed.
        rewrite: The text that belongs on the pod instead of what is there; None if it already says so.
        cut: True if the user asked for longer than allowed.
    """

    until: datetime
    rewrite: str | None = None
    cut: bool = False

    def holds(self, now: datetime) -> bool:
        """True while the pod is to be kept."""
        return now < self.until


def read_snooze(
    text: str | None, now: datetime, longest_seconds: int, idle_since: datetime | None, bound_seconds: int
) -> Snooze | str | None:
    """Gives the snooze, the sentence why it cannot be read, or None if nobody asked.

    Args:
        text: The value of `keep-until`.
        now: The time of the cycle.
        longest_seconds: The longest snooze from now.
        idle_since: Start of the idle stretch, if the pod is idle.
        bound_seconds: The policy's `bounds.keepUntil`, counted from `idle_since`.
    """
    if text is None:
        return None
    asked = _asked(text.strip(), now)
    if isinstance(asked, str):
        return asked
    latest = [asked, now + timedelta(seconds=longest_seconds)]
    if idle_since is not None:
        latest.append(idle_since + timedelta(seconds=bound_seconds))
    until = min(latest).replace(microsecond=0)
    written = format_time(until)
    return Snooze(until, None if written == text else written, until < asked.replace(microsecond=0))


def _asked(text: str, now: datetime) -> datetime | str:
    try:
        return now + timedelta(seconds=parse_duration(text).seconds)
    except (FormatError, OverflowError):
        pass
    try:
        return parse_time(text)
    except (FormatError, OverflowError):
        return f"keep-until {text[:40]!r} is neither a duration such as 4h nor a time such as 2025-01-31T18:00:00Z"
