from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.durations import Duration, format_time, parse_duration, parse_time
from policy.snooze import snooze_of

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "idle_since", "keep", "until", "write", "told"),
    [
        pytest.param(None, None, None, None, None, False, id="no annotation is no snooze"),
        pytest.param(
            "4h",
            None,
            None,
            "2026-01-31T16:00:00Z",
            "2026-01-31T16:00:00Z",
            False,
            id="a duration starts now",
        ),
        pytest.param(
            "2026-01-31T16:00:00Z", None, None, "2026-01-31T16:00:00Z", None, False, id="a time stays"
        ),
        pytest.param(
            "2026-01-31T18:00:00+02:00",
            None,
            None,
            "2026-01-31T16:00:00Z",
            "2026-01-31T16:00:00Z",
            False,
            id="in UTC",
        ),
        pytest.param(
            "2d", None, None, "2026-02-01T12:00:00Z", "2026-02-01T12:00:00Z", True, id="at most a day"
        ),
        pytest.param(
            "2027-01-01T00:00:00Z",
            None,
            None,
            "2026-02-01T12:00:00Z",
            "2026-02-01T12:00:00Z",
            True,
            id="of a time too",
        ),
        pytest.param(
            "10h",
            "2026-01-28T18:00:00Z",
            None,
            "2026-01-31T18:00:00Z",
            "2026-01-31T18:00:00Z",
            True,
            id="at most 72h after it became idle",
        ),
        pytest.param(
            "10h",
            "2026-01-31T10:00:00Z",
            "4h",
            "2026-01-31T14:00:00Z",
            "2026-01-31T14:00:00Z",
            True,
            id="or as the policy says",
        ),
        pytest.param(
            "4h", "2026-01-27T12:00:00Z", None, None, "2026-01-30T12:00:00Z", True, id="used up: not at all"
        ),
        pytest.param("2026-01-31T11:00:00Z", None, None, None, None, False, id="the past is no snooze"),
        pytest.param("0s", None, None, None, "2026-01-31T12:00:00Z", False, id="nor is no time"),
        pytest.param("tomorrow", None, None, None, None, True, id="nonsense is said"),
        pytest.param("", None, None, None, None, True, id="so is an empty value"),
        pytest.param(
            "9999-12-31T23:59:59Z",
            None,
            None,
            "2026-02-01T12:00:00Z",
            "2026-02-01T12:00:00Z",
            True,
            id="the end",
        ),
    ],
)
def test_snoozes(
    value: str | None,
    idle_since: str | None,
    keep: str | None,
    until: str | None,
    write: str | None,
    told: bool,
) -> None:
    """A snooze is a time or a duration, bounded twice."""
    since = None if idle_since is None else parse_time(idle_since)
    snooze = snooze_of(value, NOW, since, None if keep is None else parse_duration(keep))
    assert (None if snooze.until is None else format_time(snooze.until)) == until
    assert snooze.write == write
    assert (snooze.problem is not None) is told


@given(
    st.one_of(
        st.integers(0, 10**7).map(lambda seconds: f"{seconds}s"),
        st.integers(-(10**7), 10**7).map(lambda seconds: format_time(NOW + timedelta(seconds=seconds))),
    ),
    st.none() | st.integers(0, 10**6).map(lambda seconds: NOW - timedelta(seconds=seconds)),
    st.none() | st.integers(1, 10**6).map(lambda seconds: Duration(f"{seconds}s", seconds)),
)
def test_what_is_written_is_stable(value: str, idle_since: datetime | None, keep: Duration | None) -> None:
    """A snooze never exceeds its bounds, and what the reaper writes back means the same a moment later."""
    snooze = snooze_of(value, NOW, idle_since, keep)
    assert snooze.until is None or NOW < snooze.until <= NOW + timedelta(hours=24)
    if snooze.write is not None:
        later = snooze_of(snooze.write, NOW + timedelta(milliseconds=1), idle_since, keep)
        assert (later.until, later.write, later.problem) == (snooze.until, None, None)
