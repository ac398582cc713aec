"""The cases of exporters of other vendors: AMD, Ascend, Cambricon, Intel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from policy.verdicts import Reason
from tests.reaper.judging.cases import AVERAGE, Case, until
from tests.reaper.judging.past import BUSY, IDLE, Line, Value, gpu, honored, scraped, steady, workload

CPX = "amd.com/cpx_nps4"
NPU = "huawei.com/Ascend910"
MLU = "cambricon.com/mlu"


def of_amd_modes() -> Iterator[Case]:
    """AMD's exporter: its prefix, partitions, energy and errors."""

    def amd(
        pod: str, activity: float = 0.0, mode: str = "spx", prefix: str = "", **more: Value
    ) -> list[Line]:
        labels = scraped(
            "amd",
            workload(pod),
            hostname=f"node-{pod}",
            gpu_id="0",
            gpu_partition_id="0",
            gpu_compute_partition_type=mode,
        )
        values = {"gpu_gfx_activity": steady(activity), "gpu_package_power": steady(140.0), **more}
        return [Line(prefix + name, labels, value) for name, value in values.items()]

    idle = Reason.BELOW_THRESHOLD
    for pod, activity, reason in (("amd-pre", 0.0, idle), ("amd-pre-busy", 60.0, Reason.ABOVE_THRESHOLD)):
        lines = amd(pod, activity, prefix="amd_")
        yield Case(f"AMD: names with a prefix: {pod}", gpu(pod, resource="amd.com/gpu"), lines, reason)
    unsupported = Reason.UNSUPPORTED_SOURCE
    lines = amd("amd-cpx", mode="cpx")
    yield Case(
        "AMD: partition 0 of a divided device", gpu("amd-cpx", resource="amd.com/gpu"), lines, unsupported
    )
    yield Case("AMD: a partition by name", gpu("amd-part-0", resource=CPX), amd("amd-part-0"), unsupported)
    lines = amd("amd-noisy", 13.0)
    sentence = "AMD: 13 % at rest is taken for activity"
    yield Case(sentence, gpu("amd-noisy", resource="amd.com/gpu"), lines, Reason.ABOVE_THRESHOLD)
    for pod, name, value, reason in (
        ("amd-frozen", "gpu_energy_consumed", steady(5e9), Reason.FROZEN_EXPORTER),
        ("amd-energy", "gpu_energy_consumed", lambda ago: 1e12 - ago * 1e8, idle),
        ("amd-ecc", "gpu_ecc_uncorrect_total", lambda ago: 1.0 if ago < 600 else 0.0, Reason.DEVICE_FAULT),
        ("amd-umc", "gpu_umc_activity", BUSY, Reason.ABOVE_THRESHOLD),
    ):
        yield Case(f"AMD: {name}: {pod}", gpu(pod, resource="amd.com/gpu"), amd(pod, **{name: value}), reason)


def ascend(pod: str, values: dict[str, Value], *, honor: bool = False, named: bool = True) -> list[Line]:
    """What Ascend's exporter says of a chip; its own labels but one never look like a scrape's."""
    own = {"id": "0", "model_name": "910B", "vdie_id": f"die-{pod}", "pcie_bus_info": "0000:c1:00.0"}
    target = {"job": "npu", "instance": "10.0.0.1:8082"}
    if named and honor:
        own |= {"namespace": "team", "pod_name": pod, "container_name": "main"}
    elif named:
        own |= {"exported_namespace": "team", "pod_name": pod, "container_name": "main"}
    if not honor:
        target |= {"namespace": "npu-exporter", "pod": "npu-exporter-0", "container": "npu-exporter"}
    return [Line(name, {**target, **own}, value) for name, value in values.items()]


def of_ascend() -> Iterator[Case]:
    """Ascend's exporter by its new and old names; samples carry the exporter's own times."""
    idle, busy = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD
    chip, container = "npu_chip_info_utilization", "container_npu_utilization"
    for pod, name, value, honor, reason in (
        ("npu-idle", chip, IDLE, False, idle),
        ("npu-busy", chip, BUSY, False, busy),
        ("npu-honored", chip, IDLE, True, idle),
        ("npu-honored-busy", chip, BUSY, True, busy),
        ("npu-old", container, IDLE, False, idle),
        ("npu-old-busy", container, BUSY, True, busy),
        ("npu-lost", chip, steady(-99999.0), False, Reason.GARBAGE_SAMPLES),
    ):
        yield Case(
            f"Ascend: {name} of {pod}",
            gpu(pod, resource=NPU),
            ascend(pod, {name: value}, honor=honor),
            reason,
        )
    lines = until(ascend("npu-gone", {chip: IDLE}), 240)
    sentence = "Ascend: a series that vanished four minutes ago still answers, and is stale"
    yield Case(sentence, gpu("npu-gone", resource=NPU), lines, Reason.STALE)
    lines = [*ascend("npu-doubt", {container: IDLE}), *ascend("npu-doubt", {chip: BUSY}, named=False)]
    sentence = "Ascend: the chip is busy although the container's series is not"
    yield Case(sentence, gpu("npu-doubt", resource=NPU), lines, Reason.SIGNALS_DISAGREE)
    for signal in ("overall", "vector", "cube"):
        pod = f"npu-{signal}"
        lines = ascend(pod, {chip: IDLE, f"npu_chip_info_{signal}_utilization": BUSY})
        yield Case(f"Ascend: {signal} utilization counts as activity", gpu(pod, resource=NPU), lines, busy)
    lines = ascend("npu-code", {chip: IDLE, "npu_chip_info_error_code": steady(128.0)})
    yield Case("Ascend: a chip with an error code", gpu("npu-code", resource=NPU), lines, Reason.DEVICE_FAULT)
    nameless = [
        Line(chip, {"job": "npu", "id": "0", "pod_name": "npu-nameless", "exported_namespace": "team"}, IDLE)
    ]
    sentence = "Ascend: a chip that is only numbered could be any node's"
    yield Case(sentence, gpu("npu-nameless", resource=NPU), nameless, Reason.NO_SERIES)
    for pod, value, reason in (("npu-part", 30.0, Reason.SHARED_DEVICE), ("npu-part-rest", 0.0, idle)):
        lines = ascend(pod, {chip: steady(value)})
        sentence = f"Ascend: a virtual NPU is told by its chip alone: {pod}"
        yield Case(sentence, gpu(pod, resource="huawei.com/Ascend910-4c"), lines, reason)
    memory = {"npu_chip_info_hbm_used_memory": IDLE, "npu_chip_info_used_memory": steady(4000.0)}
    lines = ascend("npu-ddr", {chip: IDLE, **memory})
    sentence = "Ascend: memory is the larger of both kinds"
    yield Case(sentence, gpu("npu-ddr", resource=NPU), lines, Reason.MEMORY_HELD, AVERAGE)


