"""The form of a case, and the cases of one device: what is busy, missing, impossible or broken."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from policy.durations import parse_duration
from policy.memory import parse_memory
from policy.terms import Action, Statistic, Terms
from policy.verdicts import Reason, VerdictKind
from reaper.pods import GpuPod
from tests.reaper.judging.past import BUSY, IDLE, Line, Value, dcgm, gpu, scraped, steady, workload

TERMS = Terms(
    action=Action.EVICT,
    after=parse_duration("1h"),
    utilization=5,
    statistic=Statistic.MAXIMUM,
    memory=None,
    grace=parse_duration("30m"),
    warm_up=parse_duration("30m"),
)
AVERAGE = Terms(
    action=Action.EVICT,
    after=parse_duration("1h"),
    utilization=10,
    statistic=Statistic.AVERAGE,
    memory=parse_memory("500Mi"),
    grace=parse_duration("30m"),
    warm_up=parse_duration("30m"),
)
SMALL_MEMORY = Terms(
    action=Action.EVICT,
    after=parse_duration("1h"),
    utilization=5,
    statistic=Statistic.MAXIMUM,
    memory=parse_memory("5%"),
    grace=parse_duration("30m"),
    warm_up=parse_duration("30m"),
)


@dataclass(frozen=True)
class Case:
    """A sentence, what the past looks like, and what must come of it."""

    sentence: str
    pod: GpuPod
    lines: Sequence[Line]
    reason: Reason
    terms: Terms = TERMS

    @property
    def kind(self) -> VerdictKind:
        """The verdict that goes with the reason."""
        untouched = self.reason is Reason.NEVER_TOUCHED and self.terms.never_touched
        if untouched or self.reason is Reason.BELOW_THRESHOLD:
            return VerdictKind.IDLE
        busy = {Reason.ABOVE_THRESHOLD, Reason.RECENT_KERNEL, Reason.MEMORY_HELD}
        return VerdictKind.ACTIVE if self.reason in busy else VerdictKind.UNKNOWN


def once(ago: float, value: float, rest: float = 0.0, lasting: float = 15.0) -> Value:
    """One value for a short time, so many seconds before NOW, and another one otherwise."""
    return lambda when: value if ago <= when < ago + lasting else rest


def odd(every: float, value: float) -> Value:
    """A value that is out of range in one sample per period, else 0."""
    return lambda when: value if when % every < 15 else 0.0


def until(lines: Sequence[Line], ago: float) -> list[Line]:
    """The same series, ended so many seconds before NOW."""
    return [replace(line, until=ago) for line in lines]


def of_activity() -> Iterator[Case]:
    """Busy and idle, by any signal."""
    idle, busy = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD
    yield Case("a pod without any activity is idle", gpu("idle"), dcgm("idle"), idle)
    yield Case("a busy pod is active", gpu("busy"), dcgm("busy", util=BUSY, engine=steady(0.9)), busy)
    burst = dcgm("burst", util=once(45 * 60, 100))
    yield Case("one busy sample in the window is enough", gpu("burst"), burst, busy)
    early = dcgm("early", util=once(62 * 60, 100))
    yield Case("a busy sample before the window does not count", gpu("early"), early, idle)
    duty = dcgm("duty", util=lambda ago: 97.0 if ago % 600 < 300 else 0.0)
    yield Case("five minutes on and five off is active", gpu("duty"), duty, busy)
    low = dcgm("low", util=steady(4.0), engine=steady(0.04))
    yield Case("just below the threshold is idle", gpu("low"), low, idle)
    edge = dcgm("edge", util=steady(5.0))
    yield Case("at the threshold is active", gpu("edge"), edge, busy)
    stuck = dcgm("stuck", util=steady(99.0), engine=IDLE)
    yield Case("profiling stuck at 0 does not hide a busy device", gpu("stuck"), stuck, busy)
    engine = dcgm("engine", util=IDLE, engine=steady(0.5))
    yield Case("a busy engine is activity although utilization is 0", gpu("engine"), engine, busy)
    for name in ("DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL"):
        pod = name.rsplit("_", 2)[-2].lower()
        yield Case(f"{name} counts as activity", gpu(pod), dcgm(pod, extra={name: BUSY}), busy)
    for name in ("SM_ACTIVE", "SM_OCCUPANCY", "DRAM_ACTIVE", "PIPE_TENSOR_ACTIVE"):
        pod = name.replace("_", "-").lower()
        lines = dcgm(pod, extra={f"DCGM_FI_PROF_{name}": steady(0.6)})
        yield Case(f"{name} counts as activity", gpu(pod), lines, busy)
    rare = dcgm("rare", util=lambda ago: 100.0 if ago % 3000 < 60 else 0.0)
    yield Case("a low average is idle only where the terms say average", gpu("rare"), rare, idle, AVERAGE)
    mean = dcgm("mean", util=steady(12.0))
    yield Case("an average above its threshold is active", gpu("mean"), mean, busy, AVERAGE)


def _of_failed_scrapes() -> Iterator[Case]:
    """Scrapes that fail in a pattern look like fewer scrapes, but for the target's `up`."""
    low = Reason.LOW_COVERAGE
    for lost, of in ((3, 8), (2, 4)):
        pod = f"lost-{lost}-of-{of}"
        labels = scraped(pod, workload(pod))
        lines = dcgm(pod, util=without(lost, of), engine=without(lost, of), labels=labels)
        up = Line("up", {"job": pod, "instance": labels["instance"]}, steady(1.0))
        yield Case(f"{lost} of {of} scrapes that fail do not hide", gpu(pod), [*lines, up], low)
    steadily = scraped("seldomer", workload("seldomer"))
    up = Line("up", {"job": "seldomer", "instance": steadily["instance"]}, steady(1.0), every=30)
    seldomer = dcgm("seldomer", labels=steadily, base=Line("", {}, IDLE, every=30))
    yield Case(
        "a target that is scraped half as often", gpu("seldomer"), [*seldomer, up], Reason.BELOW_THRESHOLD
    )


