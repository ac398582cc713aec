"""The tables of exporters for NVIDIA devices, and of the schedulers that share them."""

from __future__ import annotations

from typing import Final

from reaper.rows import counted, given, kernel, memory, percent, ratio, summed, watts
from reaper.sources import OLD, Form, Metric, Role, Sharing, Source, forms

DCGM: Final = Source(
    name="dcgm",
    sharing=Sharing.DEVICE,
    # With --use-old-namespace the labels are those of 1.x, and the names may be the present ones.
    forms=(*forms(), OLD),
    device=("UUID",),
    instance="GPU_I_ID",
    virtual="vgpu",
    uid=("pod_uid", "UID"),
    metrics=(
        percent("DCGM_FI_DEV_GPU_UTIL", "utilization", principal=True),
        ratio("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "engine", principal=True),
        ratio("DCGM_FI_PROF_SM_ACTIVE", "sm", principal=True),
        ratio("DCGM_FI_PROF_SM_OCCUPANCY", "sm-occupancy"),
        ratio("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor"),
        ratio("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "fp64"),
        ratio("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "fp32"),
        ratio("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "fp16"),
        ratio("DCGM_FI_PROF_DRAM_ACTIVE", "dram"),
        percent("DCGM_FI_DEV_MEM_COPY_UTIL", "copy"),
        percent("DCGM_FI_DEV_ENC_UTIL", "encoder"),
        percent("DCGM_FI_DEV_DEC_UTIL", "decoder"),
        memory("DCGM_FI_DEV_FB_USED"),
        memory("DCGM_FI_DEV_FB_FREE", Role.FREE),
        watts("DCGM_FI_DEV_POWER_USAGE"),
        counted("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy", Role.ENERGY),
        counted("DCGM_FI_DEV_XID_ERRORS", "xid", Role.LAST_FAULT),
        counted("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "ecc", Role.FAULT_COUNT),
        counted("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "ecc-aggregate", Role.FAULT_COUNT),
        counted("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "remapped-rows", Role.FAULT_COUNT),
        counted("DCGM_FI_DEV_ROW_REMAP_FAILURE", "row-remap-failure", Role.FAULT_CODE),
    ),
)

DCGM_1X: Final = Source(
    name="dcgm-1.x",
    sharing=Sharing.DEVICE,
    forms=(OLD,),
    device=("uuid",),
    metrics=(
        percent("dcgm_gpu_utilization", "utilization", principal=True),
        percent("dcgm_mem_copy_utilization", "copy"),
        percent("dcgm_enc_utilization", "encoder"),
        percent("dcgm_dec_utilization", "decoder"),
        memory("dcgm_fb_used"),
        memory("dcgm_fb_free", Role.FREE),
        watts("dcgm_power_usage"),
        counted("dcgm_total_energy_consumption", "energy", Role.ENERGY),
        counted("dcgm_xid_errors", "xid", Role.LAST_FAULT),
        counted("dcgm_ecc_dbe_volatile_total", "ecc", Role.FAULT_COUNT),
    ),
)

HAMI: Final = Source(
    name="hami",
    sharing=Sharing.SHARE,
    forms=forms(),
    device=("device_uuid",),
    instance="vdevice_index",
    vendors=("nvidia", "hami"),
    metrics=(
        summed("hami_container_device_utilization_ratio", "utilization"),
        summed("hami_host_gpu_utilization_ratio", "host-utilization", Role.HOST),
        percent("hami_host_gpu_memory_controller_utilization_ratio", "host-copy", role=Role.HOST),
        kernel("hami_container_last_kernel_elapsed_seconds"),
        memory("hami_vgpu_memory_used_bytes", scale=1.0),
        memory("hami_vgpu_memory_limit_bytes", Role.LIMIT, scale=1.0),
        watts("hami_host_gpu_power_usage_watts"),
        counted(
            "hami_host_gpu_ecc_errors_total", "ecc", Role.FAULT_COUNT, where=(("error_type", "uncorrected"),)
        ),
        given("hami_vgpu_memory_allocated_bytes", "allocated", Role.ALLOCATED),
        given("hami_container_device_memory_bytes", "processes", Role.PROCESS),
    ),
)

HAMI_LEGACY: Final = Source(
    name="hami-legacy",
    sharing=Sharing.SHARE,
    forms=(Form("podnamespace", "podname", "ctrname"),),
    device=("deviceuuid",),
    instance="vdeviceid",
    # Volcano's device plugin prints the same names but neither utilization nor last kernel of a container.
    vendors=("nvidia", "hami", "volcano"),
    by_card=("volcano",),
    metrics=(
        summed("Device_utilization_desc_of_container", "utilization"),
        summed("HostCoreUtilization", "host-utilization", Role.HOST),
        kernel("Device_last_kernel_of_container"),
        memory("vGPU_device_memory_usage_in_bytes", scale=1.0),
        memory("vGPU_device_memory_limit_in_bytes", Role.LIMIT, scale=1.0),
        given("vGPUMemoryAllocated", "allocated", Role.ALLOCATED),
        given("vGPUPodsDeviceAllocated", "allocated", Role.ALLOCATED),
        given("Device_memory_desc_of_container", "processes", Role.PROCESS),
    ),
)

NVIDIA_SMI: Final = Source(
    name="nvidia-smi",
    sharing=Sharing.DEVICE,
    forms=(),
    device=("uuid",),
    prefix="GPU-",
    metrics=(
        ratio("nvidia_smi_utilization_gpu_ratio", "utilization", principal=True),
        ratio("nvidia_smi_utilization_memory_ratio", "copy"),
        ratio("nvidia_smi_utilization_encoder_ratio", "encoder"),
        ratio("nvidia_smi_utilization_decoder_ratio", "decoder"),
        memory("nvidia_smi_memory_used_bytes", scale=1.0),
        memory("nvidia_smi_memory_total_bytes", Role.LIMIT, scale=1.0),
        watts("nvidia_smi_power_draw_watts"),
        counted("nvidia_smi_ecc_errors_uncorrected_volatile_total", "ecc", Role.FAULT_COUNT),
    ),
)

GPU_IDLE: Final = Source(
    name="gpu-idle",
    sharing=Sharing.DEVICE,
    forms=(),
    device=("uuid",),
    prefix="GPU-",
    alias=Form("job", "instance", "gpu"),
    metrics=(
        # It prints 0 where the driver gives no answer, so it can contradict idleness but never prove it.
        Metric("gpu_idle_device_utilization_percent", "utilization", Role.ACTIVITY),
        Metric("gpu_idle_device_temperature_celsius", "name", Role.NAME, unit=""),
        given("gpu_idle_process_memory_used_bytes", "processes", Role.PROCESS),
    ),
)
