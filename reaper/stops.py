"""What stopping one owner changed, as a value: made, written into a record, read back. Talks to nobody."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from policy.devices import devices_of
from policy.durations import format_time, readable_time
from policy.keys import PREFIX
from policy.objects import PodTemplate
from policy.resources import ResourceTable
from policy.workloads import JOB as JOB_KIND
from policy.workloads import find, workload_kind
from reaper.owners import Root
from reaper.stopways import JOB, REPLICAS, Way, merged, patch_of, value_in

STOPPED = f"{PREFIX}stopped"
"""The annotation of a stopped owner: when, and what it was before. Whoever resumes it removes it."""

FIELD_MANAGER = "gpu-tenure-reaper"
RESUMER = "gpu-tenure-resume"


class Stop(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A change that stopped an owner.

    Attributes:
        api_version: Of the object that was changed, such as `apps/v1`.
        kind: Its kind.
        resource: Its plural.
        name: Its name; it lives in the namespace of its pods.
        uid: Its UID.
        field: The JSON pointer that was set.
        value: What it was set to, as JSON.
        remember: The JSON pointer whose former value is kept.
        former: That value, as JSON; `null` where the field was absent.
        deadline_seconds: The `activeDeadlineSeconds` of a Job at the stop.
        used_seconds: How long the Job had run by then: its clock starts again when it is resumed.
    """

    api_version: str
    kind: str
    resource: str
    name: str
    uid: str
    field: str
    value: str
    remember: str
    former: str = "null"
    deadline_seconds: int | None = None
    used_seconds: int | None = None

    @property
    def target(self) -> tuple[str, str, str]:
        """What tells stopped objects apart."""
        return (self.kind, self.name, self.uid)

    def collection(self, namespace: str) -> str:
        """Gives the path of the objects of its kind."""
        base = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{base}/namespaces/{namespace}/{self.resource}"

    def path(self, namespace: str) -> str:
        """Gives the path of the object."""
        return f"{self.collection(namespace)}/{self.name}"

    def still_set(self, content: Mapping[str, Any]) -> bool:
        """True if the object still has what was written."""
        found = value_in(content, self.field)
        return bool(found == msgspec.json.decode(self.value))

    def to_status(self) -> dict[str, Any]:
        """Gives the change as a GPUReclaim holds it."""
        return dict(msgspec.to_builtins(self))


def stop_of(owner: Root, way: Way, content: Mapping[str, Any], now: datetime) -> Stop:
    """Gives the change that stops an owner, from the object as it is now."""
    former = value_in(content, way.remember)
    deadline = used = None
    if way == JOB:
        deadline = value_in(content, "/spec/activeDeadlineSeconds")
        started = readable_time(value_in(content, "/status/startTime"))
        used = max(int((now - started).total_seconds()), 0) if started is not None else 0
    elif way.field == REPLICAS and former is None:
        former = 1
    return Stop(
        api_version=owner.api_version,
        kind=owner.kind,
        resource=way.resource,
        name=owner.name,
        uid=owner.uid,
        field=way.field,
        value=_json(way.value_at(now)),
        remember=way.remember,
        former=_json(former),
        deadline_seconds=deadline if isinstance(deadline, int) else None,
        used_seconds=used if deadline is not None else None,
    )


def stopping_patch(stop: Stop, resource_version: str, now: datetime) -> dict[str, Any]:
    """Gives the merge patch that stops the owner, and only if it is the object that was looked at."""
    note = _json({"at": format_time(now), "field": stop.remember, "former": msgspec.json.decode(stop.former)})
    identity = {"metadata": {"uid": stop.uid, "resourceVersion": resource_version}}
    annotated = {"metadata": {"annotations": {STOPPED: note}}}
    return merged(identity, annotated, patch_of(stop.field, msgspec.json.decode(stop.value)))


def makes_gpu_pods(owner: Root, content: Mapping[str, Any], table: ResourceTable) -> bool:
    """False if the owner's own templates ask for no GPU, so that its pods only pretend to be its.

    Anybody who may create a pod can name any object of the namespace as its controller. Kinds without known
    templates cannot be looked into.
    """
    is_job = (owner.group, owner.kind) == (JOB.group, JOB.kind)
    kind = JOB_KIND if is_job else workload_kind(owner.group, owner.kind)
    if kind is None or not kind.templates:
        return True
    return any(asks_for_gpus(content, place.path, table) for place in kind.templates)


def asks_for_gpus(content: Mapping[str, Any], path: str, table: ResourceTable) -> bool:
    """True if a pod template at a path asks for a GPU."""
    return any(_asks(template, table) for _, template in find(content, path))


def _asks(template: object, table: ResourceTable) -> bool:
    try:
        found = msgspec.convert(template, PodTemplate)
    except msgspec.ValidationError:
        return False
    annotations = found.metadata.annotations if found.metadata else None
    return found.spec is not None and devices_of(found.spec, annotations, table).may_be_gpu


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
