"""The cases of pods and exporters: who is meant by a series, several devices, shares, memory, HAMi, AMD."""

from __future__ import annotations

from collections.abc import Iterator

from policy.devices import Devices
from policy.verdicts import Reason
from reaper.pods import GpuPod
from tests.reaper.judging.cases import AVERAGE, SMALL_MEMORY, Case, once, until
from tests.reaper.judging.past import (
    BUSY,
    IDLE,
    LEGACY,
    Line,
    Value,
    dcgm,
    gpu,
    hami,
    honored,
    scraped,
    steady,
    workload,
)

COMPANIONS = Devices({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192}, ("main",))


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
    for pod, uid, reason in (
        ("uid-own", "uid-uid-own", idle),
        ("uid-other", "uid-of-another", Reason.NO_SERIES),
    ):
        lines = dcgm(pod, labels=scraped("dcgm", workload(pod), UID=uid))
        yield Case(f"the label UID is compared, too: {pod}", gpu(pod), lines, reason)
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


def of_hami_shares() -> Iterator[Case]:
    """HAMi's shares by both sets of names; their utilization may be a false 0."""
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


def of_hami_cards() -> Iterator[Case]:
    """HAMi's cards: other shares, other exporters, shares that were never used."""
    idle, busy = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD
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
    lines.append(Line("DCGM_FI_DEV_XID_ERRORS", fault, lambda ago: 79.0 if ago < 900 else 0.0))
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
