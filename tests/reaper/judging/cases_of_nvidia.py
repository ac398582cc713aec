"""The cases of HAMi's hosts, of Volcano, and of exporters for NVIDIA devices that name no pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policy.devices import Devices
from policy.verdicts import Reason
from tests.reaper.judging.cases import SMALL_MEMORY, Case, once
from tests.reaper.judging.past import (
    BUSY,
    HOUR,
    IDLE,
    LEGACY,
    NEW,
    Line,
    Value,
    dcgm,
    gpu,
    hami,
    scraped,
    steady,
)

COMPANIONS = Devices({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192}, ("main",))
SHARED = "nvidia.com/gpu.shared"
EXTENDED = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
VGPU = "volcano.sh/vgpu-number"
GIB = float(1 << 30)


def of_hami_hosts() -> Iterator[Case]:
    """What HAMi's scheduler and host metrics add."""
    idle = Reason.BELOW_THRESHOLD
    for name in ("vGPUMemoryAllocated", "vGPUPodsDeviceAllocated"):
        pod = name.lower()
        labels = {"podnamespace": "team", "podname": pod, "deviceuuid": f"GPU-{pod}", "containeridx": "0"}
        lines = [Line(name, labels, steady(8e9))]
        yield Case(
            f"{name}: allocated and never touched", gpu(pod, devices=COMPANIONS), lines, Reason.NEVER_TOUCHED
        )
    lines = [*hami("allocated"), allocation("allocated")]
    yield Case(
        "HAMi: a share that was allocated and used is judged",
        gpu("allocated", devices=COMPANIONS),
        lines,
        idle,
    )
    lines = [*hami("both-names"), *hami("both-names", names=LEGACY)]
    yield Case(
        "HAMi: legacyMetrics prints one share by both names",
        gpu("both-names", devices=COMPANIONS),
        lines,
        idle,
    )
    lines = [
        *hami("copying"),
        host("hami_host_gpu_memory_controller_utilization_ratio", "copying", steady(40.0)),
    ]
    disagree = Reason.SIGNALS_DISAGREE
    yield Case("HAMi: the card's memory is busy", gpu("copying", devices=COMPANIONS), lines, disagree)
    for kind, reason in (("uncorrected", Reason.DEVICE_FAULT), ("corrected", idle)):
        pod = f"ecc-{kind}"
        rising = host(
            "hami_host_gpu_ecc_errors_total", pod, lambda ago: 3.0 if ago < 900 else 2.0, error_type=kind
        )
        yield Case(
            f"HAMi: {kind} errors of the card", gpu(pod, devices=COMPANIONS), [*hami(pod), rising], reason
        )


def host(name: str, pod: str, value: Value, **more: str) -> Line:
    """A metric of HAMi about the card that a pod has a share of."""
    return Line(name, {"job": "hami", NEW.uuid: f"GPU-{pod}", "node": "node-a", **more}, value)


def allocation(pod: str, since: float = 1.3 * HOUR) -> Line:
    """What HAMi's scheduler says of a pod's share, that was given out so many seconds before NOW."""
    labels = scraped("hami-scheduler", {"namespace": "team", "pod": pod}, node="node-a", container_index="0")
    named = {**labels, "device_uuid": f"GPU-{pod}"}
    return Line("hami_vgpu_memory_allocated_bytes", named, steady(8 * GIB), since=since)


def vgpu(pod: str, card: Value | None, used: float = 0.3) -> list[Line]:
    """What Volcano's device plugin says of a share: memory, and the card it is on."""
    device = {"deviceuuid": f"GPU-{pod}"}
    share = {"job": "volcano", "podnamespace": "team", "podname": pod, "ctrname": "main", "vdeviceid": "0"}
    lines = [
        Line("vGPU_device_memory_usage_in_bytes", {**share, **device}, steady(used * GIB)),
        Line("vGPU_device_memory_limit_in_bytes", {**share, **device}, steady(8 * GIB)),
    ]
    return [
        *lines,
        *(
            [Line("HostCoreUtilization", {"job": "volcano", "deviceidx": "0", **device}, card)]
            if card
            else []
        ),
    ]


def of_volcano() -> Iterator[Case]:
    """Volcano's vGPUs, of which only the card tells anything."""
    idle, shared = Reason.BELOW_THRESHOLD, Reason.SHARED_DEVICE
    for pod, card, reason in (
        ("vgpu-rest", IDLE, idle),
        ("vgpu-busy", BUSY, shared),
        ("vgpu-low", steady(2.0), shared),
        ("vgpu-once", once(3000, 50), shared),
        ("vgpu-dark", None, Reason.NO_SERIES),
        ("vgpu-half", lambda ago: 0.0 if ago < 1800 else None, Reason.LOW_COVERAGE),
    ):
        yield Case(f"Volcano: the card tells of {pod}", gpu(pod, resource=VGPU), vgpu(pod, card), reason)
    lines = vgpu("vgpu-hami", IDLE)
    sentence = "a share of HAMi is not judged by the card alone"
    yield Case(sentence, gpu("vgpu-hami", devices=COMPANIONS), lines, Reason.NO_SERIES)
    seen = dcgm("vgpu-dcgm", labels={"job": "dcgm"}, uuid="GPU-vgpu-dcgm", util=steady(20.0))
    lines = [*vgpu("vgpu-dcgm", IDLE), *seen]
    yield Case("Volcano: dcgm-exporter saw the card busy", gpu("vgpu-dcgm", resource=VGPU), lines, shared)
    for pod, used, reason in (("vgpu-small", 0.3, idle), ("vgpu-large", 4.0, Reason.MEMORY_UNKNOWN)):
        lines = vgpu(pod, IDLE, used)
        yield Case(f"Volcano: memory of {pod}", gpu(pod, resource=VGPU), lines, reason, SMALL_MEMORY)
    given = {
        "job": "volcano-scheduler",
        "podName": "vgpu-given",
        "devID": "GPU-vgpu-given",
        "NodeName": "node-a",
    }
    lines = [Line("volcano_vgpu_device_memory_allocation_for_a_certain_pod", given, steady(8192.0))]
    sentence = "Volcano: the scheduler's series name no namespace, and tell nothing"
    yield Case(sentence, gpu("vgpu-given", resource=VGPU), lines, Reason.NO_SERIES)


