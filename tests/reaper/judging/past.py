"""A real Prometheus with a past that tests make up; it scrapes nothing, so answers never change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from policy.devices import Devices
from policy.objects import Pod
from reaper.pods import GpuPod
from sandbox.archive import archive

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
HOUR = 3600
Value = Callable[[float], "float | None"]
"""The value at a number of seconds before NOW; None for no sample."""


@dataclass(frozen=True)
class Line:
    """A series: samples every `every` seconds from `since` to `until` seconds before NOW."""

    name: str
    labels: Mapping[str, str]
    value: Value
    since: float = 1.3 * HOUR
    until: float = 0.0
    every: float = 15.0
    offset: float = 4.0

    def samples(self) -> Iterator[str]:
        """The lines of OpenMetrics text."""
        labels = ",".join(f'{key}="{value}"' for key, value in self.labels.items())
        ago = self.since - self.offset
        while ago >= self.until:
            value = self.value(ago)
            if value is not None:
                yield f"{self.name}{{{labels}}} {value!r} {NOW.timestamp() - ago:.3f}\n"
            ago -= self.every


def steady(value: float) -> Value:
    """The same value at any time."""
    return lambda _ago: value


IDLE = steady(0.0)
BUSY = steady(97.0)


def scraped(job: str, workload: Mapping[str, str], **more: str) -> dict[str, str]:
    """The labels of a scrape that keeps its target's labels: the workload's get the prefix `exported_`."""
    target = {"job": job, "instance": "10.0.0.1:9400", "namespace": "gpu-operator", "pod": "dcgm-exporter-0"}
    return {
        **target,
        "container": "exporter",
        **{f"exported_{key}": value for key, value in workload.items()},
        **more,
    }


def honored(job: str, workload: Mapping[str, str], **more: str) -> dict[str, str]:
    """The labels of a scrape that lets the exporter's labels win."""
    return {"job": job, "instance": "10.0.0.1:9400", **workload, **more}


def workload(pod: str, container: str = "main", namespace: str = "team") -> dict[str, str]:
    """The labels that name a workload."""
    return {"namespace": namespace, "pod": pod, "container": container}


def dcgm(
    pod: str,
    device: int = 0,
    *,
    util: Value | None = IDLE,
    engine: Value | None = IDLE,
    memory: float | None = 400.0,
    energy: Value | None = lambda ago: 1e9 - ago * 60_000,
    labels: Mapping[str, str] | None = None,
    uuid: str = "",
    extra: Mapping[str, Value] | None = None,
    base: Line | None = None,
) -> list[Line]:
    """What dcgm-exporter says of one device of a pod; percent, a ratio for the engine, memory in MiB."""
    own = {"UUID": uuid or f"GPU-{pod}-{device}", "gpu": str(device), "Hostname": "node-a"}
    named = {**(labels if labels is not None else scraped("dcgm", workload(pod))), **own}
    values: dict[str, Value | None] = {
        "DCGM_FI_DEV_GPU_UTIL": util,
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": engine,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": energy,
        **(extra or {}),
    }
    if memory is not None:
        values["DCGM_FI_DEV_FB_USED"] = steady(memory)
        values["DCGM_FI_DEV_FB_FREE"] = steady(81920.0 - memory)
    shape = base or Line("", {}, IDLE)
    return [replace(shape, name=name, labels=named, value=value) for name, value in values.items() if value]


@dataclass(frozen=True)
class HamiNames:
    """The names of one generation of HAMi."""

    utilization: str = "hami_container_device_utilization_ratio"
    kernel: str = "hami_container_last_kernel_elapsed_seconds"
    used: str = "hami_vgpu_memory_used_bytes"
    limit: str = "hami_vgpu_memory_limit_bytes"
    host: str = "hami_host_gpu_utilization_ratio"
    uuid: str = "device_uuid"
    index: str = "vdevice_index"


NEW = HamiNames()
LEGACY = HamiNames(
    "Device_utilization_desc_of_container",
    "Device_last_kernel_of_container",
    "vGPU_device_memory_usage_in_bytes",
    "vGPU_device_memory_limit_in_bytes",
    "HostCoreUtilization",
    "deviceuuid",
    "vdeviceid",
)


def hami(
    pod: str,
    *,
    util: Value = IDLE,
    kernel: Value | None = lambda ago: 4 * HOUR - ago,
    host: Value | None = IDLE,
    used: float = 400.0 * (1 << 20),
    uuid: str = "",
    names: HamiNames = NEW,
    labels: Mapping[str, str] | None = None,
) -> list[Line]:
    """What HAMi's monitor says of one share of a pod; the last kernel in seconds, the rest as exported."""
    card = {names.uuid: uuid or f"GPU-{pod}"}
    if labels is None and names is LEGACY:
        labels = {"job": "hami-legacy", "podnamespace": "team", "podname": pod, "ctrname": "main"}
    own = {**(labels if labels is not None else scraped("hami", workload(pod))), **card, names.index: "0"}
    values = {
        names.utilization: util,
        names.kernel: kernel,
        names.used: steady(used),
        names.limit: steady(8.0 * (1 << 30)),
    }
    lines = [Line(name, own, value) for name, value in values.items() if value]
    return [*lines, *([Line(names.host, {"job": "hami", **card}, host)] if host else [])]


def gpu(
    name: str, count: int = 1, resource: str = "nvidia.com/gpu", started: float = 3 * HOUR, **more: object
) -> GpuPod:
    """A running pod that started so many seconds before NOW."""
    start = NOW - timedelta(seconds=started)
    fields: dict[str, object] = {
        "namespace": "team",
        "uid": f"uid-{name}",
        "node": "node-a",
        "phase": "Running",
        "labels": {},
        "annotations": {},
        "created": start,
        "containers_started": start,
        "devices": Devices({resource: count}, ("main",)),
        "owner": None,
        "deleting": False,
        "priority": 0,
        "resource_version": "1",
        "pod": Pod(),
    }
    return GpuPod(name=name, **{**fields, **more})  # type: ignore[arg-type]


def prometheus_of(lines: Iterable[Line], folder: Path) -> AbstractContextManager[str]:
    """A Prometheus that holds these series; yields its address."""
    return archive((sample for line in lines for sample in line.samples()), folder)
