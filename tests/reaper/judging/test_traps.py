"""Every trap of GPU metrics, as a made-up past in one real Prometheus, judged by the real queries."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic

import pytest

from policy.devices import Devices
from policy.durations import parse_duration
from policy.memory import parse_memory
from policy.terms import Action, Statistic, Terms
from policy.verdicts import Reason, VerdictKind
from reaper.criteria import JudgeSettings
from reaper.judge import Verdict, judge
from reaper.observation import Observation, observe
from reaper.pods import GpuPod
from reaper.prometheus import HttpPrometheus, PrometheusOptions
from tests.reaper.judging.past import (
    BUSY,
    HOUR,
    IDLE,
    LEGACY,
    NOW,
    Line,
    Value,
    dcgm,
    gpu,
    hami,
    honored,
    prometheus_of,
    scraped,
    steady,
    workload,
)

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
COMPANIONS = Devices({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192}, ("main",))


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
        if self.reason is Reason.BELOW_THRESHOLD:
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


def cases() -> Iterator[Case]:
    """All cases, each with a pod of its own."""
    yield from of_activity()
    yield from of_samples()
    yield from of_faults()
    yield from of_labels()
    yield from of_devices()
    yield from of_shares()
    yield from of_memory()
    yield from of_hami()
    yield from of_amd()


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


def of_labels() -> Iterator[Case]:
    """Who is meant by a series."""
    idle, busy = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD
    plain = dcgm("honored", labels=honored("dcgm-honored", workload("honored")))
    yield Case("honorLabels: true names the workload without a prefix", gpu("honored"), plain, idle)
    plain = dcgm("honored-busy", labels=honored("dcgm-honored", workload("honored-busy")), util=BUSY)
    yield Case("also of a busy pod", gpu("honored-busy"), plain, busy)
    free = {
        "job": "dcgm",
        **workload("dcgm-exporter-0", "exporter", "gpu-operator"),
        "instance": "10.0.0.1:9400",
    }
    exporter = gpu(
        "dcgm-exporter-0", namespace="gpu-operator", devices=Devices({"nvidia.com/gpu": 1}, ("exporter",))
    )
    lines = dcgm("free", labels=free)
    yield Case(
        "the exporter is no workload, although free devices carry its name", exporter, lines, Reason.NO_SERIES
    )
    halves = [
        *until(dcgm("halves", labels=scraped("dcgm", workload("halves"))), 1800),
        *dcgm("halves", labels=scraped("dcgm-b", workload("halves")), base=Line("", {}, IDLE, since=1815)),
    ]
    yield Case("two scrapers that share the window cover it together", gpu("halves"), halves, idle)
    twice = [
        *dcgm("twice", labels=scraped("dcgm", workload("twice")), base=Line("", {}, IDLE, since=1800)),
        *dcgm("twice", labels=scraped("dcgm-b", workload("twice")), base=Line("", {}, IDLE, since=1800)),
    ]
    yield Case("two scrapers of one half do not cover the whole", gpu("twice"), twice, Reason.LOW_COVERAGE)
    again = scraped("dcgm", workload("restart")) | {"pod": "dcgm-exporter-1", "instance": "10.0.0.9:9400"}
    restart = [
        *until(dcgm("restart"), 1500),
        *dcgm("restart", labels=again, base=Line("", {}, IDLE, since=1515)),
    ]
    yield Case("a restarted exporter goes on with the same device", gpu("restart"), restart, idle)
    other = scraped("dcgm", workload("reused"), pod_uid="uid-of-another")
    yield Case(
        "a UID of another pod is another pod", gpu("reused"), dcgm("reused", labels=other), Reason.NO_SERIES
    )
    same = scraped("dcgm", workload("same-uid"), pod_uid="uid-same-uid")
    yield Case("a UID of its own is its own", gpu("same-uid"), dcgm("same-uid", labels=same), idle)
    beside = scraped("dcgm", workload("beside-gpu", container="logger"))
    lines = dcgm("beside-gpu", labels=beside)
    yield Case("a container without devices is not asked", gpu("beside-gpu"), lines, Reason.NO_SERIES)
    old = {
        "job": "dcgm1",
        "pod_namespace": "team",
        "pod_name": "ancient",
        "container_name": "main",
        "uuid": "GPU-ancient",
    }
    lines = [Line("dcgm_gpu_utilization", old, IDLE), Line("dcgm_fb_used", old, steady(10.0))]
    yield Case("the names of dcgm-exporter 1.x are known", gpu("ancient"), lines, idle)
    old = {**old, "pod_name": "ancient-busy", "uuid": "GPU-ancient-busy"}
    lines = [Line("dcgm_gpu_utilization", old, once(3000, 60))]
    yield Case("also of a busy pod of 1.x", gpu("ancient-busy"), lines, busy)


def of_devices() -> Iterator[Case]:
    """Pods of several devices, and parts of devices."""
    pair = [*dcgm("pair", 0), *dcgm("pair", 1)]
    yield Case("two idle devices of two", gpu("pair", 2), pair, Reason.BELOW_THRESHOLD)
    half = [*dcgm("half", 0), *dcgm("half", 1, util=once(600, 80))]
    yield Case("one busy device of two", gpu("half", 2), half, Reason.ABOVE_THRESHOLD)
    yield Case("one device of two was seen", gpu("partial", 2), dcgm("partial"), Reason.PARTIAL_DEVICES)
    more = [*dcgm("more", 0), *dcgm("more", 1)]
    yield Case("more devices than asked for were seen", gpu("more"), more, Reason.PARTIAL_DEVICES)
    seven = [line for device in range(7) for line in dcgm("eight", device)]
    lines = [*seven, *until(dcgm("eight", 7), 1000)]
    yield Case("one device of eight has no data any more", gpu("eight", 8), lines, Reason.STALE)

    def instance(pod: str, part: str, engine: Value) -> list[Line]:
        labels = scraped("dcgm", workload(pod), GPU_I_ID=part, GPU_I_PROFILE="1g.5gb")
        return dcgm(pod, util=None, engine=engine, labels=labels, uuid="GPU-mig", memory=None)

    mig = "nvidia.com/mig-1g.5gb"
    yield Case(
        "an idle MIG instance",
        gpu("mig-idle", resource=mig),
        instance("mig-idle", "7", IDLE),
        Reason.BELOW_THRESHOLD,
    )
    lines = instance("mig-busy", "8", steady(0.8))
    yield Case(
        "a busy MIG instance of the same device", gpu("mig-busy", resource=mig), lines, Reason.ABOVE_THRESHOLD
    )
    two = [*instance("mig-two", "9", IDLE), *instance("mig-two", "10", IDLE)]
    yield Case(
        "two instances of one device are two", gpu("mig-two", 2, resource=mig), two, Reason.BELOW_THRESHOLD
    )
    codec = dcgm("codec", util=None, engine=None, extra={"DCGM_FI_DEV_ENC_UTIL": IDLE})
    yield Case("an idle encoder alone proves nothing", gpu("codec"), codec, Reason.NO_SERIES)


def of_shares() -> Iterator[Case]:
    """Time-slicing: one device, several pods."""
    for name in ("slice-a", "slice-b"):
        lines = dcgm(name, uuid="GPU-calm")
        yield Case(f"a shared device at rest clears {name}", gpu(name), lines, Reason.BELOW_THRESHOLD)
    for name, value in (("slice-c", 40.0), ("slice-d", 40.0), ("slice-e", 0.0)):
        lines = dcgm(name, uuid="GPU-hot", util=steady(value))
        yield Case(f"a shared device in use says nothing of {name}", gpu(name), lines, Reason.SHARED_DEVICE)
    lone = dcgm("lone", util=steady(3.0))
    shared = gpu("lone", resource="nvidia.com/gpu.shared")
    yield Case("a share below the threshold is not at rest", shared, lone, Reason.SHARED_DEVICE)
    rest = gpu("rest", resource="nvidia.com/gpu.shared")
    yield Case("a share of a device at rest is idle", rest, dcgm("rest"), Reason.BELOW_THRESHOLD)
    virtual = dcgm("virtual", labels=scraped("dcgm", workload("virtual"), vgpu="0"))
    yield Case("a literal 0 of one sharer proves nothing", gpu("virtual"), virtual, Reason.SHARED_DEVICE)


def of_memory() -> Iterator[Case]:
    """The memory term."""
    idle, held = Reason.BELOW_THRESHOLD, Reason.MEMORY_HELD
    yield Case(
        "memory is not looked at without the term", gpu("parked"), dcgm("parked", memory=20480.0), idle
    )
    lines = dcgm("holding", memory=20480.0)
    yield Case("a parked model is active under the classic rule", gpu("holding"), lines, held, AVERAGE)
    yield Case("little memory is idle under it", gpu("small"), dcgm("small", memory=300.0), idle, AVERAGE)
    lines = dcgm("unmeasured", memory=None)
    yield Case(
        "memory that no metric tells is not little", gpu("unmeasured"), lines, Reason.MEMORY_UNKNOWN, AVERAGE
    )
    lines = dcgm("percent", memory=5000.0)
    yield Case("six percent of the device is more than five", gpu("percent"), lines, held, SMALL_MEMORY)
    lines = dcgm("percent-less", memory=3000.0)
    yield Case("four percent of the device is less", gpu("percent-less"), lines, idle, SMALL_MEMORY)
    lines = hami("vgpu", used=0.5 * (1 << 30))
    pod = gpu("vgpu", devices=COMPANIONS)
    yield Case("the share of a virtual device is of its own limit", pod, lines, held, SMALL_MEMORY)


def of_hami() -> Iterator[Case]:
    """HAMi's shares, whose utilization may be a false 0."""
    idle, busy, kernel = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD, Reason.RECENT_KERNEL
    hour = lambda ago: 50 * 60.0 - min(ago, 0)  # noqa: E731
    for names, kind in ((LEGACY, "legacy"), (None, "new")):
        given = {} if names is None else {"names": names}

        def pod(name: str, kind: str = kind) -> GpuPod:
            return gpu(f"{kind}-{name}", devices=COMPANIONS)

        for sentence, name, more, reason in (
            ("nothing runs, for longer than the window", "idle", {}, idle),
            ("utilization is 0 but a kernel ran a second ago", "zero", {"kernel": steady(1.0)}, kernel),
            ("a kernel ran within the window", "recent", {"kernel": hour}, kernel),
            ("several processes exceed 100 % together", "sum", {"util": steady(180.0)}, busy),
            (
                "the card is busy while the last kernel grows old",
                "graph",
                {"host": BUSY},
                Reason.SIGNALS_DISAGREE,
            ),
            ("the last kernel is not told", "untold", {"kernel": None}, Reason.NO_SERIES),
            ("the card is not told", "no-card", {"host": None}, Reason.NO_SERIES),
            ("the last kernel is impossible", "odd", {"kernel": steady(9e18)}, Reason.GARBAGE_SAMPLES),
        ):
            lines = hami(f"{kind}-{name}", **given, **more)  # type: ignore[arg-type]
            yield Case(f"HAMi {kind}: {sentence}", pod(name), lines, reason)
    yield Case(
        "HAMi: another share keeps the card busy",
        gpu("share-a", devices=COMPANIONS),
        [*hami("share-a", uuid="GPU-card", host=None)],
        Reason.SHARED_DEVICE,
    )
    lines = hami("share-b", uuid="GPU-card", util=steady(60.0), host=steady(60.0), kernel=steady(0.0))
    yield Case("HAMi: the other share is active", gpu("share-b", devices=COMPANIONS), lines, busy)
    labels = honored("hami-honored", workload("hami-honored"))
    yield Case(
        "HAMi with honorLabels: true",
        gpu("hami-honored", devices=COMPANIONS),
        hami("hami-honored", labels=labels),
        idle,
    )
    lines = [*hami("hami-dcgm"), *dcgm("hami-dcgm", labels={"job": "dcgm"}, uuid="GPU-hami-dcgm", util=BUSY)]
    yield Case(
        "HAMi: dcgm-exporter saw the card busy",
        gpu("hami-dcgm", devices=COMPANIONS),
        lines,
        Reason.SIGNALS_DISAGREE,
    )
    given = {
        "exported_namespace": "team",
        "exported_pod": "untouched",
        "job": "hami",
        "device_uuid": "GPU-untouched",
    }
    lines = [Line("hami_vgpu_memory_allocated_bytes", given, steady(8e9))]
    yield Case(
        "HAMi: allocated and never touched", gpu("untouched", devices=COMPANIONS), lines, Reason.NEVER_TOUCHED
    )
    lines = [line for line in hami("hami-xid") if "host" in line.name] + hami("hami-xid", host=None)
    fault = {"UUID": "GPU-hami-xid", "job": "dcgm"}
    lines.append(Line("DCGM_FI_DEV_XID_ERRORS", fault, steady(79.0)))
    yield Case(
        "HAMi: the card reported an Xid", gpu("hami-xid", devices=COMPANIONS), lines, Reason.DEVICE_FAULT
    )