def without(lost: int, of: int) -> Value:
    """Idle, but the last so many of each row of scrapes are missing."""
    return lambda ago: None if (ago // 15) % of >= of - lost else 0.0


def of_samples() -> Iterator[Case]:
    """Missing, late, and impossible samples."""
    idle, low = Reason.BELOW_THRESHOLD, Reason.LOW_COVERAGE
    yield Case("no series is not idle", gpu("silent"), [], Reason.NO_SERIES)
    short = dcgm("short", base=Line("", {}, IDLE, since=600))
    yield Case("ten minutes of data prove nothing about an hour", gpu("short"), short, low)
    hole = dcgm("hole", util=lambda ago: None if 1200 < ago < 2100 else 0.0)
    yield Case("a hole of fifteen minutes proves nothing", gpu("hole"), hole, low)
    gaps = dcgm("gaps", util=lambda ago: None if ago % 300 > 180 else 0.0)
    yield Case("gaps that are shorter than the lookback are seen", gpu("gaps"), gaps, low)
    flaky = dcgm("flaky", util=lambda ago: None if ago % 600 < 20 else 0.0)
    yield Case("a missed scrape now and then does no harm", gpu("flaky"), flaky, idle)
    yield from _of_failed_scrapes()
    young = gpu("young", started=80 * 60)
    yield Case("a pod inherits no samples from one of the same name", young, dcgm("young"), Reason.TOO_YOUNG)
    yield Case("an old enough pod is judged", gpu("old", started=91 * 60), dcgm("old"), idle)
    ended = until(dcgm("ended"), 540)
    yield Case("a series that ended nine minutes ago is stale", gpu("ended"), ended, Reason.STALE)
    late = until(dcgm("late"), 150)
    yield Case("a last sample of 150 seconds ago is stale", gpu("late"), late, Reason.STALE)
    slow = dcgm("slow", base=Line("", {}, IDLE, every=60))
    yield Case("another scrape interval is told from the data", gpu("slow"), slow, idle)
    rare = dcgm("seldom", base=Line("", {}, IDLE, every=300))
    yield Case("an interval of five minutes cannot be told", gpu("seldom"), rare, Reason.INTERVAL_UNKNOWN)
    for value in (4294967295.0, 808334905.0, 1.4e14, 9.223372036854775807e18, -1.0, math.nan, math.inf):
        pod = f"garbage-{abs(value):.0e}".replace("+", "") + ("-minus" if value < 0 else "")
        lines = dcgm(pod, util=steady(value))
        yield Case(f"{value} all the time is neither busy nor idle", gpu(pod), lines, Reason.GARBAGE_SAMPLES)
    some = dcgm("some", util=odd(600, 4294967295.0))
    yield Case("a garbage sample now and then is thrown away", gpu("some"), some, idle)
    many = dcgm("many", util=odd(60, 4294967295.0))
    yield Case("too much garbage leaves too little", gpu("many"), many, Reason.GARBAGE_SAMPLES)
    both = dcgm("both", util=lambda ago: odd(600, 1.4e14)(ago) or once(1000, 100)(ago))
    yield Case("garbage does not hide a burst", gpu("both"), both, Reason.ABOVE_THRESHOLD)
    labels = {**scraped("dcgm", workload("beside")), "UUID": "GPU-beside-0"}
    early = Line("DCGM_FI_DEV_GPU_UTIL", labels, lambda ago: 100.0 if 1000 < ago < 1015 else None, offset=1.5)
    beside = [*dcgm("beside", util=once(1000, 1.4e14)), early]
    yield Case("a burst beside garbage is seen", gpu("beside"), beside, Reason.ABOVE_THRESHOLD)


def of_faults() -> Iterator[Case]:
    """Exporters and devices that do not work."""
    idle = Reason.BELOW_THRESHOLD
    frozen = dcgm("frozen", energy=steady(5e6))
    yield Case(
        "an exporter whose energy stands still is not believed", gpu("frozen"), frozen, Reason.FROZEN_EXPORTER
    )
    lately = dcgm("frozen-lately", energy=lambda ago: 1e9 - max(ago, 700) * 60_000)
    yield Case("nor one that froze ten minutes ago", gpu("frozen-lately"), lately, Reason.FROZEN_EXPORTER)
    thawed = dcgm("thawed", energy=lambda ago: 1e9 - (ago if ago > 3000 or ago < 1500 else 3000) * 60_000)
    yield Case("nor one that froze for a part of the window", gpu("thawed"), thawed, Reason.FROZEN_EXPORTER)
    once_seen = dcgm("once-seen", energy=lambda ago: 5e6 if ago < 15 else None)
    yield Case("a single sample of the energy counter says nothing", gpu("once-seen"), once_seen, idle)
    without = dcgm("no-energy", energy=None)
    yield Case("an exporter without an energy counter is believed", gpu("no-energy"), without, idle)
    xid = dcgm("xid", extra={"DCGM_FI_DEV_XID_ERRORS": once(2000, 48.0, lasting=60)})
    yield Case("an Xid in the window makes idleness unprovable", gpu("xid"), xid, Reason.DEVICE_FAULT)
    ecc = dcgm("ecc", extra={"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": lambda ago: 3.0 if ago < 900 else 2.0})
    yield Case("so does a new uncorrectable error", gpu("ecc"), ecc, Reason.DEVICE_FAULT)
    old = dcgm("old-ecc", extra={"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": steady(2.0)})
    yield Case("an old uncorrectable error does not", gpu("old-ecc"), old, idle)
