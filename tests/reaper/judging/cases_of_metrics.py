"""A case for each metric that no other case has: what it alone changes in a verdict, exporter by exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from policy.devices import Devices
from policy.memory import parse_memory
from policy.verdicts import Reason
from tests.reaper.judging.cases import AVERAGE, TERMS, Case, once
from tests.reaper.judging.cases_of_nvidia import smi
from tests.reaper.judging.cases_of_vendors import MLU, NPU, ascend, mlu
from tests.reaper.judging.past import IDLE, LEGACY, Line, Value, dcgm, gpu, hami, scraped, steady, workload

IDLE_STILL, BUSY = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD
FAULT, FROZEN, HELD = Reason.DEVICE_FAULT, Reason.FROZEN_EXPORTER, Reason.MEMORY_HELD
COMPANIONS = Devices({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192}, ("main",))
GIB = float(1 << 30)
Values = Mapping[str, Value]
RISING: Value = lambda ago: 3.0 if ago < 900 else 2.0  # noqa: E731
SMALL = replace(TERMS, memory=parse_memory("10%"))
MEAN = replace(AVERAGE, memory=None)


def expected(
    source: str,
    lines: Callable[[str, Values], list[Line]],
    table: Mapping[str, tuple[Values, Reason]],
    **pod: object,
) -> Iterator[Case]:
    """A case per row: an idle pod but for the values of the row."""
    for what, (values, reason) in table.items():
        name = f"{source}-{what}".replace(" ", "-")
        terms = SMALL if "memory" in what else MEAN if "mean" in what else TERMS
        yield Case(f"{source}: {what}", gpu(name, **pod), lines(name, values), reason, terms)  # type: ignore[arg-type]


def of_dcgm_1x() -> Iterator[Case]:
    """dcgm-exporter 1.x."""

    def lines(pod: str, values: Values) -> list[Line]:
        labels = {
            "job": "dcgm1",
            "pod_namespace": "team",
            "pod_name": pod,
            "container_name": "main",
            "uuid": f"GPU-{pod}",
        }
        return [Line(name, labels, value) for name, value in {"dcgm_gpu_utilization": IDLE, **values}.items()]

    memory = {"dcgm_fb_free": steady(1000.0)}
    yield from expected(
        "dcgm-1.x",
        lines,
        {
            "copying is activity": ({"dcgm_mem_copy_utilization": steady(40.0)}, BUSY),
            "encoding is activity": ({"dcgm_enc_utilization": steady(40.0)}, BUSY),
            "decoding is activity": ({"dcgm_dec_utilization": steady(40.0)}, BUSY),
            "much memory is held": ({"dcgm_fb_used": steady(1000.0), **memory}, HELD),
            "little memory is not": ({"dcgm_fb_used": steady(10.0), **memory}, IDLE_STILL),
            "power is no activity": ({"dcgm_power_usage": steady(90.0)}, IDLE_STILL),
            "energy that stands still": ({"dcgm_total_energy_consumption": steady(5e9)}, FROZEN),
            "an old Xid": ({"dcgm_xid_errors": steady(79.0)}, IDLE_STILL),
            "a new Xid": ({"dcgm_xid_errors": lambda ago: 79.0 if ago < 900 else 0.0}, FAULT),
            "a new double-bit error": ({"dcgm_ecc_dbe_volatile_total": RISING}, FAULT),
        },
    )


def of_nvidia_smi() -> Iterator[Case]:
    """nvidia_gpu_exporter, on a device that an encoder's series gives to the pod."""

    def lines(pod: str, values: Values) -> list[Line]:
        own = dcgm(
            pod, util=None, engine=None, memory=None, uuid=f"GPU-{pod}", extra={"DCGM_FI_DEV_ENC_UTIL": IDLE}
        )
        return [*own, *smi(pod, IDLE, **values)]

    memory = {"memory_total_bytes": steady(80 * GIB)}
    yield from expected(
        "nvidia-smi",
        lines,
        {
            "decoding is activity": ({"utilization_decoder_ratio": steady(0.4)}, BUSY),
            "much memory is held": ({"memory_used_bytes": steady(20 * GIB), **memory}, HELD),
            "little memory is not": ({"memory_used_bytes": steady(GIB), **memory}, IDLE_STILL),
            "power is no activity": ({"power_draw_watts": steady(90.0)}, IDLE_STILL),
            "new uncorrected errors": ({"ecc_errors_uncorrected_volatile_total": RISING}, FAULT),
        },
    )


