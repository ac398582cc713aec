"""A user's wish to keep a pod for now, bounded; reads no clock, and writes nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from policy import defaults
from policy.durations import Duration, format_time, parse_duration, parse_time
from policy.errors import FormatError

DEFAULT_KEEP: Final = parse_duration(defaults.KEEP_UNTIL)


class Snooze(Struct, frozen=True):
    """What the annotation `keep-until` comes to.

    `until` is None where it says nothing that can be read, or only the past. `write` is the value that the
    reaper puts into the annotation, so that a duration starts to run and what is too long is cut once; None
    leaves it.
    """

    until: datetime | None = None
    write: str | None = None
    problem: str | None = None


def snooze_of(
    value: str | None,
    now: datetime,
    idle_since: datetime | None,
    keep_until: Duration | None,
    longest_seconds: int = defaults.SNOOZE_SECONDS,
) -> Snooze:
    """Reads `keep-until`: a time, or a duration from now on.

    A snooze ends at the latest `longest_seconds` after now, and the policy's `keepUntil` (default 72h)
    after the pod became idle. It never ends earlier because of a bound than it would without a snooze, that
    is now.
    """
    if value is None:
        return Snooze()
    try:
        asked = _asked(value, now)
    except FormatError as error:
        return Snooze(problem=f"keep-until {value[:63]!r} {error}")
    latest = now + timedelta(seconds=longest_seconds)
    if idle_since is not None:
        latest = min(latest, idle_since + (keep_until or DEFAULT_KEEP).delta)
    until = min(asked, latest).replace(microsecond=0)
    text = format_time(until)
    problem = None
    if asked > latest:
        problem = f"keep-until {value[:63]!r} is too long, the pod is kept until {text}"
    return Snooze(until if until > now else None, text if text != value else None, problem)


def _asked(value: str, now: datetime) -> datetime:
    """The time that a snooze asks for."""
    try:
        return now + parse_duration(value).delta
    except FormatError:
        pass
    except OverflowError as error:
        raise FormatError("is too far away") from error
    try:
        return parse_time(value)
    except FormatError as error:
        raise FormatError("must be a time such as 2026-01-31T09:30:00Z or a duration such as 4h") from error
