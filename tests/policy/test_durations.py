from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.durations import (
    LAST_TIME,
    MAX_SECONDS,
    Duration,
    duration_of,
    format_time,
    parse_duration,
    parse_time,
)
from policy.errors import FormatError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("90m", 5_400, id="minutes may exceed an hour"),
        pytest.param("2h", 7_200, id="hours"),
        pytest.param("1d12h", 129_600, id="a day has 24 hours"),
        pytest.param("1d2h3m4s", 93_784, id="all units in falling order"),
        pytest.param("0s", 0, id="zero is a duration"),
        pytest.param("007h", 25_200, id="leading zeros are digits"),
        pytest.param("3650d", MAX_SECONDS, id="ten years are the longest"),
    ],
)
def test_durations_read(text: str, seconds: int) -> None:
    """A duration keeps its text, and compares by its seconds."""
    duration = parse_duration(text)
    assert (duration.text, duration.seconds, str(duration)) == (text, seconds, text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing is no duration"),
        pytest.param("2", id="a unit is required"),
        pytest.param("h", id="a number is required"),
        pytest.param("1h1h", id="a unit comes once"),
        pytest.param("5m1h", id="units come in falling order"),
        pytest.param("1.5h", id="fractions are refused"),
        pytest.param("-1h", id="signs are refused"),
        pytest.param("1w", id="weeks are refused"),
        pytest.param("1H", id="units are lower case"),
        pytest.param(" 1h", id="spaces are refused"),
        pytest.param("1h\n", id="line breaks are refused"),
        pytest.param("1500ms", id="milliseconds are refused"),
        pytest.param("\u0661h", id="other digits than ASCII are refused"),
        pytest.param("3650d1s", id="more than ten years is refused"),
        pytest.param("9" * 5_000 + "s", id="huge numbers are refused unread"),
    ],
)
def test_durations_refused(text: str) -> None:
    """Anything else is a FormatError."""
    with pytest.raises(FormatError):
        parse_duration(text)


@given(st.integers(0, MAX_SECONDS))
def test_canonical_durations_round_trip(seconds: int) -> None:
    """The canonical text of any number of seconds reads as that number, and is its own canonical text."""
    duration = duration_of(seconds)
    again = parse_duration(duration.text)
    assert again.seconds == seconds
    assert duration_of(again.seconds).text == duration.text


@pytest.mark.parametrize("seconds", [-1, MAX_SECONDS + 1], ids=["negative", "more than ten years"])
def test_durations_of_other_seconds_are_refused(seconds: int) -> None:
    """Seconds without a duration are refused."""
    with pytest.raises(FormatError):
        duration_of(seconds)


def test_durations_compare_by_length() -> None:
    """The spelling takes no part in comparison or hashing."""
    hour, minutes = parse_duration("1h"), parse_duration("60m")
    assert hour == minutes
    assert hash(hour) == hash(minutes)
    assert hour <= minutes < parse_duration("61m")
    assert parse_duration("1d") > hour >= minutes
    assert hour != Duration("1h", 3_601)
    assert hour != "1h"
    assert hour.delta == timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-01-31T09:30:00Z", "2026-01-31T09:30:00Z", id="whole seconds in UTC"),
        pytest.param("2026-01-31T09:30:00.123456789Z", "2026-01-31T09:30:00Z", id="nanoseconds are cut"),
        pytest.param(
            "2026-01-31T09:30:00.999999Z", "2026-01-31T09:30:00Z", id="microseconds are not rounded"
        ),
        pytest.param("2026-01-31T11:30:00+02:00", "2026-01-31T09:30:00Z", id="an offset is converted"),
        pytest.param("2025-12-31T23:30:00-10:00", "2026-01-01T09:30:00Z", id="a negative offset too"),
    ],
)
def test_times_read(text: str, expected: str) -> None:
    """Times are read with fractions and offsets, and written in UTC with whole seconds."""
    time = parse_time(text)
    assert time.tzinfo is UTC
    assert format_time(time) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing is no time"),
        pytest.param("2026-01-31", id="a date is no time"),
        pytest.param("2026-01-31T09:30:00", id="an offset is required"),
        pytest.param("2026-02-30T09:30:00Z", id="a day that does not exist"),
        pytest.param("2026-01-31T24:00:00Z", id="an hour that does not exist"),
        pytest.param("2026-01-31 09:30:00Z", id="a space is no T"),
        pytest.param("2026-01-31T09:30:00+25:00", id="an offset that does not exist"),
        pytest.param("0000-01-31T09:30:00Z", id="the year 0"),
        pytest.param("0001-01-01T00:00:00+14:00", id="a time before the year 1"),
        pytest.param("2026-01-31T09:30:00Z\n", id="a trailing line break"),
    ],
)
def test_times_refused(text: str) -> None:
    """Anything else is a FormatError, never another exception."""
    with pytest.raises(FormatError):
        parse_time(text)


def test_ten_years_can_be_added_to_any_time() -> None:
    """The end of time is read as a time well before it."""
    assert parse_time("9999-12-31T23:59:59Z") == LAST_TIME
    assert LAST_TIME + 9 * parse_duration("3650d").delta > LAST_TIME


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001 - Hypothesis adds the zone
        max_value=datetime(9899, 1, 1),  # noqa: DTZ001 - as above
        timezones=st.just(timezone(timedelta(hours=-5))),
    )
)
def test_times_round_trip(time: datetime) -> None:
    """A written time reads as itself, to the second."""
    assert parse_time(format_time(time)) == time.replace(microsecond=0)


@given(st.text(max_size=40))
def test_reading_never_raises_anything_else(text: str) -> None:
    """Whatever a user writes is a value or a FormatError."""
    for parse in (parse_duration, parse_time):
        with contextlib.suppress(FormatError):
            assert str(parse(text))
