"""The series that real exporters would print for simulated devices: pure, names as data; serves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sandbox.activity import GIB, Profile, Sample, profile_of, sample
from sandbox.devices import Holding, Node, Slot, slots_of

DEVICE_MEMORY = 80 * GIB
MIG_MEMORY = 10 * GIB
MIB = 1 << 20
DRIVER = "580.65.06"
MODEL = "NVIDIA A100-SXM4-80GB"


@dataclass(frozen=True)
class Series:
    """One sample of one series, with the type of its metric."""

    name: str
    labels: Mapping[str, str]
    value: float
    counter: bool = False


@dataclass(frozen=True)
class View:
    """What the exporters see at one time.

    Attributes:
        nodes: The nodes with devices.
        holdings: Who holds which device.
        profiles: The activity of each pod, by UID.
        at: Unix time.
        interval: Scrape interval in seconds.
    """

    nodes: Sequence[Node]
    holdings: Sequence[Holding]
    profiles: Mapping[str, tuple[Profile, ...]]
    at: float
    interval: float

    def sample(self, holding: Holding) -> Sample | None:
        """What the sensors say about one holding."""
        profiles = self.profiles.get(holding.pod.uid, (Profile("busy"),))
        profile = profile_of(profiles, holding.ordinal)
        return sample(profile, holding.pod.memory, holding.pod.start, self.at, self.interval)


def combined(samples: Sequence[Sample]) -> Sample:
    """Gives what the sensors of a device say that several pods use: the busiest, with all memory."""
    busiest = max(samples, key=lambda one: (one.utilization, one.profiled))
    return replace(busiest, memory=sum(one.memory for one in samples), xid=max(one.xid for one in samples))


def _dcgm_labels(slot: Slot) -> dict[str, str]:
    labels = {
        "gpu": str(slot.device),
        "UUID": slot.uuid,
        "pci_bus_id": f"00000000:{slot.device + 7:02X}:00.0",
        "device": f"nvidia{slot.device}",
        "modelName": MODEL,
        "Hostname": slot.node,
        "DCGM_FI_DRIVER_VERSION": DRIVER,
    }
    if "/mig-" in slot.resource:
        labels |= {"GPU_I_PROFILE": slot.resource.split("/mig-")[1], "GPU_I_ID": str(slot.share + 7)}
    return labels


# Name, value, whether it exists on MIG instances, whether it is a counter.
_DCGM: Sequence[tuple[str, Callable[[Sample, float], float], bool, bool]] = (
    ("DCGM_FI_DEV_GPU_UTIL", lambda s, _: s.utilization, False, False),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", lambda s, _: s.profiled / 100, True, False),
    ("DCGM_FI_PROF_DRAM_ACTIVE", lambda s, _: s.profiled / 200, True, False),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", lambda s, _: s.utilization / 2, False, False),
    ("DCGM_FI_DEV_ENC_UTIL", lambda _s, _: 0.0, False, False),
    ("DCGM_FI_DEV_DEC_UTIL", lambda _s, _: 0.0, False, False),
    ("DCGM_FI_DEV_FB_USED", lambda s, _: s.memory // MIB, True, False),
    ("DCGM_FI_DEV_FB_FREE", lambda s, total: max(0.0, (total - s.memory) // MIB), True, False),
    ("DCGM_FI_DEV_POWER_USAGE", lambda s, _: s.watts, True, False),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", lambda s, _: round(s.joules * 1000), True, True),
    ("DCGM_FI_DEV_XID_ERRORS", lambda s, _: float(s.xid), True, False),
)


def dcgm(view: View) -> Iterator[Series]:
    """Prints what dcgm-exporter prints for devices of pods: every sharer gets the values of the device."""
    whole: dict[tuple[str, int | None], list[Sample]] = {}
    for holding in view.holdings:
        found = view.sample(holding)
        if found is not None:
            whole.setdefault(_sensor(holding.slot), []).append(found)
    for holding in view.holdings:
        if view.sample(holding) is None:
            continue
        pod = {"container": holding.container, "namespace": holding.pod.namespace, "pod": holding.pod.name}
        yield from _dcgm_device(holding.slot, combined(whole[_sensor(holding.slot)]), pod)


def _sensor(slot: Slot) -> tuple[str, int | None]:
    """What one set of sensors belongs to: a device, or one MIG instance of it."""
    return slot.uuid, slot.share if "/mig-" in slot.resource else None


def dcgm_free(view: View) -> Iterator[Series]:
    """Prints the NVIDIA devices of all nodes that nobody holds."""
    held = {(holding.slot.uuid, holding.slot.share) for holding in view.holdings}
    used = {uuid for uuid, _ in held}
    at_rest = Sample(0.0, 0.0, 0.0, 0.0, 55.0, view.at * 55.0 % 1e9, 0.0)
    for node in view.nodes:
        for resource in node.counts:
            if not resource.startswith("nvidia.com/"):
                continue
            for slot in slots_of(node, resource):
                instance = "/mig-" in resource
                free = (
                    (slot.uuid, slot.share) not in held
                    if instance
                    else slot.uuid not in used and not slot.share
                )
                if free:
                    yield from _dcgm_device(slot, at_rest, {})


def _dcgm_device(slot: Slot, found: Sample, pod: Mapping[str, str]) -> Iterator[Series]:
    mig = "/mig-" in slot.resource
    labels = {**_dcgm_labels(slot), **pod}
    for name, value, on_mig, counter in _DCGM:
        if on_mig or not mig:
            yield Series(name, labels, value(found, MIG_MEMORY if mig else DEVICE_MEMORY), counter)


@dataclass(frozen=True)
class _HamiNames:
    """The metric and label names of one generation of HAMi's monitor."""

    utilization: str
    memory_used: str
    memory_limit: str
    last_kernel: str
    host_utilization: str
    host_memory: str
    labels: Mapping[str, str]
    host_labels: Mapping[str, str]
    allocated: str = ""


