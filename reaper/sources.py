"""The exporters as data: metric names, roles, scales and labels; another exporter is more rows, not code."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

MIB: Final = float(1 << 20)
TEN_YEARS: Final = 10 * 365 * 86_400.0


class Role(StrEnum):
    """What a metric can say about idleness.

    ACTIVITY is compared with the threshold and must agree. HOST is the activity of the physical card, whoever
    causes it. KERNEL is seconds since the last kernel. MEMORY, FREE and LIMIT are about device memory.
    FAULT_CODE (non-zero), FAULT_COUNT (moved), ENERGY (stood still) and POWER (above rest) only veto.
    ALLOCATED tells that a share was given out.
    """

    ACTIVITY = "activity"
    HOST = "host"
    KERNEL = "kernel"
    MEMORY = "memory"
    FREE = "free"
    LIMIT = "limit"
    FAULT_CODE = "fault-code"
    FAULT_COUNT = "fault-count"
    ENERGY = "energy"
    POWER = "power"
    ALLOCATED = "allocated"


BOARD_ROLES: Final = frozenset({Role.HOST, Role.FAULT_CODE, Role.FAULT_COUNT, Role.ENERGY, Role.POWER})
"""Roles of metrics that describe the physical device only."""


class Sharing(StrEnum):
    """What a pod's series describe: whole devices (or MIG instances), or shares of a device."""

    DEVICE = "device"
    SHARE = "share"


class Metric(Struct, frozen=True):
    """One metric.

    Attributes:
        name: The name in Prometheus.
        signal: What it is called in evidence.
        role: What it can say.
        scale: Factor from the exported unit to `unit`.
        highest: The largest value that can be true, as exported; the smallest is 0.
        unit: `%`, `B`, `s`, `W` or empty.
        principal: Whether it may prove idleness; others only agree or disagree.
    """

    name: str
    signal: str
    role: Role
    scale: float = 1.0
    highest: float = 100.0
    unit: str = "%"
    principal: bool = False


class Form(Struct, frozen=True):
    """One way in which series name the workload; the labels are empty where a form has none.

    `exported` forms come from scrapes that keep the target's own labels (honorLabels: false).
    """

    namespace: str = ""
    pod: str = ""
    container: str = ""
    exported: bool = False
    clashes: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that name the workload, and the scrape job where a target's labels may look the same."""
        names = tuple(name for name in (self.namespace, self.pod, self.container) if name)
        return (*names, "job") if self.clashes and not self.exported else names

    @property
    def matchers(self) -> str:
        """PromQL matchers that keep the series of this form."""
        if not self.pod:
            return ""
        own = f'{self.pod}!=""'
        return f'exported_pod="",{own}' if self.clashes and not self.exported else own


EXPORTED: Final = Form(
    "exported_namespace", "exported_pod", "exported_container", exported=True, clashes=True
)
PLAIN: Final = Form("namespace", "pod", "container", clashes=True)
WHOLE: Final = Form()
"""The device, whoever uses it and whether or not its series name anybody."""


class Source(Struct, frozen=True):
    """One exporter.

    Attributes:
        name: Its name in settings and evidence.
        sharing: What its pod series describe.
        forms: How series may name the workload.
        device: Labels that together name the physical device.
        instance: Label of the part of the device: a MIG instance, a virtual device, a partition.
        virtual: Label that marks a value as one sharer's, not the device's; empty if there is none.
        uid: Label with the pod's UID, where the exporter is told to add it.
        vendors: Whose devices it sees, as the table of resources names them.
        metrics: The table.
    """

    name: str
    sharing: Sharing
    forms: tuple[Form, ...]
    device: tuple[str, ...]
    metrics: tuple[Metric, ...]
    instance: str = ""
    virtual: str = ""
    uid: str = ""
    vendors: tuple[str, ...] = ("nvidia",)

    def forms_of(self, metric: Metric) -> tuple[Form, ...]:
        """The forms in which a metric is asked for: by workload, or for the device as a whole, or both."""
        if metric.role in BOARD_ROLES:
            return (WHOLE,)
        if metric.role is Role.ACTIVITY and self.sharing is Sharing.DEVICE:
            return (*self.forms, WHOLE)
        return self.forms


def _percent(name: str, signal: str, principal: bool = False) -> Metric:
    return Metric(name, signal, Role.ACTIVITY, principal=principal)


def _ratio(name: str, signal: str, principal: bool = False) -> Metric:
    # Rounding in the exporter can lift a full ratio slightly above 1.
    return Metric(name, signal, Role.ACTIVITY, scale=100.0, highest=1.05, principal=principal)


def _memory(name: str, role: Role = Role.MEMORY, scale: float = MIB) -> Metric:
    signal = {Role.MEMORY: "memory", Role.FREE: "memory-free", Role.LIMIT: "memory-limit"}[role]
    return Metric(name, signal, role, scale=scale, highest=1e14 / scale, unit="B")


def _fault(name: str, signal: str, role: Role) -> Metric:
    return Metric(name, signal, role, highest=1e18, unit="")


def _watts(name: str) -> Metric:
    return Metric(name, "power", Role.POWER, highest=5_000.0, unit="W")


def _kernel(name: str) -> Metric:
    return Metric(name, "last-kernel", Role.KERNEL, highest=TEN_YEARS, unit="s")


