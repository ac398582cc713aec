"""Reads and changes the owners that are stopped, on the API server; decides neither whom to stop nor when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from msgspec import Struct

from policy.resources import BUILT_IN_TABLE, ResourceTable
from reaper.act import Outcome, Result
from reaper.owners import API_VERSION, Root
from reaper.pods import GpuPod
from reaper.stops import FIELD_MANAGER, STOPPED, Stop, asks_for_gpus, makes_gpu_pods, stop_of, stopping_patch
from reaper.stopways import GOES_ON, REPLICAS, WORKLOAD, Way, Ways, is_kueue, value_in
from reaper.undoing import undoer
from runtime.kube import MERGE_PATCH, ApiError, ApiUnreachable, KubePort

Chain = tuple[Root, ...]


class Found(Struct, frozen=True):
    """An owner as it is right before it is stopped; `already` if it is stopped as we would stop it."""

    stop: Stop
    resource_version: str
    already: bool = False


class NotStoppableError(Exception):
    """Why an owner cannot be stopped, as a sentence."""


class Standing(Struct, frozen=True):
    """A stopped owner as it is later.

    Attributes:
        exists: False if it is gone, or another object has its name.
        stopped: True if it is as it was left.
        noted: True if it carries our annotation.
        by: The field manager that changed it, where it did.
    """

    exists: bool
    stopped: bool = False
    noted: bool = False
    by: str = ""


class StopPort(Protocol):
    """Stops owners; tests implement it."""

    async def find(self, chains: Sequence[tuple[GpuPod, Chain]], now: datetime) -> Mapping[str, Found]:
        """Gives what is to be changed, by pod UID; raises NotStoppableError, ApiError, ApiUnreachable."""
        ...

    async def stop(self, found: Found, namespace: str, now: datetime, *, dry_run: bool) -> Result:
        """Stops an owner, or asks the API server what it would say."""
        ...

    async def look(self, stop: Stop, namespace: str) -> Standing:
        """Gives what became of a stopped owner; raises ApiError and ApiUnreachable."""
        ...


def stoppable(chain: Chain) -> Root | None:
    """Gives the owner to be stopped: the root, or what it started where it would only start more."""
    return next((owner for owner in reversed(chain) if (owner.group, owner.kind) not in GOES_ON), None)


class KubeStops:
    """The StopPort on the API server."""

    def __init__(self, client: KubePort, ways: Ways, table: ResourceTable = BUILT_IN_TABLE) -> None:
        self._client = client
        self._ways = ways
        self._table = table

    async def find(self, chains: Sequence[tuple[GpuPod, Chain]], now: datetime) -> Mapping[str, Found]:
        """Gives what is to be changed, by pod UID; raises NotStoppableError, ApiError, ApiUnreachable."""
        known: dict[str, Found] = {}
        found: dict[str, Found] = {}
        for pod, chain in chains:
            owner = stoppable(chain)
            key = owner.uid if owner is not None else pod.uid
            if key not in known:
                known[key] = await self._find(pod, owner, chain, now)
            found[pod.uid] = known[key]
        return found

    async def stop(self, found: Found, namespace: str, now: datetime, *, dry_run: bool) -> Result:
        """Stops an owner, or asks the API server what it would say."""
        query = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        body = stopping_patch(found.stop, found.resource_version, now)
        path = _quoted(found.stop, namespace)
        try:
            await self._client.request("PATCH", path, query=query, body=body, content_type=MERGE_PATCH)
        except ApiError as error:
            return _result(error)
        except ApiUnreachable as error:
            return Result(Outcome.UNKNOWN, f"no answer: {error}")
        return Result(Outcome.ACCEPTED)

    async def look(self, stop: Stop, namespace: str) -> Standing:
        """Gives what became of a stopped owner; raises ApiError and ApiUnreachable."""
        try:
            content = await self._read(_quoted(stop, namespace))
        except ApiError as error:
            if error.status != 404:
                raise
            return Standing(exists=False)
        if value_in(content, "/metadata/uid") != stop.uid:
            return Standing(exists=False)
        noted = STOPPED in (value_in(content, "/metadata/annotations") or {})
        if stop.still_set(content):
            return Standing(exists=True, stopped=True, noted=noted)
        return Standing(exists=True, noted=noted, by=undoer(content, stop.field))

    async def _find(self, pod: GpuPod, owner: Root | None, chain: Chain, now: datetime) -> Found:
        way = self._ways.of(owner.group, owner.kind) if owner is not None else None
        content = await self._content_of(owner, way) if owner is not None and way is not None else {}
        labels = {**(value_in(content, "/metadata/labels") or {}), **pod.labels}
        # What is scaled may have a Workload for each pod or group; to stop one of them stops no other.
        scaled = way is not None and way.field == REPLICAS
        if is_kueue(labels) and not scaled:
            uids = {pod.uid, *(one.uid for one in chain)}
            workload = await self._workload(pod.namespace, uids)
            if workload is not None:
                return _found(*workload, WORKLOAD, now)
        if owner is None:
            raise NotStoppableError(f"pod {pod.name} has no owner")
        if way is None:
            raise NotStoppableError(f"no way to stop a {owner.kind} is in the table stop-kinds")
        if is_kueue(labels) and not scaled:
            raise NotStoppableError(f"Kueue manages {owner}, and its Workload was not found")
        return _found(owner, content, way, now)

    async def _content_of(self, owner: Root, way: Way) -> Mapping[str, Any]:
        """Reads an owner; raises NotStoppableError if it is not what its pods say."""
        if API_VERSION.fullmatch(owner.api_version) is None:
            raise NotStoppableError(f"{owner} has a version that none can have")
        base = f"/apis/{owner.api_version}" if owner.group else f"/api/{owner.api_version}"
        path = f"{base}/namespaces/{owner.namespace}/{way.resource}/{quote(owner.name, safe='')}"
        try:
            content = await self._read(path)
        except ApiError as error:
            if error.status != 404:
                raise
            raise NotStoppableError(f"{owner} is gone") from error
        if value_in(content, "/metadata/uid") != owner.uid:
            raise NotStoppableError(f"{owner} is another object than the one its pods name")
        if not makes_gpu_pods(owner, content, self._table):
            raise NotStoppableError(f"{owner} makes no GPU pods; the pod only names it")
        return content

    async def _workload(self, namespace: str, uids: set[str]) -> tuple[Root, Mapping[str, Any]] | None:
        """Gives the Workload of Kueue's that belongs to one of these objects."""
        if self._ways.of(WORKLOAD.group, WORKLOAD.kind) is None:
            return None
        version = await self._kueue_version()
        if version is None:
            return None
        answer = await self._read(f"/apis/{version}/namespaces/{namespace}/workloads")
        for content in _objects(answer.get("items")):
            owners = {one.get("uid") for one in _objects(value_in(content, "/metadata/ownerReferences"))}
            if owners & uids:
                if not asks_for_gpus(content, "spec.podSets.*.template", self._table):
                    raise NotStoppableError(
                        "the Workload of the pod is not of GPU pods; the pod only names it"
                    )
                name = str(value_in(content, "/metadata/name"))
                uid = str(value_in(content, "/metadata/uid"))
                return Root(version, WORKLOAD.kind, namespace, name, uid), content
        return None

    async def _kueue_version(self) -> str | None:
        try:
            group = await self._read(f"/apis/{WORKLOAD.group}")
        except ApiError as error:
            if error.status in {403, 404}:
                return None
            raise
        version = value_in(group, "/preferredVersion/groupVersion")
        return version if isinstance(version, str) and API_VERSION.fullmatch(version) else None

    async def _read(self, path: str) -> Mapping[str, Any]:
        return (await self._client.request("GET", path)).decode(dict[str, Any])


def _found(owner: Root, content: Mapping[str, Any], way: Way, now: datetime) -> Found:
    version = value_in(content, "/metadata/resourceVersion")
    already = way.stopped(value_in(content, way.field))
    return Found(stop_of(owner, way, content, now), str(version or ""), already)


def _objects(value: object) -> Iterable[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _quoted(stop: Stop, namespace: str) -> str:
    return msgspec.structs.replace(stop, name=quote(stop.name, safe="")).path(namespace)


def _result(error: ApiError) -> Result:
    message = error.message or error.reason or f"status {error.status}"
    uid = any((cause.field or "") == "metadata.uid" for cause in error.causes)
    if error.status == 404 or uid:
        outcome = Outcome.GONE
    elif error.status == 429:
        outcome = Outcome.BUSY
    elif error.status == 409 or error.status >= 500:
        # Somebody else wrote at the same time: the next cycle looks again.
        outcome = Outcome.UNKNOWN
    else:
        outcome = Outcome.ENDING if error.has_cause("NamespaceTerminating") else Outcome.REFUSED
    return Result(outcome, message, error.retry_after)
