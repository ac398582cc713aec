"""When a cycle is too suspect to act on, and when it is not any more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reaper.brakes import Brake, Condition, Sample, advance
from reaper.limits import BrakeLimits
from tests.reaper.acting.made import NOON, minutes

LIMITS = BrakeLimits()
T, U, F = Condition.TURNED_IDLE, Condition.UNKNOWN, Condition.FALLEN


def sample(minute: float, judged: int = 100, **more: int) -> Sample:
    """Gives a sample some minutes after noon."""
    return Sample(at=NOON + minutes(minute), judged=judged, **more)


def after(samples: Sequence[Sample], released_at: datetime | None = None) -> Brake:
    """Gives the brake after samples."""
    brake = Brake()
    for one in samples:
        brake = advance(brake, one, released_at, LIMITS)
    return brake


CASES = [
    pytest.param([sample(0)], (), id="a calm cluster"),
    pytest.param([sample(0, turned_idle=20)], (T,), id="a fifth turns idle at once"),
    pytest.param([sample(0, turned_idle=19)], (), id="less than a fifth"),
    pytest.param([sample(0, 10, turned_idle=7)], (), id="fewer than eight devices are no crowd"),
    pytest.param([sample(0, 10, turned_idle=8)], (T,), id="eight of ten"),
    pytest.param(
        [sample(0, turned_idle=10), sample(14, turned_idle=10)], (T,), id="within a quarter of an hour"
    ),
    pytest.param([sample(0, turned_idle=10), sample(15, turned_idle=10)], (), id="spread over more"),
    pytest.param([sample(0, unknown=30)], (U,), id="three tenths Unknown"),
    pytest.param([sample(0, unknown=29)], (), id="fewer Unknown"),
    pytest.param([sample(0, 0)], (), id="an empty cluster"),
    pytest.param([sample(0), sample(59, 80)], (F,), id="a fifth fewer within the hour"),
    pytest.param([sample(0), sample(59, 81)], (), id="less than a fifth fewer"),
    pytest.param([sample(0), sample(60, 80)], (), id="a fifth fewer over more than an hour"),
    pytest.param([sample(0), sample(1, 80, reclaimed=20)], (), id="what the reaper took itself is no loss"),
    pytest.param([sample(0), sample(1, 60, reclaimed=20)], (F,), id="but what went beside it is"),
    pytest.param([sample(0, 50), sample(1, 100), sample(2, 79)], (F,), id="counted from the highest"),
    pytest.param([sample(0, turned_idle=20, unknown=30)], (T, U), id="two conditions"),
]


@pytest.mark.parametrize(("samples", "expected"), CASES)
def test_conditions(samples: Any, expected: tuple[Condition, ...]) -> None:
    """Each condition of the design, at its edge."""
    brake = after(samples)
    assert brake.conditions == tuple(sorted(expected))
    assert brake.engaged is bool(expected)
    assert bool(brake.sentence) is bool(expected)


def test_it_lets_go_after_a_quarter_of_an_hour_without_the_condition() -> None:
    """Not a minute before."""
    samples = [sample(0, unknown=50), *(sample(minute) for minute in range(1, 15))]
    assert after(samples).engaged
    assert not after([*samples, sample(15)]).engaged


def test_a_condition_that_comes_back_starts_the_wait_again() -> None:
    """The quarter of an hour is without a break."""
    samples = [sample(0, unknown=50), sample(10), sample(14, unknown=50), sample(20)]
    assert after(samples).engaged
    assert after([*samples, sample(29)]).engaged is False


def test_a_person_can_release_it() -> None:
    """Also while the condition holds, until it was false once."""
    engaged = after([sample(0, unknown=50)])
    released = advance(engaged, sample(1, unknown=50), NOON + minutes(0.5), LIMITS)
    assert not released.engaged
    later = advance(released, sample(2, unknown=50), NOON + minutes(0.5), LIMITS)
    assert not later.engaged
    calm = advance(later, sample(3), NOON + minutes(0.5), LIMITS)
    again = advance(calm, sample(4, unknown=50), NOON + minutes(0.5), LIMITS)
    assert again.engaged


def test_a_release_of_one_condition_does_not_cover_another() -> None:
    """Who waves Unknown through has not seen the fall."""
    engaged = after([sample(0, unknown=50)])
    released = advance(engaged, sample(1, 50, unknown=50), NOON + minutes(0.5), LIMITS)
    assert released.conditions == (F,)
    assert released.engaged


@pytest.mark.parametrize("minute", [-5, 5], ids=["a release before it engaged", "a release in the future"])
def test_a_release_out_of_time_does_nothing(minute: int) -> None:
    """Only what was released while it held is released."""
    engaged = after([sample(0, unknown=50)])
    assert advance(engaged, sample(1, unknown=50), NOON + minutes(minute), LIMITS).engaged


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)), max_size=60))
def test_it_is_engaged_exactly_while_a_condition_held_lately(rows: list[tuple[int, int, int]]) -> None:
    """Whatever the history: engaged if and only if a condition held within the release time."""
    brake = Brake()
    last_true: int | None = None
    for minute, (judged, unknown, turned) in enumerate(rows):
        one = sample(minute, judged, unknown=min(unknown, judged), turned_idle=min(turned, judged))
        brake = advance(brake, one, None, LIMITS)
        if brake.conditions:
            last_true = minute
        assert brake.engaged is (last_true is not None and minute - last_true < 15)
