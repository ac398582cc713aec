"""When the reaper may act in nights in which clocks change, minute by minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

import pytest

from policy.spec import ActWindow
from reaper.survey import is_open

SATURDAY, SUNDAY = 5, 6
MINUTE = timedelta(minutes=1)


def spans(window: ActWindow, day: str) -> Iterator[str]:
    """Gives when a window is open between noon of a day and the noon after, in UTC, both ends as times."""
    at = datetime.fromisoformat(f"{day}T12:00+00:00").astimezone(UTC)
    end = at + timedelta(days=1)
    began = None
    while at <= end:
        opened = is_open(window, at) and at < end
        if opened and began is None:
            began = at
        if not opened and began is not None:
            yield f"{began:%H:%M}-{at:%H:%M}"
            began = None
        at += MINUTE


# The days before. On Sunday clocks go from 2 to 3 or from 3 to 2 in Berlin, from 2 to 3 or from 2 to 1 in
# New York, and from 24 to 1 or from 24 to 23 in Santiago.
BERLIN = {"spring": ("Europe/Berlin", "2025-03-29"), "autumn": ("Europe/Berlin", "2025-10-25")}
NEW_YORK = {"spring": ("America/New_York", "2025-03-08"), "autumn": ("America/New_York", "2025-11-01")}
SANTIAGO = {"spring": ("America/Santiago", "2025-09-06"), "autumn": ("America/Santiago", "2025-04-05")}

NIGHTS = [
    pytest.param(BERLIN["spring"], SATURDAY, "22:00-06:00", ["21:00-04:00"], id="Berlin, 7 hours of night"),
    pytest.param(BERLIN["autumn"], SATURDAY, "22:00-06:00", ["20:00-05:00"], id="Berlin, 9 hours of night"),
    pytest.param(BERLIN["spring"], SUNDAY, "00:00-06:00", ["23:00-04:00"], id="Berlin, Sunday begins at 0"),
    pytest.param(BERLIN["spring"], SUNDAY, "02:10-02:50", [], id="Berlin, within the hour that is skipped"),
    pytest.param(BERLIN["spring"], SUNDAY, "02:00-03:00", [], id="Berlin, the hour that is skipped"),
    pytest.param(BERLIN["spring"], SUNDAY, "01:30-02:30", ["00:30-01:00"], id="Berlin, the end is skipped"),
    pytest.param(BERLIN["spring"], SUNDAY, "02:30-04:00", ["01:00-02:00"], id="Berlin, the start is skipped"),
    pytest.param(
        BERLIN["autumn"],
        SUNDAY,
        "02:10-02:50",
        ["00:10-00:50", "01:10-01:50"],
        id="Berlin, within the hour that comes twice",
    ),
    pytest.param(
        BERLIN["autumn"], SUNDAY, "02:00-03:00", ["00:00-02:00"], id="Berlin, the hour that comes twice"
    ),
    pytest.param(
        BERLIN["autumn"],
        SUNDAY,
        "01:30-02:30",
        ["23:30-00:30", "01:00-01:30"],
        id="Berlin, the end comes twice",
    ),
    pytest.param(
        BERLIN["autumn"],
        SUNDAY,
        "02:30-04:00",
        ["00:30-01:00", "01:30-03:00"],
        id="Berlin, the start comes twice",
    ),
    pytest.param(
        NEW_YORK["spring"], SATURDAY, "22:00-06:00", ["03:00-10:00"], id="New York, 7 hours of night"
    ),
    pytest.param(
        NEW_YORK["autumn"], SATURDAY, "22:00-06:00", ["02:00-11:00"], id="New York, 9 hours of night"
    ),
    pytest.param(NEW_YORK["spring"], SUNDAY, "02:10-02:50", [], id="New York, within the skipped hour"),
    pytest.param(
        NEW_YORK["spring"], SUNDAY, "01:30-03:30", ["06:30-07:30"], id="New York, around the skipped hour"
    ),
    pytest.param(
        NEW_YORK["autumn"],
        SUNDAY,
        "01:10-01:50",
        ["05:10-05:50", "06:10-06:50"],
        id="New York, within the hour that comes twice",
    ),
    pytest.param(
        NEW_YORK["autumn"], SUNDAY, "00:30-02:30", ["04:30-07:30"], id="New York, around the hour twice"
    ),
    pytest.param(SANTIAGO["spring"], SUNDAY, "00:00-02:00", ["04:00-05:00"], id="Santiago, midnight skipped"),
    pytest.param(
        SANTIAGO["spring"], SATURDAY, "22:00-02:00", ["02:00-05:00"], id="Santiago, over the midnight skipped"
    ),
    pytest.param(
        SANTIAGO["autumn"], SATURDAY, "23:00-00:00", ["02:00-04:00"], id="Santiago, Saturday has 25 hours"
    ),
    pytest.param(
        SANTIAGO["autumn"], SUNDAY, "00:00-02:00", ["04:00-06:00"], id="Santiago, Sunday begins once"
    ),
]


@pytest.mark.parametrize(("night", "day", "text", "expected"), NIGHTS)
def test_the_clock_on_the_wall_counts(
    night: tuple[str, str], day: int, text: str, expected: list[str]
) -> None:
    """What it does not show is never within a window, and what it shows twice is within twice."""
    zone, before = night
    start, end = (time.fromisoformat(one) for one in text.split("-"))
    assert list(spans(ActWindow(frozenset({day}), start, end, zone), before)) == expected
