"""The GPUReclaim records: one per pod acted on, written before, completed after; must not know who decides.

A record's name comes from the pod's UID, so that two reapers can never both begin with the same pod, and its
phase tells a new reaper how far the old one came. Records are the memory of the limits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from policy.durations import format_time, parse_time, readable_time
from policy.keys import API_VERSION
from policy.terms import Action
from reaper.pods import GpuPod
from reaper.stops import Stop
from runtime.kube import MERGE_PATCH, ApiError, KubePort
from runtime.listing import Reader, read_list

KIND = "GPUReclaim"
PLURAL = "gpureclaims"
ALL = f"/apis/{API_VERSION}/{PLURAL}"


class Phase(StrEnum):
    """How far an action came; a stop may be undone later, by something else or as its user wished."""

    PLANNED = "Planned"
    ACCEPTED = "Accepted"
    BLOCKED = "Blocked"
    REFUSED = "Refused"
    GONE = "Gone"
    REVERTED = "Reverted"
    RESUMED = "Resumed"


COUNTED = frozenset({Phase.PLANNED, Phase.ACCEPTED, Phase.REVERTED, Phase.RESUMED})
"""What limits count: taken, or perhaps taken."""


class Record(Struct, frozen=True, kw_only=True):
    """What planning needs of a GPUReclaim.

    Attributes:
        namespace: Of the record and its pod.
        name: Of the record.
        pod_name: Name of the pod.
        pod_uid: UID of the pod.
        owner_uid: UID of the root owner.
        devices: Devices the pod held.
        decided_at: When the action was decided; the pods of one action share it.
        phase: How far it came.
        completed_at: When the phase was last written; None while planned.
        message: What the API server said.
        action: What was done to it.
        stop: What was changed of its owner; None for an eviction.
        requester: Who asked for the pod; empty if nobody knows.
        ended_at: When the pod was seen to be gone.
        returned_at: When the owner was seen to hold devices again, soon after.
        active_again_at: When it was seen to use them.
    """

    namespace: str
    name: str
    pod_name: str
    pod_uid: str
    owner_uid: str
    devices: int
    decided_at: datetime
    phase: Phase
    completed_at: datetime | None = None
    message: str = ""
    action: Action = Action.EVICT
    stop: Stop | None = None
    requester: str = ""
    ended_at: datetime | None = None
    returned_at: datetime | None = None
    active_again_at: datetime | None = None

    @property
    def counted(self) -> bool:
        """True if the limits count it."""
        return self.phase in COUNTED

    @property
    def acted_at(self) -> datetime:
        """From when the limits count it: from the acceptance, which may come long after the decision."""
        return (self.completed_at or self.decided_at) if self.phase is Phase.ACCEPTED else self.decided_at


class _Pod(Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Owner(Struct, frozen=True):
    uid: str = ""


class _Spec(Struct, frozen=True, rename="camel"):
    pod: _Pod = _Pod()
    owner: _Owner = _Owner()
    devices: int = 0
    decided_at: str = ""
    action: Action = Action.EVICT
    requester: str = ""


class _Status(Struct, frozen=True, rename="camel"):
    phase: str | None = None
    message: str | None = None
    completed_at: str | None = None
    stop: Stop | None = None
    ended_at: str | None = None
    returned_at: str | None = None
    active_again_at: str | None = None


class _Metadata(Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Object(Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status | None = None


def record_name(uid: str) -> str:
    """Gives the name of the record of a pod."""
    return f"pod-{uid}"


def parse_record(raw: msgspec.Raw | bytes) -> Record:
    """Reads a GPUReclaim.

    Raises:
        ValueError: it is not one of ours in shape (msgspec.DecodeError: or not JSON of that form).
    """
    found = msgspec.json.decode(raw, type=_Object)
    status = found.status or _Status()
    return Record(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        pod_name=found.spec.pod.name,
        pod_uid=found.spec.pod.uid,
        owner_uid=found.spec.owner.uid,
        devices=found.spec.devices,
        decided_at=parse_time(found.spec.decided_at),
        phase=Phase(status.phase or Phase.PLANNED),
        completed_at=parse_time(status.completed_at) if status.completed_at else None,
        message=status.message or "",
        action=Action.STOP if status.stop is not None else found.spec.action,
        stop=status.stop,
        requester=found.spec.requester,
        ended_at=readable_time(status.ended_at),
        returned_at=readable_time(status.returned_at),
        active_again_at=readable_time(status.active_again_at),
    )


def by_owner(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Gathers records by the UID of the root owner."""
    gathered: dict[str, list[Record]] = {}
    for record in records:
        gathered.setdefault(record.owner_uid, []).append(record)
    return gathered


