"""The verdict as a pure function of terms and signals: tables, and properties that hold for any signals."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.devices import Devices
from policy.durations import parse_duration
from policy.errors import FieldError
from policy.memory import parse_memory
from policy.terms import Action, Statistic, Terms
from policy.verdicts import REASONS, Reason, VerdictKind
from reaper.criteria import JudgeSettings
from reaper.evidence import Verdict
from reaper.judge import PRECEDENCE, judge
from reaper.observation import Observation, few_windows
from reaper.pods import GpuPod
from reaper.signals import Board, Device, Reading, Signals
from reaper.sources import DCGM, HAMI, Metric, Sharing
from tests.reaper.judging.past import HOUR, NOW, gpu

METRICS = {metric.signal: metric for source in (DCGM, HAMI) for metric in source.metrics}
UTILIZATION, ENGINE = METRICS["utilization"], METRICS["engine"]
SETTINGS = JudgeSettings()
ACTIVE = {Reason.ABOVE_THRESHOLD, Reason.RECENT_KERNEL, Reason.MEMORY_HELD}


def ago(seconds: float) -> datetime:
    """A moment before NOW."""
    return NOW - timedelta(seconds=seconds)


def terms(**more: object) -> Terms:
    """Idle for an hour below 5 %."""
    fields = {
        "action": Action.EVICT,
        "after": parse_duration("1h"),
        "utilization": 5,
        "statistic": Statistic.MAXIMUM,
        "memory": None,
        "grace": parse_duration("30m"),
        "warm_up": parse_duration("30m"),
    }
    return Terms(**{**fields, **more})  # type: ignore[arg-type]


def reading(metric: Metric = DCGM.metrics[0], **more: object) -> Reading:
    """A full and idle reading."""
    fields = {
        "metric": metric,
        "source": "dcgm",
        "maximum": 0.0,
        "average": 0.0,
        "samples": 240,
        "expected": 240,
        "interval": 15.0,
        "last_sample": NOW - timedelta(seconds=10),
    }
    return Reading(**{**fields, **more})  # type: ignore[arg-type]


def device(*readings: Reading, name: str = "GPU-0", **more: object) -> Device:
    """A device of the container `main`."""
    fields = {"device": name, "instance": "", "container": "main", "sharing": Sharing.DEVICE}
    return Device(**{**fields, **more}, readings=readings or (reading(),))  # type: ignore[arg-type]


def observed(*devices: Device, boards: dict[str, Board] | None = None) -> Observation:
    """A complete observation of one pod."""
    signals = Signals(HOUR, {("team", "p"): devices}, boards or {})
    return Observation(NOW, True, windows={HOUR: signals})


def verdict(
    *devices: Device, pod: GpuPod | None = None, boards: dict[str, Board] | None = None, **more: object
) -> Verdict:
    """The verdict on a pod that holds as many devices as are given."""
    count = len({one.name for one in devices}) or 1
    return judge(pod or gpu("p", count), terms(**more), observed(*devices, boards=boards), NOW, SETTINGS)


def test_an_idle_pod() -> None:
    """All is there and nothing happens: Idle since the start of the window."""
    found = verdict(device())
    assert (found.kind, found.reason) == (VerdictKind.IDLE, Reason.BELOW_THRESHOLD)
    assert found.idle_since == NOW - timedelta(hours=1)
    assert found.sentence == "240 of 240 samples below 5 %"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"maximum": 5.0}, Reason.ABOVE_THRESHOLD, id="at the threshold"),
        pytest.param({"maximum": 4.999}, Reason.BELOW_THRESHOLD, id="below the threshold"),
        pytest.param({"samples": 216}, Reason.BELOW_THRESHOLD, id="nine tenths of the samples"),
        pytest.param({"samples": 215}, Reason.LOW_COVERAGE, id="one sample less"),
        pytest.param({"samples": 215, "discarded": 25}, Reason.GARBAGE_SAMPLES, id="one less, for garbage"),
        pytest.param({"samples": 0, "maximum": None}, Reason.GARBAGE_SAMPLES, id="nothing but garbage"),
        pytest.param({"expected": 0}, Reason.INTERVAL_UNKNOWN, id="samples that cannot be counted"),
        pytest.param({"interval": None}, Reason.INTERVAL_UNKNOWN, id="no interval"),
        pytest.param({"last_sample": None}, Reason.STALE, id="no last sample"),
        pytest.param({"last_sample": ago(90)}, Reason.BELOW_THRESHOLD, id="90 s old"),
        pytest.param({"last_sample": ago(91)}, Reason.STALE, id="91 s old"),
        pytest.param(
            {"last_sample": NOW - timedelta(seconds=180), "interval": 60.0},
            Reason.BELOW_THRESHOLD,
            id="3 scrapes old",
        ),
        pytest.param(
            {"last_sample": NOW - timedelta(seconds=181), "interval": 60.0}, Reason.STALE, id="a little more"
        ),
        pytest.param({"maximum": 90.0, "samples": 1}, Reason.ABOVE_THRESHOLD, id="one busy sample, no more"),
        pytest.param({"maximum": 90.0, "last_sample": None}, Reason.ABOVE_THRESHOLD, id="busy, then silent"),
    ],
)
def test_one_reading(changes: dict[str, object], reason: Reason) -> None:
    """Each bound of coverage, freshness and threshold."""
    assert verdict(device(reading(**changes))).reason is reason
    assert verdict(device(reading(), reading(ENGINE, **changes))).reason is reason


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(gpu("p", started=HOUR + 1799), Reason.TOO_YOUNG, id="a second too young"),
        pytest.param(gpu("p", started=HOUR + 1800), Reason.BELOW_THRESHOLD, id="just old enough"),
        pytest.param(gpu("p", containers_started=None), Reason.NOT_STARTED, id="a container is not running"),
        pytest.param(gpu("p", phase="Pending"), Reason.NOT_STARTED, id="pending"),
        pytest.param(
            gpu("p", devices=Devices({"nvidia.com/gpu": 1}, ("main",), (FieldError("spec", "bad"),))),
            Reason.UNREADABLE_DEVICES,
            id="an unreadable quantity",
        ),
        pytest.param(
            gpu("p", devices=Devices({"nvidia.com/gpu": 1}, ("other",))),
            Reason.NO_SERIES,
            id="another container",
        ),
    ],
)
def test_pods_that_cannot_be_judged(pod: GpuPod, reason: Reason) -> None:
    """The pod itself may bar a verdict, whatever its metrics say."""
    assert verdict(device(), pod=pod).reason is reason


@pytest.mark.parametrize(
    "problem", [Reason.PROMETHEUS_UNAVAILABLE, Reason.PARTIAL_ANSWER, Reason.GARBAGE_ANSWER]
)
def test_an_incomplete_observation_proves_nothing(problem: Reason) -> None:
    """Even a busy pod is Unknown when the observation is incomplete."""
    observation = msgspec.structs.replace(observed(device()), complete=False, problem=problem)
    found = judge(gpu("p"), terms(), observation, NOW, SETTINGS)
    assert (found.kind, found.reason) == (VerdictKind.UNKNOWN, problem)


def test_an_old_observation_proves_nothing() -> None:
    """A verdict hours after the observation is Unknown."""
    found = judge(gpu("p", started=9 * HOUR), terms(), observed(device()), NOW + timedelta(hours=1), SETTINGS)
    assert found.reason is Reason.STALE


def test_a_window_that_was_not_observed() -> None:
    """Terms whose window nobody asked for are not judged by a shorter one."""
    longer = terms(after=parse_duration("2h"))
    found = judge(gpu("p", started=9 * HOUR), longer, observed(device()), NOW, SETTINGS)
    assert found.kind is VerdictKind.UNKNOWN


def test_a_longer_window_covers_a_shorter_one() -> None:
    """A pod is judged by the next longer window, and must be old enough for that one."""
    shorter = terms(after=parse_duration("50m"))
    found = judge(gpu("p"), shorter, observed(device()), NOW, SETTINGS)
    assert (found.kind, found.evidence.window) == (VerdictKind.IDLE, HOUR)
    assert found.idle_since == NOW - timedelta(hours=1)
    young = judge(gpu("p", started=85 * 60), shorter, observed(device()), NOW, SETTINGS)
    assert young.reason is Reason.TOO_YOUNG


@given(windows=st.sets(st.integers(1, 100_000), min_size=1, max_size=40), most=st.integers(1, 12))
def test_few_windows_cover_many(windows: set[int], most: int) -> None:
    """However many windows users choose, few are asked for, and each is covered."""
    kept = few_windows(windows, most)
    assert len(kept) == min(most, len(windows))
    assert set(kept) <= windows
    assert max(kept) == max(windows)


@pytest.mark.parametrize(
    ("board", "reason"),
    [
        pytest.param(Board(fault_code=31), Reason.DEVICE_FAULT, id="an Xid"),
        pytest.param(Board(faults=1), Reason.DEVICE_FAULT, id="an uncorrectable error"),
        pytest.param(Board(moved=0), Reason.FROZEN_EXPORTER, id="energy stood still"),
        pytest.param(Board(moved=9.0), Reason.BELOW_THRESHOLD, id="energy moved"),
        pytest.param(Board(activity={"": 50.0}), Reason.SIGNALS_DISAGREE, id="series of nobody are busy"),
        pytest.param(
            Board(pods={"": frozenset({("team", "p"), ("team", "q")})}, activity={"": 1.0}),
            Reason.SHARED_DEVICE,
            id="shared, and not quite at rest",
        ),
        pytest.param(
            Board(pods={"": frozenset({("team", "p"), ("team", "q")})}, activity={"": 0.0}),
            Reason.BELOW_THRESHOLD,
            id="shared, and at rest",
        ),
        pytest.param(
            Board(pods={"": frozenset({("team", "p"), ("team", "q")})}),
            Reason.SHARED_DEVICE,
            id="shared, and no series of the device itself",
        ),
    ],
)
def test_boards(board: Board, reason: Reason) -> None:
    """What is known of the physical device may forbid idleness, and never proves activity."""
    assert verdict(device(), boards={"GPU-0": board}).reason is reason


@pytest.mark.parametrize(
    ("limit", "more", "reason"),
    [
        pytest.param("500Mi", {"maximum": float(500 << 20)}, Reason.MEMORY_HELD, id="as much as the limit"),
        pytest.param("500Mi", {"maximum": float((500 << 20) - 1)}, Reason.BELOW_THRESHOLD, id="a byte less"),
        pytest.param("500Mi", {"samples": 10}, Reason.MEMORY_UNKNOWN, id="few samples of memory"),
        pytest.param("500Mi", {"last_sample": None}, Reason.MEMORY_UNKNOWN, id="memory of long ago"),
        pytest.param("5%", {"maximum": 1.0}, Reason.MEMORY_UNKNOWN, id="a share of an unknown size"),
    ],
)
def test_memory(limit: str, more: dict[str, object], reason: Reason) -> None:
    """The memory term: held is active, unknown is unknown."""
    used = reading(METRICS["memory"], **{"maximum": 0.0, **more})
    assert verdict(device(reading(), used), memory=parse_memory(limit)).reason is reason


def test_average_terms_look_at_the_average() -> None:
    """A burst is idle only where the terms say average."""
    burst = reading(maximum=100.0, average=2.0)
    assert verdict(device(burst)).reason is Reason.ABOVE_THRESHOLD
    found = verdict(device(burst), statistic=Statistic.AVERAGE)
    assert found.reason is Reason.BELOW_THRESHOLD
    assert found.sentence == "average 2 % of 240 of 240 samples, below 5 %"


def test_every_finding_has_its_rank() -> None:
    """The order of reasons holds each once, and all have a sentence."""
    assert len(set(PRECEDENCE)) == len(PRECEDENCE)
    assert set(PRECEDENCE) <= set(REASONS)


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
