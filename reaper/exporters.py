"""The exporters as data: metric names, roles, scales and labels; another exporter is more rows, not code."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from reaper.exporters_nvidia import DCGM, DCGM_1X, GPU_IDLE, HAMI, HAMI_LEGACY, NVIDIA_SMI
from reaper.rows import counted, memory, percent, prefixed, ratio, watts
from reaper.sources import Metric, Role, Sharing, Source, forms

__all__ = [
    "AMD",
    "ASCEND",
    "CAMBRICON",
    "DCGM",
    "DCGM_1X",
    "GPU_IDLE",
    "HAMI",
    "HAMI_LEGACY",
    "NVIDIA_SMI",
    "SOURCES",
    "XPUMD",
    "vendors_by_card",
    "vendors_by_source",
    "vendors_of",
]

_AMD: Final = (
    percent("gpu_gfx_activity", "engine", principal=True),
    percent("gpu_umc_activity", "dram"),
    memory("gpu_used_vram"),
    memory("gpu_total_vram", Role.LIMIT),
    watts("gpu_package_power"),
    watts("gpu_average_package_power"),
    watts("gpu_power_usage"),
    counted("gpu_energy_consumed", "energy", Role.ENERGY),
    counted("gpu_ecc_uncorrect_total", "ecc", Role.FAULT_COUNT),
    percent("gpu_process_cu_occupancy", "processes", role=Role.PROCESS),
)

AMD: Final = Source(
    name="amd",
    sharing=Sharing.DEVICE,
    forms=forms(),
    device=("hostname", "gpu_id"),
    instance="gpu_partition_id",
    mode="gpu_compute_partition_type",
    undivided=("spx",),
    rests=True,
    vendors=("amd",),
    # The prefix is the exporter's setting; both spellings are common.
    metrics=(*_AMD, *prefixed(_AMD, "amd_")),
)

ASCEND: Final = Source(
    name="ascend",
    sharing=Sharing.DEVICE,
    forms=forms(pod="pod_name", container="container_name"),
    device=("vdie_id",),
    vendors=("huawei",),
    metrics=(
        percent("npu_chip_info_utilization", "utilization", principal=True),
        percent("container_npu_utilization", "container-utilization", principal=True),
        percent("npu_chip_info_overall_utilization", "overall"),
        percent("npu_chip_info_vector_utilization", "vector"),
        percent("npu_chip_info_cube_utilization", "cube"),
        memory("npu_chip_info_hbm_used_memory"),
        memory("npu_chip_info_hbm_total_memory", Role.LIMIT),
        memory("npu_chip_info_used_memory"),
        memory("npu_chip_info_total_memory", Role.LIMIT),
        memory("container_npu_used_memory"),
        memory("container_npu_total_memory", Role.LIMIT),
        watts("npu_chip_info_power"),
        counted("npu_chip_info_error_code", "error-code", Role.FAULT_CODE),
    ),
)

CAMBRICON: Final = Source(
    name="cambricon",
    sharing=Sharing.DEVICE,
    # Of mlu_container alone: the others name the device, and are joined on it.
    forms=forms(),
    device=("uuid",),
    instance="vf",
    vendors=("cambricon",),
    metrics=(
        Metric("mlu_container", "holder", Role.HOLDER, unit=""),
        percent("mlu_utilization", "utilization", principal=True),
        memory("mlu_memory_used", scale=1.0),
        memory("mlu_memory_total", Role.LIMIT, scale=1.0),
        watts("mlu_power_usage"),
    ),
)

_ON_CARD: Final = (("hw_memory_location", "device"),)

XPUMD: Final = Source(
    name="xpumd",
    sharing=Sharing.DEVICE,
    forms=(),
    device=("hw_id",),
    vendors=("intel",),
    metrics=(
        ratio("hw_gpu_utilization_ratio", "utilization", principal=True),
        replace(memory("hw_memory_usage_bytes", scale=1.0), where=_ON_CARD),
        replace(memory("hw_memory_size_bytes", Role.LIMIT, scale=1.0), where=_ON_CARD),
    ),
)

SOURCES: Final = (
    DCGM,
    DCGM_1X,
    HAMI,
    HAMI_LEGACY,
    NVIDIA_SMI,
    GPU_IDLE,
    AMD,
    ASCEND,
    CAMBRICON,
    XPUMD,
)
"""Every exporter that is known, in the order of evidence."""


@lru_cache(maxsize=8)
def vendors_of(sources: tuple[Source, ...]) -> frozenset[str]:
    """Vendors whose devices some source sees; of all others nothing is known, which never proves idleness."""
    return frozenset(vendor for source in sources for vendor in source.vendors)


@lru_cache(maxsize=8)
def vendors_by_source(sources: tuple[Source, ...]) -> dict[str, frozenset[str]]:
    """Vendors by the name of the source that sees their devices."""
    return {source.name: frozenset(source.vendors) for source in sources}


@lru_cache(maxsize=8)
def vendors_by_card(sources: tuple[Source, ...]) -> frozenset[str]:
    """Vendors whose shares are judged by the physical card alone."""
    return frozenset(vendor for source in sources for vendor in source.by_card)