def mlu(pod: str, value: Value | None, vf: str = "", honor: bool = False, **more: Value) -> list[Line]:
    """What Cambricon's exporter says: who holds the device, and apart from that what the device does."""
    device = {"uuid": f"mlu-{pod}", "mlu": "0", "node": "node-a"}
    own = {"job": "mlu-honored", "instance": "10.0.0.1:30108"} if honor else scraped("mlu", {})
    labels = honored("mlu-honored", workload(pod)) if honor else scraped("mlu", workload(pod))
    holder = Line("mlu_container", {**labels, **device, **({"vf": vf} if vf else {})}, steady(1.0))
    values = {**({"mlu_utilization": value} if value else {}), **more}
    return [holder, *(Line(name, {**own, **device}, one) for name, one in values.items())]


def of_cambricon() -> Iterator[Case]:
    """Cambricon, joined on the device."""
    idle, busy = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD
    for pod, value, honor, reason in (
        ("mlu-idle", IDLE, False, idle),
        ("mlu-busy", BUSY, False, busy),
        ("mlu-honored", IDLE, True, idle),
        ("mlu-honored-busy", BUSY, True, busy),
        ("mlu-dark", None, False, Reason.NO_SERIES),
        ("mlu-short", lambda ago: 0.0 if ago < 1500 else None, False, Reason.LOW_COVERAGE),
    ):
        yield Case(
            f"Cambricon: joined on uuid: {pod}", gpu(pod, resource=MLU), mlu(pod, value, honor=honor), reason
        )
    alone = [line for line in mlu("mlu-alone", IDLE) if line.name != "mlu_container"]
    sentence = "Cambricon: without mlu_container nobody is named"
    yield Case(sentence, gpu("mlu-alone", resource=MLU), alone, Reason.NO_SERIES)
    share = "cambricon.com/mlu370.share"
    for pod, value, reason in (("mlu-vf", 20.0, Reason.SHARED_DEVICE), ("mlu-vf-rest", 0.0, idle)):
        lines = mlu(pod, steady(value), vf="2")
        yield Case(
            f"Cambricon: a share is told by its device: {pod}", gpu(pod, resource=share), lines, reason
        )
    part = "cambricon.com/mlu370.mim-2m.8gb"
    for pod, value, reason in (("mlu-mim", IDLE, idle), ("mlu-mim-busy", BUSY, busy)):
        holder, whole = mlu(pod, BUSY, vf="2")
        own = replace(whole, labels={**whole.labels, "vf": "2"}, value=value)
        sentence = f"Cambricon: an instance with series of its own, on a busy device: {pod}"
        yield Case(sentence, gpu(pod, resource=part), [holder, whole, own], reason)
    for pod, value, reason in (("mlu-bare", IDLE, idle), ("mlu-bare-busy", BUSY, Reason.SHARED_DEVICE)):
        sentence = f"Cambricon: an instance without is told by its device: {pod}"
        yield Case(sentence, gpu(pod, resource=part), mlu(pod, value, vf="2"), reason)
    lines = mlu("mlu-held", IDLE, mlu_memory_used=steady(2e10), mlu_memory_total=steady(4e10))
    yield Case(
        "Cambricon: memory of the device", gpu("mlu-held", resource=MLU), lines, Reason.MEMORY_HELD, AVERAGE
    )


def of_intel() -> Iterator[Case]:
    """Intel's xpumd names no pods."""
    labels = {"job": "xpumd", "hw_id": "xpu-0", "pci_bdf": "0000:03:00.0", "hw_gpu_task": "all"}
    lines = [Line("hw_gpu_utilization_ratio", labels, IDLE)]
    pod = gpu("xpu", resource="gpu.intel.com/i915")
    yield Case("Intel: a device that nobody is known to hold", pod, lines, Reason.NO_SERIES)