def smi(pod: str, value: Value, **more: Value) -> list[Line]:
    """What nvidia_gpu_exporter says of the device that another exporter gives to a pod: no prefix, no pod."""
    labels: Mapping[str, str] = {"job": "nvidia-smi", "uuid": pod}
    names = {
        "nvidia_smi_utilization_gpu_ratio": value,
        **{f"nvidia_smi_{key}": one for key, one in more.items()},
    }
    return [Line(name, labels, one) for name, one in names.items()]


def held(pod: str) -> list[Line]:
    """dcgm-exporter without any counter of activity: it tells who holds the device."""
    return dcgm(pod, util=None, engine=None, uuid=f"GPU-{pod}")


def watched(pod: str, value: Value, held: float = 0.0, until: float = 0.0) -> list[Line]:
    """What gpu-idle-exporter says of a device, and of a process on it until so long ago, by number."""
    node = {"job": "gpu-idle", "instance": f"{pod}:9101", "gpu": "0"}
    device = {**node, "model": "A100", "uuid": f"GPU-{pod}"}
    process = {**node, "pid": "4711", "process": "python"}
    lines = [
        Line("gpu_idle_device_utilization_percent", device, value),
        Line("gpu_idle_device_temperature_celsius", device, steady(40.0)),
    ]
    used = Line("gpu_idle_process_memory_used_bytes", process, steady(held), until=until)
    return [*lines, *([used] if held else [])]


def of_device_exporters() -> Iterator[Case]:
    """Exporters that name no pods: nvidia_gpu_exporter and gpu-idle-exporter."""
    idle, busy, nothing = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD, Reason.NO_SERIES
    yield Case(
        "nvidia-smi: nobody tells who holds the device", gpu("smi-alone"), smi("smi-alone", IDLE), nothing
    )
    for pod, value, reason in (
        ("smi-idle", IDLE, idle),
        ("smi-busy", steady(0.9), busy),
        ("smi-once", once(3300, 0.6), busy),
        ("smi-short", lambda ago: 0.0 if ago < 1200 else None, Reason.LOW_COVERAGE),
        ("smi-late", lambda ago: 0.0 if ago > 240 else None, Reason.STALE),
    ):
        yield Case(f"nvidia-smi: joined by UUID: {pod}", gpu(pod), [*held(pod), *smi(pod, value)], reason)
    lines = [*held("smi-copy"), *smi("smi-copy", IDLE, utilization_memory_ratio=steady(0.4))]
    yield Case("nvidia-smi: memory bandwidth counts as activity", gpu("smi-copy"), lines, busy)
    lines = [*held("smi-coder"), *smi("smi-coder", IDLE, utilization_encoder_ratio=steady(0.4))]
    yield Case("nvidia-smi: an encoder counts as activity", gpu("smi-coder"), lines, busy)
    lines = [*dcgm("smi-doubt", uuid="GPU-smi-doubt"), *smi("smi-doubt", steady(0.9))]
    yield Case("nvidia-smi contradicts dcgm-exporter", gpu("smi-doubt"), lines, Reason.SIGNALS_DISAGREE)
    contradicts = "gpu-idle-exporter contradicts, and never proves"
    for pod, own, value, reason in (
        ("hold-zero", held("hold-zero"), IDLE, nothing),
        ("hold-doubt", dcgm("hold-doubt", uuid="GPU-hold-doubt"), BUSY, Reason.SIGNALS_DISAGREE),
        ("hold-agrees", dcgm("hold-agrees", uuid="GPU-hold-agrees"), IDLE, idle),
    ):
        lines = [*own, *watched(pod, value, held=4e8 if pod == "hold-doubt" else 0.0, until=1800)]
        yield Case(f"{contradicts}: {pod}", gpu(pod), lines, reason)
    for pod, until in (("hold-parked", 0.0), ("hold-left", 1800.0)):
        own = dcgm(pod, memory=None, uuid=f"GPU-{pod}")
        lines = [*own, *watched(pod, IDLE, held=20e9, until=until)]
        yield Case(f"gpu-idle-exporter: a process that waits is no activity: {pod}", gpu(pod), lines, idle)