def of_amd() -> Iterator[Case]:
    """AMD, whose activity can read 0 on a busy device."""

    def amd(pod: str, activity: float, watts: float | None, partition: str = "0") -> list[Line]:
        labels = scraped("amd", workload(pod), hostname=f"node-{pod}", gpu_id="0", gpu_partition_id=partition)
        values = {
            "gpu_gfx_activity": activity,
            "gpu_umc_activity": 0.0,
            "gpu_used_vram": 300.0,
            "gpu_package_power": watts,
        }
        return [Line(name, labels, steady(value)) for name, value in values.items() if value is not None]

    def pod(name: str) -> GpuPod:
        return gpu(name, resource="amd.com/gpu")

    yield Case("an AMD device at rest", pod("amd-idle"), amd("amd-idle", 0, 140), Reason.BELOW_THRESHOLD)
    yield Case("a busy AMD device", pod("amd-busy"), amd("amd-busy", 80, 600), Reason.ABOVE_THRESHOLD)
    yield Case("power shows a false 0", pod("amd-zero"), amd("amd-zero", 0, 600), Reason.SIGNALS_DISAGREE)
    yield Case("no power confirms a 0", pod("amd-dark"), amd("amd-dark", 0, None), Reason.SIGNALS_DISAGREE)
    lines = amd("amd-part", 0, 140, "3")
    yield Case("a partition without activity of its own", pod("amd-part"), lines, Reason.UNSUPPORTED_SOURCE)