_HAMI = _HamiNames(
    utilization="hami_container_device_utilization_ratio",
    memory_used="hami_vgpu_memory_used_bytes",
    memory_limit="hami_vgpu_memory_limit_bytes",
    last_kernel="hami_container_last_kernel_elapsed_seconds",
    host_utilization="hami_host_gpu_utilization_ratio",
    host_memory="hami_host_gpu_memory_used_bytes",
    labels={
        "namespace": "namespace",
        "pod": "pod",
        "container": "container",
        "index": "vdevice_index",
        "uuid": "device_uuid",
    },
    host_labels={"node": "node", "uuid": "device_uuid", "index": "device_index"},
    allocated="hami_vgpu_memory_allocated_bytes",
)
_HAMI_LEGACY = _HamiNames(
    utilization="Device_utilization_desc_of_container",
    memory_used="vGPU_device_memory_usage_in_bytes",
    memory_limit="vGPU_device_memory_limit_in_bytes",
    last_kernel="Device_last_kernel_of_container",
    host_utilization="HostCoreUtilization",
    host_memory="HostGPUMemoryUsage",
    labels={
        "namespace": "podnamespace",
        "pod": "podname",
        "container": "ctrname",
        "index": "vdeviceid",
        "uuid": "deviceuuid",
    },
    host_labels={"node": "nodeid", "uuid": "deviceuuid", "index": "deviceidx"},
)


def hami(view: View) -> Iterator[Series]:
    """Prints what HAMi's monitor and scheduler print from 2.9 on."""
    return _hami(view, _HAMI)


def hami_legacy(view: View) -> Iterator[Series]:
    """Prints what HAMi's monitor printed before 2.9."""
    return _hami(view, _HAMI_LEGACY)


def _hami(view: View, names: _HamiNames) -> Iterator[Series]:
    hosts: dict[Slot, list[Sample]] = {}
    kernels: set[tuple[str, str]] = set()
    for holding in view.holdings:
        pod, slot = holding.pod, holding.slot
        given = {
            "namespace": pod.namespace,
            "pod": pod.name,
            "container": holding.container,
            "index": str(holding.ordinal),
            "uuid": slot.uuid,
        }
        labels = {names.labels[key]: value for key, value in given.items()}
        limit = pod.vgpu_memory or float(DEVICE_MEMORY)
        if names.allocated:
            where = {key: labels[key] for key in ("namespace", "pod", "device_uuid")}
            yield Series(names.allocated, {**where, "node": slot.node}, limit)
        # The physical card is there whether or not the share says anything.
        card = hosts.setdefault(Slot(slot.node, slot.resource, slot.device), [])
        found = view.sample(holding)
        if found is None:
            continue
        card.append(found)
        yield Series(names.utilization, labels, found.utilization)
        yield Series(names.memory_used, labels, min(found.memory, limit))
        yield Series(names.memory_limit, labels, limit)
        if (pod.uid, holding.container) not in kernels:
            kernels.add((pod.uid, holding.container))
            yield Series(names.last_kernel, labels, round(found.kernel_age))
    yield from _hami_hosts(hosts, names)


def _hami_hosts(hosts: Mapping[Slot, Sequence[Sample]], names: _HamiNames) -> Iterator[Series]:
    for card, samples in hosts.items():
        given = {"node": card.node, "uuid": card.uuid, "index": str(card.device)}
        labels = {names.host_labels[key]: value for key, value in given.items()}
        yield Series(names.host_utilization, labels, max((one.host for one in samples), default=0.0))
        yield Series(names.host_memory, labels, sum(one.memory for one in samples))


def amd(view: View) -> Iterator[Series]:
    """Prints what AMD's device-metrics-exporter prints."""
    for holding in view.holdings:
        found = view.sample(holding)
        if found is None:
            continue
        labels = {
            "gpu_id": str(holding.slot.device),
            "gpu_partition_id": "0",
            "gpu_uuid": holding.slot.uuid,
            "hostname": holding.slot.node,
            "container": holding.container,
            "namespace": holding.pod.namespace,
            "pod": holding.pod.name,
        }
        yield Series("gpu_gfx_activity", labels, found.utilization)
        yield Series("gpu_umc_activity", labels, found.profiled / 2)
        yield Series("gpu_used_vram", labels, found.memory // MIB)
        yield Series("gpu_total_vram", labels, DEVICE_MEMORY // MIB)
        yield Series("gpu_package_power", labels, found.watts)


SHAPES: Mapping[str, Callable[[View], Iterator[Series]]] = {
    "dcgm": dcgm,
    "hami": hami,
    "hami-legacy": hami_legacy,
    "amd": amd,
}


def families(series: Iterable[Series]) -> dict[str, list[Series]]:
    """Groups samples by metric, as the exposition format wants them."""
    grouped: dict[str, list[Series]] = {}
    for one in series:
        grouped.setdefault(one.name, []).append(one)
    return grouped


def exposition(series: Iterable[Series]) -> str:
    """Writes the text format that Prometheus scrapes."""
    lines: list[str] = []
    for name, samples in families(series).items():
        lines.append(f"# HELP {name} Simulated.")
        lines.append(f"# TYPE {name} {'counter' if samples[0].counter else 'gauge'}")
        lines += [f"{name}{label_text(one.labels)} {one.value!r}" for one in samples]
    return "\n".join((*lines, ""))


def label_text(labels: Mapping[str, str]) -> str:
    """Writes labels in braces, escaped."""
    escaped = (f'{key}="{_escape(value)}"' for key, value in labels.items())
    return "{" + ",".join(escaped) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
