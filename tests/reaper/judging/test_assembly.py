"""How answers become signals: labels, scrapers, units."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reaper.answers import Asked, Key, place_of, table_of
from reaper.assembly import Timing, assemble, merge
from reaper.exporters import AMD, DCGM, HAMI_LEGACY
from reaper.prometheus import Sample
from reaper.queries import Series
from reaper.signals import Reading, Signals
from reaper.sources import EXPORTED, PLAIN, WHOLE
from tests.reaper.judging.past import NOW

UTILIZATION = Series(DCGM, DCGM.metrics[0], EXPORTED)
ENGINE = Series(DCGM, DCGM.metrics[1], EXPORTED)
POD = {"exported_namespace": "team", "exported_pod": "p", "exported_container": "main", "UUID": "GPU-0"}


def signals(answers: dict[Key, list[Sample]], step: float = 15.0) -> Signals:
    """The signals of one hour."""
    table = table_of(answers, {})
    return assemble(table, {key[0]: Timing(steps={3600: step}) for key in answers}, 3600, NOW)


@pytest.mark.parametrize(
    ("series", "labels", "expected"),
    [
        pytest.param(UTILIZATION, POD, ("team", "p", "main", "GPU-0", ""), id="labels with the prefix"),
        pytest.param(
            Series(DCGM, DCGM.metrics[0], PLAIN),
            {"namespace": "team", "pod": "p", "container": "main", "UUID": "GPU-0", "GPU_I_ID": "7"},
            ("team", "p", "main", "GPU-0", "7"),
            id="labels without, of a MIG instance",
        ),
        pytest.param(
            Series(HAMI_LEGACY, HAMI_LEGACY.metrics[0], HAMI_LEGACY.forms[0]),
            {
                "podnamespace": "team",
                "podname": "p",
                "ctrname": "main",
                "deviceuuid": "GPU-0",
                "vdeviceid": "1",
            },
            ("team", "p", "main", "GPU-0", "1"),
            id="labels of HAMi's old monitor",
        ),
        pytest.param(
            Series(AMD, AMD.metrics[0], PLAIN),
            {"namespace": "team", "pod": "p", "hostname": "n", "gpu_id": "3", "gpu_partition_id": "0"},
            ("team", "p", "", "n/3", "0"),
            id="a device that two labels name",
        ),
        pytest.param(
            Series(DCGM, DCGM.metrics[0], WHOLE),
            {**POD},
            ("", "", "", "GPU-0", ""),
            id="a device, whoever uses it",
        ),
    ],
)
def test_place(series: Series, labels: dict[str, str], expected: tuple[str, ...]) -> None:
    """Each form and exporter names the workload and the device by its own labels."""
    place = place_of(series, labels)
    assert place is not None
    assert (place.namespace, place.pod, place.container, place.device, place.instance) == expected


def test_a_series_without_a_device_is_left_out() -> None:
    """Nothing is known of a device that is not named."""
    assert place_of(UTILIZATION, {"exported_pod": "p"}) is None


def test_free_devices_do_not_carry_the_exporter() -> None:
    """A job that keeps its targets' labels names the exporter where no workload is."""
    plain = Series(DCGM, DCGM.metrics[0], PLAIN)
    labels = {
        "namespace": "gpu",
        "pod": "exporter-0",
        "container": "exporter",
        "UUID": "GPU-1",
        "job": "dcgm",
    }
    answers = {(plain, Asked.MAXIMUM, 3600): [Sample(labels, 0.0)]}
    assert table_of(answers, {plain.metric.name: {"dcgm"}}) == {(plain, Asked.MAXIMUM, 3600): {}}
    assert len(table_of(answers, {plain.metric.name: {"other"}})[plain, Asked.MAXIMUM, 3600]) == 1


def test_ratios_become_percent() -> None:
    """A ratio of 0.5 is 50 %, and out of range is no value."""
    found = signals(
        {
            (ENGINE, Asked.MAXIMUM, 3600): [Sample(POD, 0.5), Sample({**POD, "UUID": "GPU-1"}, 1.4e14)],
            (ENGINE, Asked.VALID, 3600): [Sample(POD, 240.0)],
            (ENGINE, Asked.LAST_TIME, 0): [Sample(POD, NOW.timestamp() - 5)],
        }
    )
    first, second = found.pods["team", "p"]
    assert (first.readings[0].maximum, second.readings[0].maximum) == (50.0, None)
    assert (first.readings[0].coverage, second.readings[0].coverage) == (1.0, 0.0)
    assert first.readings[0].last_sample == NOW - timedelta(seconds=5)


def test_the_closer_look_replaces_a_maximum_that_cannot_be_true() -> None:
    """The larger of both looks counts, and what was thrown away is counted."""
    found = signals(
        {
            (UTILIZATION, Asked.MAXIMUM, 3600): [Sample(POD, 4294967295.0)],
            (UTILIZATION, Asked.CLOSER_HIGH, 3600): [Sample(POD, 3.0)],
            (UTILIZATION, Asked.CLOSER_LOW, 3600): [Sample(POD, 88.0)],
            (UTILIZATION, Asked.DISCARDED, 3600): [Sample(POD, 2.0)],
        }
    )
    (device,) = found.pods["team", "p"]
    assert (device.readings[0].maximum, device.readings[0].discarded) == (88.0, 2)


VALUES = st.none() | st.floats(0, 100)
READINGS = st.builds(
    Reading,
    st.just(DCGM.metrics[0]),
    st.just("dcgm"),
    maximum=VALUES,
    average=VALUES,
    samples=st.integers(0, 240),
    expected=st.just(240),
    discarded=st.integers(0, 9),
    interval=st.none() | st.just(15.0),
    last_sample=st.none() | st.just(NOW),
    last=VALUES,
)


@given(one=READINGS, other=READINGS, third=READINGS)
def test_scrapers_merge_in_any_order(one: Reading, other: Reading, third: Reading) -> None:
    """What several scrapers know does not depend on which is read first."""
    assert merge(one, other) == merge(other, one)
    assert merge(merge(one, other), third) == merge(one, merge(other, third))


@given(one=READINGS, other=READINGS)
def test_another_scraper_never_hides_activity(one: Reading, other: Reading) -> None:
    """The busiest of the scrapers counts."""
    merged = merge(one, other)
    for value in (one.maximum, other.maximum):
        assert value is None or (merged.maximum is not None and merged.maximum >= value)
