"""What holds for the verdict whatever the signals are."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from policy.terms import Statistic
from policy.verdicts import Reason, VerdictKind
from reaper.signals import Reading
from reaper.sources import Metric
from tests.reaper.judging.made import (
    ACTIVE,
    ENGINE,
    METRICS,
    UTILIZATION,
    device,
    reading,
    verdict,
)
from tests.reaper.judging.past import NOW

SAMPLES = st.lists(st.none() | st.floats(0, 100), min_size=240, max_size=240)


def of_samples(samples: list[float | None], metric: Metric = UTILIZATION) -> Reading:
    """What an hour of samples, one every 15 s and None for a missing one, comes to."""
    known = [value for value in samples if value is not None]
    late = next((index for index, value in enumerate(reversed(samples)) if value is not None), None)
    return reading(
        metric,
        maximum=max(known, default=None),
        average=sum(known) / len(known) if known else None,
        samples=len(known),
        last_sample=None if late is None or late >= 20 else NOW - timedelta(seconds=15 * late),
    )


def mostly(low: st.SearchStrategy[float]) -> st.SearchStrategy[list[float | None]]:
    """Hours that are near to idle, so that the verdict is in doubt."""
    return st.builds(
        lambda value, holes, odd: [None if index in holes else odd.get(index, value) for index in range(240)],
        low,
        st.sets(st.integers(0, 239), max_size=30),
        st.dictionaries(st.integers(0, 239), st.floats(0, 100), max_size=2),
    )


HOURS = mostly(st.floats(0, 5)) | SAMPLES


@given(samples=HOURS, where=st.integers(0, 239), value=st.floats(5, 100))
def test_a_busy_sample_never_makes_idle(samples: list[float | None], where: int, value: float) -> None:
    """Whatever an hour looks like: with one sample at or above the threshold it is not Idle."""
    samples = [value if index == where else one for index, one in enumerate(samples)]
    assert verdict(device(of_samples(samples))).kind is VerdictKind.ACTIVE


@given(samples=HOURS, lost=st.sets(st.integers(0, 239)), statistic=st.sampled_from(Statistic))
def test_lost_samples_never_make_idle(
    samples: list[float | None], lost: set[int], statistic: Statistic
) -> None:
    """Losing samples that are below the threshold may lose a verdict, but never makes one of Idle."""
    before = verdict(device(of_samples(samples)), statistic=statistic)
    kept = [None if index in lost and (one or 0.0) < 5 else one for index, one in enumerate(samples)]
    after = verdict(device(of_samples(kept)), statistic=statistic)
    if before.kind is not VerdictKind.IDLE:
        assert after.kind is not VerdictKind.IDLE


READINGS = st.builds(
    reading,
    st.sampled_from([UTILIZATION, ENGINE, METRICS["dram"]]),
    maximum=st.none() | st.sampled_from([0.0, 4.0, 5.0, 90.0]),
    samples=st.sampled_from([0, 100, 216, 240]),
    discarded=st.sampled_from([0, 3]),
    interval=st.none() | st.just(15.0),
    last_sample=st.none() | st.sampled_from([NOW, NOW - timedelta(minutes=4)]),
)
DEVICES = st.lists(READINGS, min_size=1, max_size=3, unique_by=lambda one: one.metric.name)


@given(several=st.lists(DEVICES, min_size=1, max_size=3))
def test_the_order_of_series_does_not_matter(several: list[list[Reading]]) -> None:
    """The same signals in any order come to the same kind and reason."""
    devices = [device(*readings, name=f"GPU-{index}") for index, readings in enumerate(several)]
    expected = verdict(*devices)
    for order in permutations(devices):
        turned = [msgspec.structs.replace(one, readings=one.readings[::-1]) for one in order]
        found = verdict(*turned)
        assert (found.kind, found.reason) == (expected.kind, expected.reason)


@given(several=st.lists(DEVICES, min_size=1, max_size=3), more=READINGS)
def test_a_further_signal_never_makes_idle(several: list[list[Reading]], more: Reading) -> None:
    """One more signal can only take idleness away, unless it is the first that could prove it."""
    devices = [device(*readings, name=f"GPU-{index}") for index, readings in enumerate(several)]
    before = verdict(*devices)
    if before.kind is VerdictKind.IDLE or before.reason in {Reason.NO_SERIES, Reason.PARTIAL_DEVICES}:
        return
    first = msgspec.structs.replace(devices[0], readings=(*devices[0].readings, more))
    assert verdict(first, *devices[1:]).kind is not VerdictKind.IDLE


@given(several=st.lists(DEVICES, min_size=1, max_size=4))
def test_idle_means_that_all_is_proven(several: list[list[Reading]]) -> None:
    """Idle never rests on a signal that is missing, late, too thin, or at the threshold."""
    devices = [device(*readings, name=f"GPU-{index}") for index, readings in enumerate(several)]
    found = verdict(*devices)
    if found.kind is VerdictKind.IDLE:
        for one in (one for readings in several for one in readings):
            assert one.maximum is not None
            assert one.maximum < 5
            assert one.samples >= 216
            assert one.last_sample == NOW
        assert all(any(one.metric.principal for one in readings) for readings in several)
    assert (found.kind is VerdictKind.ACTIVE) == (found.reason in ACTIVE)
