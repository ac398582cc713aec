"""The cases of exporters for NVIDIA devices: forms of labels, sharing, DRA, HAMi, Volcano, nvidia-smi."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policy.devices import Devices
from policy.verdicts import Reason
from tests.reaper.judging.cases import SMALL_MEMORY, Case, once, until
from tests.reaper.judging.past import (
    BUSY,
    IDLE,
    LEGACY,
    NEW,
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
SHARED = "nvidia.com/gpu.shared"
EXTENDED = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
VGPU = "volcano.sh/vgpu-number"
GIB = float(1 << 30)


def of_dcgm_labels() -> Iterator[Case]:
    """dcgm-exporter's sets of labels, and what scrapes make of them."""
    idle, busy = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD
    for pod, value, reason in (("old-set", IDLE, idle), ("old-set-busy", BUSY, busy)):
        old = {"pod_namespace": "team", "pod_name": pod, "container_name": "main"}
        lines = dcgm(pod, labels={**scraped("dcgm-old", {}), **old}, util=value)
        yield Case(
            f"--use-old-namespace: {pod} is named by pod_name, not by the exporter", gpu(pod), lines, reason
        )
    for pod, value, reason in (("mixed", IDLE, idle), ("mixed-busy", BUSY, busy)):
        outside = {"job": "dcgm-hosts", "namespace": "hosts", "exported_namespace": "team"}
        lines = dcgm(pod, labels={**outside, "pod": pod, "container": "main"}, util=value)
        yield Case(f"an exporter outside the cluster keeps the pod's name: {pod}", gpu(pod), lines, reason)
    for pod, value, reason in (("extra", IDLE, idle), ("extra-busy", BUSY, busy)):
        target = {"job": "dcgm-extra", "pod_name": "dcgm-exporter-0"}
        lines = dcgm(pod, labels={**target, **workload(pod)}, util=value)
        yield Case(f"a scrape that adds pod_name of the exporter: {pod}", gpu(pod), lines, reason)
    both = [
        *until(dcgm("changed", labels=scraped("dcgm", workload("changed"))), 1800),
        *dcgm(
            "changed",
            labels=honored("dcgm-honored", workload("changed")),
            base=Line("", {}, IDLE, since=1815),
        ),
    ]
    sentence = "where honorLabels changed, the two halves are not added up"
    yield Case(sentence, gpu("changed"), both, Reason.LOW_COVERAGE)
    watts = dcgm(
        "watts", util=None, engine=None, memory=None, extra={"DCGM_FI_DEV_POWER_USAGE": steady(60.0)}
    )
    yield Case("power and energy alone prove nothing", gpu("watts"), watts, Reason.NO_SERIES)
    for name in ("PIPE_FP64_ACTIVE", "PIPE_FP32_ACTIVE", "PIPE_FP16_ACTIVE"):
        pod = name.replace("_", "-").lower()
        lines = dcgm(pod, extra={f"DCGM_FI_PROF_{name}": steady(0.6)})
        yield Case(f"{name} counts as activity", gpu(pod), lines, busy)
    for pod, name, value in (
        ("agg", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", lambda ago: 3.0 if ago < 900 else 2.0),
        ("remapped", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", lambda ago: 1.0 if ago < 900 else 0.0),
        ("remap-failure", "DCGM_FI_DEV_ROW_REMAP_FAILURE", steady(1.0)),
    ):
        lines = dcgm(pod, extra={name: value})
        yield Case(f"{name} is a fault of the device", gpu(pod), lines, Reason.DEVICE_FAULT)


def of_slices() -> Iterator[Case]:
    """MIG instances, alone and shared, with and without the label that names them."""
    idle, shared = Reason.BELOW_THRESHOLD, Reason.SHARED_DEVICE
    mig = "nvidia.com/mig-1g.5gb"
    for pod, value, reason in (
        ("mig-bare", 0.4, shared),
        ("mig-bare-low", 0.02, shared),
        ("mig-bare-rest", 0.0, idle),
    ):
        lines = dcgm(pod, util=None, engine=steady(value))
        yield Case(
            f"MIG series without GPU_I_ID tell of the whole card: {pod}",
            gpu(pod, resource=mig),
            lines,
            reason,
        )
    for pod in ("mig-twin-a", "mig-twin-b"):
        labels = scraped("dcgm", workload(pod), GPU_I_ID="3")
        lines = dcgm(pod, util=None, engine=steady(0.5), labels=labels, uuid="GPU-twin", memory=None)
        yield Case(
            f"a MIG instance that is time-sliced says nothing of {pod}", gpu(pod, resource=mig), lines, shared
        )
    labels = scraped("dcgm", workload("mig-memory"), GPU_I_ID="3")
    lines = dcgm("mig-memory", util=None, engine=None, labels=labels)
    yield Case(
        "memory of a MIG instance is no activity", gpu("mig-memory", resource=mig), lines, Reason.NO_SERIES
    )


def of_time_slices() -> Iterator[Case]:
    """Time-slicing and MPS, with and without labels of virtual GPUs."""
    idle, shared = Reason.BELOW_THRESHOLD, Reason.SHARED_DEVICE
    lines = dcgm("named", uuid="GPU-mps", util=BUSY)
    yield Case(
        "one pod gets the activity of all: not even that is its own",
        gpu("named", resource=SHARED),
        lines,
        shared,
    )
    yield Case("and the others have no series", gpu("unnamed", resource=SHARED), [], Reason.NO_SERIES)

    def virtual(pod: str, number: str, value: float, uuid: str) -> list[Line]:
        labels = scraped("dcgm", workload(pod), vgpu=number)
        return dcgm(pod, labels=labels, uuid=uuid, util=steady(value), engine=None)

    for pod, number in (("twin-a", "0"), ("twin-b", "1")):
        lines = virtual(pod, number, 40.0, "GPU-twins")
        yield Case(f"the value of the device is not {pod}'s", gpu(pod, resource=SHARED), lines, shared)
    for pod, number in (("zero-a", "0"), ("zero-b", "1")):
        lines = virtual(pod, number, 0.0, "GPU-zero")
        yield Case(
            f"a literal 0 without hostPID clears nobody: {pod}", gpu(pod, resource=SHARED), lines, shared
        )
    card = [Line("DCGM_FI_DEV_GPU_UTIL", {"job": "dcgm", "UUID": "GPU-rest"}, IDLE)]
    lines = [*virtual("zero-rest", "0", 0.0, "GPU-rest"), *card]
    yield Case("a card at rest clears its virtual GPUs", gpu("zero-rest", resource=SHARED), lines, idle)
    half = [Line("DCGM_FI_DEV_GPU_UTIL", {"job": "dcgm", "UUID": "GPU-half"}, IDLE, until=1500)]
    lines = [*virtual("zero-half", "0", 0.0, "GPU-half"), *half]
    yield Case(
        "a card known for a part of the window does not",
        gpu("zero-half", resource=SHARED),
        lines,
        Reason.STALE,
    )
    card = [Line("DCGM_FI_DEV_GPU_UTIL", {"job": "dcgm", "UUID": "GPU-worked"}, once(2000, 30))]
    lines = [*virtual("zero-worked", "0", 0.0, "GPU-worked"), *card]
    yield Case("nor one that worked once", gpu("zero-worked", resource=SHARED), lines, shared)
    for pod, value, reason in (("zero-smi", 0.0, idle), ("zero-smi-busy", 0.5, shared)):
        lines = [*virtual(pod, "0", 0.0, f"GPU-{pod}"), *smi(pod, steady(value))]
        yield Case(f"another exporter tells of the card: {pod}", gpu(pod, resource=SHARED), lines, reason)


def of_claims() -> Iterator[Case]:
    """Devices by dynamic resource allocation, which add labels and may be shared by claim."""
    idle, busy = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD

    def claimed(pod: str, value: Value, uuid: str = "", claim: str = "c") -> list[Line]:
        dra = {
            "dra_claim_name": claim,
            "dra_claim_namespace": "team",
            "dra_driver_name": "gpu.nvidia.com",
            "dra_pool_name": "node-a",
            "dra_device_name": "gpu-0",
        }
        return dcgm(pod, labels=scraped("dcgm", workload(pod), **dra), util=value, uuid=uuid)

    yield Case("DRA: an idle device", gpu("dra", resource=EXTENDED), claimed("dra", IDLE), idle)
    yield Case("DRA: a busy device", gpu("dra-busy", resource=EXTENDED), claimed("dra-busy", BUSY), busy)
    lines = [*claimed("dra-two", IDLE, claim="a"), *claimed("dra-two", IDLE, claim="b")]
    yield Case("DRA: one device of two claims is one", gpu("dra-two", resource=EXTENDED), lines, idle)
    parts = [
        dcgm(
            "dra-mig",
            util=None,
            engine=value,
            labels=scraped("dcgm", workload("dra-mig"), GPU_I_ID=part, dra_mig_device_uuid="MIG-1"),
            uuid="GPU-dra-mig",
        )
        for part, value in (("1", IDLE), ("2", IDLE))
    ]
    sentence = "DRA: all MIG instances of a card are printed for each pod on it"
    mig = gpu("dra-mig", resource="deviceclass.resource.kubernetes.io/mig.nvidia.com")
    yield Case(sentence, mig, [line for part in parts for line in part], Reason.PARTIAL_DEVICES)
    for pod in ("dra-shared-a", "dra-shared-b"):
        lines = claimed(pod, steady(30.0), uuid="GPU-claim")
        yield Case(
            f"DRA: a claim that {pod} shares", gpu(pod, resource=EXTENDED), lines, Reason.SHARED_DEVICE
        )


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


def allocation(pod: str) -> Line:
    """What HAMi's scheduler says of a pod's share."""
    labels = scraped("hami-scheduler", {"namespace": "team", "pod": pod}, node="node-a", container_index="0")
    return Line("hami_vgpu_memory_allocated_bytes", {**labels, "device_uuid": f"GPU-{pod}"}, steady(8 * GIB))


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


def watched(pod: str, value: Value, held: bool) -> list[Line]:
    """What gpu-idle-exporter says of a device, and of a process on it, half an hour ago, by number."""
    node = {"job": "gpu-idle", "instance": f"{pod}:9101", "gpu": "0"}
    device = {**node, "model": "A100", "uuid": f"GPU-{pod}"}
    process = {**node, "pid": "4711", "process": "python"}
    lines = [
        Line("gpu_idle_device_utilization_percent", device, value),
        Line("gpu_idle_device_temperature_celsius", device, steady(40.0)),
    ]
    used = Line("gpu_idle_process_memory_used_bytes", process, steady(4e8), until=1800)
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
    for pod, own, value, reason in (
        ("hold-zero", held("hold-zero"), IDLE, nothing),
        ("hold-doubt", dcgm("hold-doubt", uuid="GPU-hold-doubt"), BUSY, Reason.SIGNALS_DISAGREE),
        ("hold-agrees", dcgm("hold-agrees", uuid="GPU-hold-agrees"), IDLE, idle),
    ):
        lines = [*own, *watched(pod, value, held=pod == "hold-doubt")]
        yield Case(f"gpu-idle-exporter contradicts, and never proves: {pod}", gpu(pod), lines, reason)
