"""The cases of dcgm-exporter: forms of labels, MIG, time-slicing and MPS, claims."""

from __future__ import annotations

from collections.abc import Iterator

from policy.devices import Devices
from policy.verdicts import Reason
from tests.reaper.judging.cases import Case, once, until
from tests.reaper.judging.cases_of_nvidia import smi
from tests.reaper.judging.past import (
    BUSY,
    IDLE,
    Line,
    Value,
    dcgm,
    gpu,
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
