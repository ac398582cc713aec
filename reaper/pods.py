"""GPU pods as the reaper keeps them: what judging and acting need of a pod; knows no metrics and no API."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from policy.devices import Devices, devices_of
from policy.durations import readable_time
from policy.keys import Annotation, Label
from policy.objects import OwnerReference, Pod, PodStatus
from policy.resources import BUILT_IN_TABLE, ResourceTable

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
OWN_KEYS = frozenset(str(key) for keys in (Label, Annotation) for key in keys)
"""By any of these a pod says that it holds GPUs, whatever its claims are."""


class GpuPod(Struct, frozen=True):
    """A pod that holds GPUs, read once.

    Attributes:
        created: When the API server created the pod.
        containers_started: The latest start of the containers that hold devices; None if one does not run.
        devices: What the pod holds.
        owner: Its controller, if any.
        pod: The object it was read from.
    """

    namespace: str
    name: str
    uid: str
    node: str | None
    phase: str
    labels: dict[str, str]
    annotations: dict[str, str]
    created: datetime
    containers_started: datetime | None
    devices: Devices
    owner: OwnerReference | None
    deleting: bool
    priority: int
    resource_version: str
    pod: Pod

    @property
    def finished(self) -> bool:
        """Whether the pod has ended and only its object is left."""
        return self.phase in FINISHED_PHASES

    @property
    def certain(self) -> bool:
        """Whether it is known to hold GPUs: by what it asks for, or because admission knew its claims."""
        return self.devices.is_gpu or Label.POLICY in self.labels


def gpu_pod(pod: Pod, table: ResourceTable = BUILT_IN_TABLE) -> GpuPod | None:
    """Reads a pod; None if it holds no GPU, or lacks the name, namespace or creation time of a stored one.

    Claims are not looked up here: one with claims is taken for a GPU pod if it carries a label or annotation
    of ours, by admission, which knew that they hold GPUs, or by whoever made it.
    """
    meta = pod.metadata
    devices = devices_of(pod.spec, meta.annotations, table)
    claims = devices.unresolved and not OWN_KEYS.isdisjoint({*(meta.labels or ()), *(meta.annotations or ())})
    created = readable_time(meta.creation_timestamp)
    if not (devices.is_gpu or claims) or not meta.name or not meta.namespace or created is None:
        return None
    status = pod.status or PodStatus()
    return GpuPod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid or "",
        node=pod.spec.node_name or None,
        phase=status.phase or "Pending",
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        created=created,
        containers_started=_started(status, devices.containers),
        devices=devices,
        owner=meta.controller,
        deleting=meta.deletion_timestamp is not None,
        priority=pod.spec.priority or 0,
        resource_version=meta.resource_version or "",
        pod=pod,
    )


def _started(status: PodStatus, holders: tuple[str, ...]) -> datetime | None:
    """The latest start of the named containers; None if one does not run or none is named."""
    starts: dict[str, datetime] = {}
    for entry in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        running = entry.state.running if entry.state else None
        started = readable_time(running.started_at) if running else None
        if started is not None:
            starts[entry.name] = started
    if not holders or any(name not in starts for name in holders):
        return None
    return max(starts[name] for name in holders)
