"""Scrape intervals, told from the data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reaper.intervals import DETECT_SECONDS, EARLIER_SECONDS, USUAL_SECONDS, Scrapes, tell_intervals


def scraped(interval: int, phase: float, age: float, closed: bool) -> Scrapes:
    """What a series of some age shows: counts in open or closed ranges, and the time between two samples."""
    ages = [phase * interval + interval * number for number in range(int(1400 / interval) + 1)]
    ages = [one for one in ages if one <= age]
    counts = {
        span: float(sum(one < span or (closed and one == span) for one in ages)) for span in DETECT_SECONDS
    }
    earlier = [one for one in ages if EARLIER_SECONDS <= one < EARLIER_SECONDS + 300]
    return Scrapes(counts, earlier[0] - ages[0] if earlier else None, ages[0] if ages else 0.0)


def told(scrapes: Scrapes) -> float | None:
    """The interval of one series alone."""
    return tell_intervals({"a": scrapes}).get("a")


PHASES = st.floats(0, 1, exclude_max=True)


@given(interval=st.integers(1, 190), phase=PHASES, age=st.floats(0, 1400), closed=st.booleans())
def test_the_interval_is_never_overestimated(interval: int, phase: float, age: float, closed: bool) -> None:
    """Any interval, phase and age of a series, and open or closed ranges: never above the truth."""
    found = told(scraped(interval, phase, age, closed))
    assert found is None or found <= interval * 1.006
    if age > 1100:
        assert found is not None
        assert found >= interval * 0.5


@given(interval=st.sampled_from(USUAL_SECONDS), phase=st.floats(0.01, 0.99))
def test_usual_intervals_are_told_exactly(interval: int, phase: float) -> None:
    """What people set is what evidence shows."""
    assert told(scraped(interval, phase, 1400, closed=False)) == interval


@pytest.mark.parametrize(
    ("scrapes", "interval"),
    [
        pytest.param(Scrapes({600: 40, 120: 8}, 600.0), 15.0, id="settled"),
        pytest.param(Scrapes({600: 39, 120: 8}, 600.0), 15.0, id="one scrape was lost"),
        pytest.param(Scrapes({600: 38, 120: 7}, 600.003), 15.0, id="two were lost, and clocks are not exact"),
        pytest.param(Scrapes({600: 40, 120: 8}, 600.0, 19.0), 15.0, id="the last scrape failed"),
        pytest.param(Scrapes({600: 12, 120: 8}), 120 / 9, id="begun three minutes ago"),
        pytest.param(Scrapes({600: 24, 120: 8}, 600.0), 120 / 9, id="full of gaps, but not lately"),
        pytest.param(Scrapes({600: 2, 120: 1}, 600.0), None, id="five minutes"),
        pytest.param(Scrapes({600: 2, 120: 2}), None, id="begun just now"),
        pytest.param(Scrapes({}), None, id="nothing"),
        pytest.param(Scrapes({600: 600, 120: 120}, 600.0), 1.0, id="a second"),
    ],
)
def test_interval(scrapes: Scrapes, interval: float | None) -> None:
    """Counts and two times tell the interval, or that it cannot be told."""
    assert told(scrapes) == interval


def test_a_new_series_is_scraped_like_the_others() -> None:
    """Where an interval of others fits, a new series has the same; a much faster one does not."""
    new, fast = Scrapes({600: 12, 120: 8}), Scrapes({600: 30, 120: 24})
    found = tell_intervals({"old": Scrapes({600: 40, 120: 8}, 600.0), "new": new, "fast": fast})
    assert found == {"old": 15.0, "new": 15.0, "fast": 4.8}