def other_actions(records: Collection[Record], pod_uids: Collection[str], since: datetime) -> int:
    """Counts the actions on one owner after `since`, without those that these pods are part of themselves."""
    own = {record.decided_at for record in records if record.pod_uid in pod_uids}
    return len({record.decided_at for record in records if record.counted and record.acted_at > since} - own)


def devices_taken(records: Collection[Record], since: datetime) -> int:
    """Sums the devices of the actions decided after `since`."""
    return sum(record.devices for record in records if record.counted and record.acted_at > since)


def expired(
    records: Collection[Record], pods: Iterable[GpuPod], now: datetime, keep_seconds: int
) -> tuple[Record, ...]:
    """Gives the records that are old enough to go; one whose pod exists keeps it from a second action."""
    before = now - timedelta(seconds=keep_seconds)
    present = {pod.uid for pod in pods}
    return tuple(one for one in records if one.decided_at < before and one.pod_uid not in present)


class RecordsPort(Protocol):
    """Keeps the records; tests implement it."""

    async def fetch(self) -> Collection[Record]:
        """Gives all records, this reaper's own writes included; raises ApiError and ApiUnreachable."""
        ...

    async def begin(self, record: Record, spec: Mapping[str, Any]) -> Record:
        """Writes a record before the action; gives the existing one if there is one."""
        ...

    async def complete(self, record: Record, phase: Phase, message: str, now: datetime) -> Record:
        """Writes how the action went."""
        ...

    async def note(self, record: Record, status: Mapping[str, Any]) -> None:
        """Adds to the status what was seen afterwards, by its fields in the API."""
        ...

    async def remove(self, record: Record) -> None:
        """Deletes a record that is old enough."""
        ...


class RecordStore:
    """The RecordsPort on the API server; every cycle lists afresh, because limits must not lag behind."""

    def __init__(self, client: KubePort, page: int = 500) -> None:
        self._client = client
        self._page = page
        self._reader = Reader(ALL, parse_record)

    async def fetch(self) -> Collection[Record]:
        """Gives all records; raises ApiError and ApiUnreachable."""
        _, entries = await read_list(self._client, self._reader, {}, self._page)
        return [entry.value for entry in entries.values()]

    async def begin(self, record: Record, spec: Mapping[str, Any]) -> Record:
        """Writes a record before the action; gives the existing one if there is one."""
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": record.name, "namespace": record.namespace},
            "spec": spec,
        }
        try:
            await self._client.request("POST", collection(record.namespace), body=body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            answer = await self._client.request("GET", _path(record))
            try:
                return parse_record(answer.body)
            except (msgspec.DecodeError, ValueError) as unreadable:
                raise error from unreadable
        return record

    async def complete(self, record: Record, phase: Phase, message: str, now: datetime) -> Record:
        """Writes how the action went."""
        status = {"phase": phase.value, "message": message[:1024], "completedAt": format_time(now)}
        path = f"{_path(record)}/status"
        await self._client.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)
        return structs.replace(record, phase=phase, message=message, completed_at=now)

    async def note(self, record: Record, status: Mapping[str, Any]) -> None:
        """Adds to the status what was seen afterwards; a record that is gone is no error."""
        body = {"status": dict(status)}
        try:
            await self._client.request(
                "PATCH", f"{_path(record)}/status", body=body, content_type=MERGE_PATCH
            )
        except ApiError as error:
            if error.status != 404:
                raise

    async def remove(self, record: Record) -> None:
        """Deletes a record; one that is gone is no error."""
        try:
            await self._client.request("DELETE", _path(record))
        except ApiError as error:
            if error.status != 404:
                raise


def collection(namespace: str) -> str:
    """Gives the path of the records of one namespace."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}"


def _path(record: Record) -> str:
    return f"{collection(record.namespace)}/{record.name}"