CASES = list(cases())
LATELY = gpu("lately", started=30 * HOUR)
LONG = gpu("long", started=30 * HOUR)
BROKEN = gpu("broken", started=30 * HOUR)
LONG_PAST = Line("", {}, IDLE, since=26 * HOUR, every=60)
MORE = [
    *dcgm("lately", util=once(5 * HOUR, 90, lasting=60), base=LONG_PAST),
    *dcgm("long", base=LONG_PAST),
    *dcgm("broken", util=lambda ago: None if 3 * HOUR < ago < 8 * HOUR else 0.0, base=LONG_PAST),
]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that holds the past of all cases."""
    lines = [line for case in CASES for line in case.lines]
    with prometheus_of([*lines, *MORE], tmp_path_factory.mktemp("past")) as url:
        yield url


@pytest.fixture(scope="module")
def observation(prometheus: str) -> Observation:
    """One observation of everything."""
    adapter = HttpPrometheus(PrometheusOptions(prometheus), monotonic)
    try:
        return asyncio.run(observe(adapter, [HOUR, 2 * HOUR], NOW, JudgeSettings()))
    finally:
        adapter.close()


def judged(case: Case, observation: Observation) -> Verdict:
    """The verdict of a case."""
    return judge(case.pod, case.terms, observation, NOW, JudgeSettings())


def test_every_query_is_answered_in_full(observation: Observation) -> None:
    """The real Prometheus accepts every query."""
    assert observation.problems == ()
    assert observation.complete


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_trap(case: Case, observation: Observation) -> None:
    """Each trap leads to its reason, and only a proven idle pod is Idle."""
    verdict = judged(case, observation)
    assert (verdict.kind, verdict.reason) == (case.kind, case.reason), verdict
    assert (verdict.idle_since is not None) == (verdict.kind is VerdictKind.IDLE)


def case_of(name: str) -> Case:
    """The case of a pod."""
    return next(case for case in CASES if case.pod.name == name)


def test_an_idle_pod_tells_its_samples(observation: Observation) -> None:
    """The sentence counts what was seen of what was expected."""
    verdict = judged(case_of("idle"), observation)
    assert verdict.sentence == "240 of 240 samples below 5 %"
    assert {signal.name for signal in verdict.evidence.signals} >= {"utilization", "engine", "memory"}


def test_garbage_is_counted(observation: Observation) -> None:
    """What was thrown away is in the evidence."""
    signals = {signal.name: signal for signal in judged(case_of("some"), observation).evidence.signals}
    assert signals["utilization"].discarded == 6
    assert signals["utilization"].maximum == 0


def test_a_partly_idle_pod_is_reported(observation: Observation) -> None:
    """One idle device of two shows in the evidence of an active pod."""
    evidence = judged(case_of("half"), observation).evidence
    assert (evidence.devices_expected, evidence.devices_seen, evidence.devices_idle) == (2, 2, 1)


@pytest.mark.parametrize(
    ("name", "parked"),
    [
        pytest.param("parked", True, id="20 GiB held without activity is parked"),
        pytest.param("idle", False, id="400 MiB held is not"),
    ],
)
def test_parked(name: str, parked: bool, observation: Observation) -> None:
    """A model that waits in memory is idle and called parked."""
    assert judged(case_of(name), observation).parked is parked


@pytest.mark.parametrize(
    ("pod", "hours"),
    [
        pytest.param(LATELY, 5.0, id="since the last busy sample"),
        pytest.param(LONG, 24.0, id="as far as was looked"),
        pytest.param(BROKEN, 1.0, id="only the window where the data has a hole before it"),
    ],
)
def test_idle_since(pod: GpuPod, hours: float, observation: Observation) -> None:
    """The idle stretch starts where the data proves it, at the latest with the window."""
    verdict = judge(pod, TERMS, observation, NOW, JudgeSettings())
    assert verdict.idle_since is not None
    assert abs((NOW - verdict.idle_since) - timedelta(hours=hours)) <= timedelta(minutes=7)


def test_the_number_of_queries_does_not_grow_with_pods(prometheus: str) -> None:
    """One more window costs a fixed number of queries, however many pods there are."""
    counts: dict[int, int] = {}

    async def run(windows: list[int]) -> None:
        adapter = HttpPrometheus(PrometheusOptions(prometheus), monotonic)
        original = adapter.query
        asked: list[str] = []

        async def counted(expression: str, at: object) -> object:
            asked.append(expression)
            return await original(expression, at)  # type: ignore[arg-type]

        adapter.query = counted  # type: ignore[method-assign,assignment]
        observed = await observe(adapter, windows, NOW, JudgeSettings(), thresholds=())
        assert observed.complete
        adapter.close()
        assert not [text for text in asked if "team" in text or "GPU-" in text]
        counts[len(windows)] = len(asked)

    for windows in ([HOUR], [HOUR, 2 * HOUR], [HOUR, 2 * HOUR, 1800]):
        asyncio.run(run(windows))
    assert counts[3] - counts[2] == counts[2] - counts[1]
    assert counts[1] < 300


def settled(prometheus: str, settings: JudgeSettings) -> Observation:
    """An observation with other settings."""
    adapter = HttpPrometheus(PrometheusOptions(prometheus), monotonic)
    try:
        return asyncio.run(observe(adapter, [HOUR], NOW, settings))
    finally:
        adapter.close()


def test_an_interval_may_be_given(prometheus: str) -> None:
    """Series that are scraped every five minutes are judged if the setting says so, and others as before."""
    settings = JudgeSettings(intervals={"dcgm": 300.0})
    observation = settled(prometheus, settings)
    for name in ("seldom", "idle", "slow"):
        verdict = judge(case_of(name).pod, TERMS, observation, NOW, settings)
        assert verdict.kind is VerdictKind.IDLE, verdict
    assert judge(case_of("gaps").pod, TERMS, observation, NOW, settings).kind is VerdictKind.UNKNOWN


def test_more_points_than_prometheus_allows_are_never_asked_for(prometheus: str) -> None:
    """Where a window has too many points the verdict is Unknown, not an error and not a guess."""
    settings = JudgeSettings(points=1000)
    observation = settled(prometheus, settings)
    assert observation.complete
    assert judge(case_of("idle").pod, TERMS, observation, NOW, settings).reason is Reason.INTERVAL_UNKNOWN
    assert judge(case_of("busy").pod, TERMS, observation, NOW, settings).reason is Reason.ABOVE_THRESHOLD


def test_series_of_another_cluster_do_not_count(prometheus: str) -> None:
    """With a matcher, only series that carry the label are seen."""
    settings = JudgeSettings(matchers={"cluster": "elsewhere"})
    observation = settled(prometheus, settings)
    assert observation.complete
    assert judge(case_of("idle").pod, TERMS, observation, NOW, settings).reason is Reason.NO_SERIES
