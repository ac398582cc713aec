"""Which simulated device belongs to which pod: pure, over lists of nodes and pods; measures nothing."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policy.quantities import parse_quantity, whole_devices
from sandbox.activity import unix_time

PREFIX = "sandbox.gpu-tenure.io/"
SPLIT, ACTIVITY, MEMORY, EXPORTER = (PREFIX + name for name in ("split", "activity", "memory", "exporter"))
SPACE = uuid.UUID("6f0f5b0e-52c1-4a57-9a5a-6d1f7ab2c0de")
DEVICE_NAMES = re.compile(r"nvidia\.com/(gpu|gpu\.shared|mig-.+)|amd\.com/gpu")
HAMI_COMPANIONS = ("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores")


@dataclass(frozen=True)
class Node:
    """A node with its advertised devices; `split` of them share one physical device."""

    name: str
    counts: Mapping[str, int]
    split: int = 1


@dataclass(frozen=True)
class GpuPod:
    """A running pod that holds devices.

    Attributes:
        wants: For each container that holds devices its name, the resource and the number.
        start: When it started, unix seconds; may lie before its creation.
        created: When it was created, unix seconds.
        activity: The annotation, still text.
        memory: Bytes per device if the pod says so.
        vgpu_memory: Bytes of each share's limit under HAMi.
        exporter: The source that reports it.
    """

    namespace: str
    name: str
    uid: str
    node: str
    wants: tuple[tuple[str, str, int], ...]
    start: float
    created: float = 0.0
    activity: str = "busy"
    memory: float | None = None
    vgpu_memory: float | None = None
    exporter: str = "dcgm"


@dataclass(frozen=True)
class Slot:
    """One advertised unit of a node's resource: which physical device, and which share of it."""

    node: str
    resource: str
    device: int
    share: int = 0

    @property
    def uuid(self) -> str:
        """The UUID of the physical device."""
        family = self.resource.split("/")[0] if self.resource.startswith("amd") else "nvidia.com"
        # MIG instances live on devices of their own, so that a node can have both.
        kind = "mig" if "/mig-" in self.resource else "gpu"
        return f"GPU-{uuid.uuid5(SPACE, f'{self.node}/{family}/{kind}/{self.device}')}"


@dataclass(frozen=True)
class Holding:
    """One device as one container of one pod holds it; `ordinal` counts the devices of the pod."""

    pod: GpuPod
    container: str
    slot: Slot
    ordinal: int


@dataclass(frozen=True)
class Assignment:
    """Who holds what: by pod UID, in the order of containers and devices."""

    slots: Mapping[str, tuple[Slot, ...]] = field(default_factory=dict)

    def holdings(self, pods: Iterable[GpuPod]) -> list[Holding]:
        """Gives every device that the pods hold."""
        return [holding for pod in pods for holding in self._of(pod)]

    def _of(self, pod: GpuPod) -> list[Holding]:
        slots = self.slots.get(pod.uid, ())
        containers = [container for container, _, count in pod.wants for _ in range(count)]
        return [
            Holding(pod, name, slot, n) for n, (name, slot) in enumerate(zip(containers, slots, strict=False))
        ]


def assign(before: Assignment, nodes: Sequence[Node], pods: Sequence[GpuPod]) -> Assignment:
    """Keeps what running pods hold; new pods get the lowest free devices, oldest pod first."""
    kept = {pod.uid: before.slots[pod.uid] for pod in pods if pod.uid in before.slots}
    taken = {slot for slots in kept.values() for slot in slots}
    by_name = {node.name: node for node in nodes}
    for pod in sorted(pods, key=lambda one: (one.start, one.uid)):
        if pod.uid in kept or pod.node not in by_name:
            continue
        chosen: list[Slot] = []
        for _, resource, count in pod.wants:
            chosen += _choose(by_name[pod.node], resource, count, taken)
        kept[pod.uid] = tuple(chosen)
        taken.update(chosen)
    return Assignment(kept)


def _choose(node: Node, resource: str, count: int, taken: set[Slot]) -> list[Slot]:
    """Gives the lowest free shares; a pod's shares lie on different devices where there are enough."""
    free = [slot for slot in slots_of(node, resource) if slot not in taken]
    first_of_device = {slot.device: slot for slot in reversed(free)}
    spread = sorted(first_of_device.values(), key=lambda slot: slot.device)
    rest = [slot for slot in free if slot not in spread]
    chosen = [*spread, *rest][:count]
    taken.update(chosen)
    return chosen


def slots_of(node: Node, resource: str) -> list[Slot]:
    """Gives all units of a resource on a node."""
    return [
        Slot(node.name, resource, n // node.split, n % node.split)
        for n in range(node.counts.get(resource, 0))
    ]


def read_node(obj: Mapping[str, Any]) -> Node:
    """Reads a Node object of the API server."""
    allocatable = obj.get("status", {}).get("allocatable") or {}
    counts = {
        name: whole_devices(value) for name, value in allocatable.items() if DEVICE_NAMES.fullmatch(name)
    }
    annotations = obj["metadata"].get("annotations") or {}
    return Node(obj["metadata"]["name"], counts, int(annotations.get(SPLIT, "1")))


def read_pod(obj: Mapping[str, Any]) -> GpuPod | None:
    """Reads a Pod object; None unless it runs and holds devices."""
    status, spec, metadata = obj.get("status", {}), obj["spec"], obj["metadata"]
    wants = tuple(_wants(spec))
    if status.get("phase") != "Running" or not wants:
        return None
    notes = metadata.get("annotations") or {}
    limits = [container.get("resources", {}).get("limits") or {} for container in spec["containers"]]
    shares = [limit["nvidia.com/gpumem"] for limit in limits if "nvidia.com/gpumem" in limit]
    memory = notes.get(MEMORY)
    return GpuPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=spec.get("nodeName", ""),
        wants=wants,
        start=unix_time(status["startTime"]),
        created=unix_time(metadata["creationTimestamp"]),
        activity=notes.get(ACTIVITY, "busy"),
        memory=float(parse_quantity(memory)) if memory else None,
        vgpu_memory=float(whole_devices(shares[0])) * (1 << 20) if shares else None,
        exporter=notes.get(EXPORTER, _default_exporter(wants, limits)),
    )


def _wants(spec: Mapping[str, Any]) -> Iterable[tuple[str, str, int]]:
    sidecars = [one for one in spec.get("initContainers") or [] if one.get("restartPolicy") == "Always"]
    for container in [*sidecars, *spec["containers"]]:
        resources = container.get("resources") or {}
        for name, value in (resources.get("limits") or resources.get("requests") or {}).items():
            if DEVICE_NAMES.fullmatch(name) and (count := whole_devices(value)):
                yield container["name"], name, count


def _default_exporter(wants: Iterable[tuple[str, str, int]], limits: Iterable[Mapping[str, Any]]) -> str:
    if any(name.startswith("amd.com/") for _, name, _ in wants):
        return "amd"
    return "hami" if any(name in limit for limit in limits for name in HAMI_COMPANIONS) else "dcgm"
