"""Durations and times as people write them on objects; reads no clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from msgspec import Struct

from policy.errors import FormatError

MAX_SECONDS: Final = 10 * 365 * 86_400
"""No duration is longer than ten years of 365 days."""
LAST_TIME: Final = datetime(9899, 12, 31, 23, 59, 59, tzinfo=UTC)
"""Times end before datetime does, so that durations can be added to any: anybody may write one on a pod."""

REMEMBERED: Final = 4096
"""Durations and times that are remembered as read: a pod is read again and again, and most of them stay."""

_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


class Duration(Struct, frozen=True, eq=False):
    """A span of time: `text` as it was given, `seconds` for every comparison."""

    text: str
    seconds: int

    def __str__(self) -> str:
        """The text as it was given."""
        return self.text

    def __eq__(self, other: object) -> bool:
        """Equal to a duration of as many seconds, however it is spelled."""
        return self.seconds == other.seconds if isinstance(other, Duration) else NotImplemented

    def __ne__(self, other: object) -> bool:
        """Written out, because Struct brings its own `!=`, which does not follow `==`."""
        return self.seconds != other.seconds if isinstance(other, Duration) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.seconds)

    def __lt__(self, other: Duration) -> bool:
        return self.seconds < other.seconds

    def __le__(self, other: Duration) -> bool:
        return self.seconds <= other.seconds

    def __gt__(self, other: Duration) -> bool:
        return self.seconds > other.seconds

    def __ge__(self, other: Duration) -> bool:
        return self.seconds >= other.seconds

    @property
    def delta(self) -> timedelta:
        """The span as a timedelta."""
        return timedelta(seconds=self.seconds)


@lru_cache(maxsize=REMEMBERED)
def parse_duration(text: str) -> Duration:
    """Reads `2h`, `90m`, `1d12h`: each unit at most once, in falling order, at most ten years.

    Raises:
        FormatError: the text is anything else.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise FormatError("must be a duration such as 90m, 2h or 1d12h")
    counts = zip(match.groups(), _UNITS.values(), strict=True)
    seconds = sum(int(count) * unit for count, unit in counts if count is not None)
    if seconds > MAX_SECONDS:
        raise FormatError("must be at most ten years (3650d)")
    return Duration(text, seconds)


def duration_of(seconds: int) -> Duration:
    """The duration of so many seconds in its canonical spelling: `5400` is `1h30m`, `0` is `0s`.

    Raises:
        FormatError: negative, or longer than ten years.
    """
    if not 0 <= seconds <= MAX_SECONDS:
        raise FormatError("must be between 0s and ten years (3650d)")
    rest, parts = seconds, []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return Duration("".join(parts) or "0s", seconds)


def parse_time(text: str) -> datetime:
    """Reads an RFC 3339 time, with or without fraction and offset, as an aware UTC datetime.

    A time later than LAST_TIME is read as that.

    Raises:
        FormatError: the text is no such time, or outside of the years 1 to 9999.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise FormatError("must be a time such as 2026-01-31T09:30:00Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = match.groups()[6:]
    offset = timedelta()
    if sign:
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes)) * (-1 if sign == "-" else 1)
    microsecond = int(((fraction or "") + "000000")[:6])
    try:
        local = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=timezone(offset))
        return min(local.astimezone(UTC), LAST_TIME)
    except (ValueError, OverflowError) as error:
        raise FormatError("must be a time such as 2026-01-31T09:30:00Z") from error


_parse_time = lru_cache(maxsize=REMEMBERED)(parse_time)


def readable_time(text: str | None) -> datetime | None:
    """Reads a time as `parse_time` does; None where there is none, or none that can be read."""
    try:
        return _parse_time(text or "")
    except FormatError:
        return None


def format_time(time: datetime) -> str:
    """Writes an aware datetime as RFC 3339 in UTC, whole seconds (cut, not rounded), with `Z`."""
    return time.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