def of_amd() -> Iterator[Case]:
    """AMD's exporter: which power confirms rest, and memory."""

    def lines(pod: str, values: Values) -> list[Line]:
        labels = scraped("amd", workload(pod), hostname=f"node-{pod}", gpu_id="0", gpu_partition_id="0")
        return [Line(name, labels, value) for name, value in {"gpu_gfx_activity": IDLE, **values}.items()]

    rest = {"gpu_package_power": steady(140.0)}
    memory = {"gpu_total_vram": steady(196_608.0), **rest}
    disagree = Reason.SIGNALS_DISAGREE
    yield from expected(
        "AMD",
        lines,
        {
            "the average power shows rest": ({"gpu_average_package_power": steady(90.0)}, IDLE_STILL),
            "the power in use shows rest": ({"gpu_power_usage": steady(90.0)}, IDLE_STILL),
            "the larger power counts": ({"gpu_power_usage": steady(700.0), **rest}, disagree),
            "much memory is held": ({"gpu_used_vram": steady(90_000.0), **memory}, HELD),
            "little memory is not": ({"gpu_used_vram": steady(300.0), **memory}, IDLE_STILL),
            "a process without activity": ({"gpu_process_cu_occupancy": IDLE, **rest}, IDLE_STILL),
            "a process just below": ({"gpu_process_cu_occupancy": steady(4.0), **rest}, IDLE_STILL),
            "a process that computes": ({"gpu_process_cu_occupancy": once(1800, 5.0), **rest}, disagree),
            "a process that computed before": (
                {"gpu_process_cu_occupancy": once(3900, 90.0), **rest},
                IDLE_STILL,
            ),
            "a process on 200 units": ({"gpu_process_cu_occupancy": steady(200.0), **rest}, disagree),
            "a mean of processes": ({"gpu_process_cu_occupancy": once(1800, 60.0), **rest}, IDLE_STILL),
            "a large mean of processes": ({"gpu_process_cu_occupancy": steady(12.0), **rest}, disagree),
        },
        resource="amd.com/gpu",
    )


def of_ascend() -> Iterator[Case]:
    """Ascend's exporter: memory by both names, and power."""

    def lines(pod: str, values: Values) -> list[Line]:
        return ascend(pod, {"npu_chip_info_utilization": IDLE, **values})

    chip, container = "npu_chip_info_hbm_total_memory", "container_npu_total_memory"
    yield from expected(
        "Ascend",
        lines,
        {
            "much memory of the chip": (
                {"npu_chip_info_hbm_used_memory": steady(9e3), chip: steady(65536.0)},
                HELD,
            ),
            "memory of a chip without HBM": (
                {"npu_chip_info_used_memory": steady(9e3), "npu_chip_info_total_memory": steady(24576.0)},
                HELD,
            ),
            "much memory of the container": (
                {"container_npu_used_memory": steady(9e3), container: steady(65536.0)},
                HELD,
            ),
            "power is no activity": ({"npu_chip_info_power": steady(90.0)}, IDLE_STILL),
        },
        resource=NPU,
    )


def of_others() -> Iterator[Case]:
    """Cambricon's power, and what HAMi prints beside what it judges by."""
    lines = mlu("mlu-watts", IDLE, mlu_power_usage=steady(90.0))
    yield Case("Cambricon: power is no activity", gpu("mlu-watts", resource=MLU), lines, IDLE_STILL)
    for names, process in (
        (None, "hami_container_device_memory_bytes"),
        (LEGACY, "Device_memory_desc_of_container"),
    ):
        pod = process.replace("_", "-").lower()
        share = hami(pod) if names is None else hami(pod, names=names)
        lines = [*share, Line(process, {**share[0].labels, "context": "1"}, steady(4e8))]
        yield Case(f"HAMi: {process} is no activity", gpu(pod, devices=COMPANIONS), lines, IDLE_STILL)
    card = {"job": "hami", "device_uuid": "GPU-hami-watts", "node": "node-a"}
    lines = [*hami("hami-watts"), Line("hami_host_gpu_power_usage_watts", card, steady(90.0))]
    yield Case(
        "HAMi: power of the card is no activity", gpu("hami-watts", devices=COMPANIONS), lines, IDLE_STILL
    )
    for name, label in (
        ("hami_host_gpu_memory_used_bytes", "device_uuid"),
        ("HostGPUMemoryUsage", "deviceuuid"),
    ):
        pod = name.replace("_", "-").lower()
        lines = [Line(name, {"job": "hami", label: f"GPU-{pod}"}, steady(4e8))]
        sentence = f"HAMi: {name} proves nothing of a share"
        yield Case(sentence, gpu(pod, devices=COMPANIONS), lines, Reason.NO_SERIES)
