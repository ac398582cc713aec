"""The verdict as a pure function of terms and signals: tables."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.devices import Devices
from policy.durations import parse_duration
from policy.errors import FieldError
from policy.memory import parse_memory
from policy.terms import Statistic
from policy.verdicts import REASONS, Reason, VerdictKind
from reaper.judge import PRECEDENCE, judge
from reaper.observation import few_windows
from reaper.pods import GpuPod
from reaper.signals import Board, Signals
from tests.reaper.judging.made import (
    ENGINE,
    METRICS,
    SETTINGS,
    ago,
    device,
    observed,
    reading,
    terms,
    verdict,
)
from tests.reaper.judging.past import HOUR, NOW, gpu


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


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        pytest.param(("dcgm", "dcgm"), Reason.BELOW_THRESHOLD, id="one source sees both"),
        pytest.param(("dcgm", "dcgm-1.x"), Reason.PARTIAL_DEVICES, id="two sources see one each"),
    ],
)
def test_two_names_may_be_one_device(sources: tuple[str, str], reason: Reason) -> None:
    """Sources may name a device in two ways, and then nobody has seen the other one."""
    named = zip(("GPU-0", "0"), sources, strict=True)
    found = verdict(*(device(reading(source=source), name=name) for name, source in named))
    assert found.reason is reason


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


def test_who_uses_a_card_is_found_for_all_pods_at_once() -> None:
    """Looking through all pods for each share would take the square of their number."""
    one, two = device(name="GPU-0"), device(name="GPU-1")
    found = Signals(HOUR, {("team", "a"): (one, two), ("team", "b"): (one,)}).users
    assert found == {"GPU-0": frozenset({("team", "a"), ("team", "b")}), "GPU-1": frozenset({("team", "a")})}


def test_no_finding_of_a_device_that_is_told_twice_is_lost() -> None:
    """When an exporter begins to print UIDs, a device has two sets of series for a while."""
    before, after = device(reading(maximum=90.0, last_sample=None)), device(uid="uid-p")
    for devices in ((before, after), (after, before)):
        assert verdict(*devices).reason is Reason.ABOVE_THRESHOLD
    quiet = device(reading(last_sample=None))
    assert verdict(quiet, after).reason is Reason.STALE