def _shared_percent(name: str, signal: str, role: Role = Role.ACTIVITY) -> Metric:
    # HAMi sums over processes, so that several processes exceed 100 together.
    return Metric(name, signal, role, highest=10_000.0, principal=role is Role.ACTIVITY)


DCGM: Final = Source(
    name="dcgm",
    sharing=Sharing.DEVICE,
    forms=(EXPORTED, PLAIN),
    device=("UUID",),
    instance="GPU_I_ID",
    virtual="vgpu",
    uid="pod_uid",
    metrics=(
        _percent("DCGM_FI_DEV_GPU_UTIL", "utilization", principal=True),
        _ratio("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "engine", principal=True),
        _ratio("DCGM_FI_PROF_SM_ACTIVE", "sm", principal=True),
        _ratio("DCGM_FI_PROF_SM_OCCUPANCY", "sm-occupancy"),
        _ratio("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor"),
        _ratio("DCGM_FI_PROF_DRAM_ACTIVE", "dram"),
        _percent("DCGM_FI_DEV_MEM_COPY_UTIL", "copy"),
        _percent("DCGM_FI_DEV_ENC_UTIL", "encoder"),
        _percent("DCGM_FI_DEV_DEC_UTIL", "decoder"),
        _memory("DCGM_FI_DEV_FB_USED"),
        _memory("DCGM_FI_DEV_FB_FREE", Role.FREE),
        _watts("DCGM_FI_DEV_POWER_USAGE"),
        _fault("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy", Role.ENERGY),
        _fault("DCGM_FI_DEV_XID_ERRORS", "xid", Role.FAULT_CODE),
        _fault("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "ecc", Role.FAULT_COUNT),
        _fault("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "ecc-aggregate", Role.FAULT_COUNT),
    ),
)

DCGM_1X: Final = Source(
    name="dcgm-1.x",
    sharing=Sharing.DEVICE,
    forms=(Form("pod_namespace", "pod_name", "container_name"),),
    device=("uuid",),
    metrics=(
        _percent("dcgm_gpu_utilization", "utilization", principal=True),
        _percent("dcgm_mem_copy_utilization", "copy"),
        _percent("dcgm_enc_utilization", "encoder"),
        _percent("dcgm_dec_utilization", "decoder"),
        _memory("dcgm_fb_used"),
        _memory("dcgm_fb_free", Role.FREE),
        _watts("dcgm_power_usage"),
        _fault("dcgm_total_energy_consumption", "energy", Role.ENERGY),
        _fault("dcgm_xid_errors", "xid", Role.FAULT_CODE),
        _fault("dcgm_ecc_dbe_volatile_total", "ecc", Role.FAULT_COUNT),
    ),
)

HAMI: Final = Source(
    name="hami",
    sharing=Sharing.SHARE,
    forms=(EXPORTED, PLAIN),
    device=("device_uuid",),
    instance="vdevice_index",
    vendors=("nvidia", "hami"),
    metrics=(
        _shared_percent("hami_container_device_utilization_ratio", "utilization"),
        _shared_percent("hami_host_gpu_utilization_ratio", "host-utilization", Role.HOST),
        _kernel("hami_container_last_kernel_elapsed_seconds"),
        _memory("hami_vgpu_memory_used_bytes", scale=1.0),
        _memory("hami_vgpu_memory_limit_bytes", Role.LIMIT, scale=1.0),
        Metric("hami_vgpu_memory_allocated_bytes", "allocated", Role.ALLOCATED, highest=1e14, unit="B"),
    ),
)

HAMI_LEGACY: Final = Source(
    name="hami-legacy",
    sharing=Sharing.SHARE,
    forms=(Form("podnamespace", "podname", "ctrname"),),
    device=("deviceuuid",),
    instance="vdeviceid",
    vendors=("nvidia", "hami"),
    metrics=(
        _shared_percent("Device_utilization_desc_of_container", "utilization"),
        _shared_percent("HostCoreUtilization", "host-utilization", Role.HOST),
        _kernel("Device_last_kernel_of_container"),
        _memory("vGPU_device_memory_usage_in_bytes", scale=1.0),
        _memory("vGPU_device_memory_limit_in_bytes", Role.LIMIT, scale=1.0),
    ),
)


def _amd(prefix: str) -> tuple[Metric, ...]:
    return (
        _percent(f"{prefix}gpu_gfx_activity", "engine", principal=True),
        _percent(f"{prefix}gpu_umc_activity", "dram"),
        _memory(f"{prefix}gpu_used_vram"),
        _memory(f"{prefix}gpu_total_vram", Role.LIMIT),
        _watts(f"{prefix}gpu_package_power"),
        _watts(f"{prefix}gpu_average_package_power"),
    )


AMD: Final = Source(
    name="amd",
    sharing=Sharing.DEVICE,
    forms=(EXPORTED, PLAIN),
    device=("hostname", "gpu_id"),
    instance="gpu_partition_id",
    vendors=("amd",),
    # The prefix is the exporter's setting; both spellings are common.
    metrics=(*_amd(""), *_amd("amd_")),
)

SOURCES: Final = (DCGM, DCGM_1X, HAMI, HAMI_LEGACY, AMD)
"""Every exporter that is known, in the order of evidence."""


SEEN_VENDORS: Final = frozenset(vendor for source in SOURCES for vendor in source.vendors)
"""Vendors whose devices some source sees; of all others nothing is known, which never proves idleness."""
