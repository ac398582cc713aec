"""Finds the root owner of a pod by following controller references; must not know verdicts or limits.

The chain ends at the object without a controller, at one that may not be read, or at one that is gone: what
is known up to there is the root. A shorter chain only makes groups smaller in name, never joins pods of
different owners, and an unread ReplicaSet counts as a run, which protects more than a Deployment does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol
from urllib.parse import quote

from msgspec import Struct

from policy.objects import ObjectMeta, OwnerReference
from reaper.fates import Fate, RunningJob, fate_of
from reaper.pods import GpuPod
from runtime.kube import ApiError, ApiUnreachable, KubePort

API_VERSION: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+", re.ASCII)
LONGEST_CHAIN = 8
LONGEST_NAME = 253
LONGEST_VERSION = 317
AT_A_TIME = 8
MOST_VERSIONS = 100
"""API versions whose resources are remembered: users may name any number of them."""
FRESH = timedelta(minutes=30)
NEVER_ACTED_ON = frozenset({("apps", "DaemonSet"), ("", "Node")})
MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a static pod's mirror; a kubelet removes one that it has no file of."""


class Root(Struct, frozen=True):
    """The root owner of pods: the object that a person would call the workload.

    Attributes:
        api_version: Such as `apps/v1`.
        kind: Such as `Deployment`; `Pod` for a pod without a controller.
        namespace: Where it lives.
        name: Its name.
        uid: Its UID, the identity of the group.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def replaceable(self) -> bool:
        """True if one pod may go without the others: only under a Deployment."""
        return (self.group, self.kind) == ("apps", "Deployment")

    @property
    def untouchable(self) -> bool:
        """True for DaemonSets and static pods, which come back whatever is done."""
        return (self.group, self.kind) in NEVER_ACTED_ON

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class OwnersUnreadableError(Exception):
    """The API server gave no usable answer, so that nobody knows which pods belong together."""


class OwnersPort(Protocol):
    """Gives root owners; tests implement it."""

    async def roots(self, pods: Collection[GpuPod], now: datetime) -> Mapping[str, Root]:
        """Gives the root of each pod by pod UID; raises OwnersUnreadableError."""
        ...

    async def chain(self, pod: GpuPod, now: datetime) -> tuple[Root, ...]:
        """Gives the owners of a pod, its controller first and its root last; none for a pod without one.

        Raises OwnersUnreadableError.
        """
        ...

    async def fate(self, pod: GpuPod, pods: int) -> Fate | None:
        """Gives what the pod's Job comes to if so many of its pods are evicted; None if nobody knows."""
        ...


class _Object(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class _ApiResource(Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = True


class _ApiResources(Struct, frozen=True):
    resources: list[_ApiResource] | None = None


def root_of_pod(pod: GpuPod) -> Root:
    """Gives the pod itself as its own root."""
    return Root("v1", "Pod", pod.namespace, pod.name, pod.uid)


def _pretends_to_be_static(pod: GpuPod) -> bool:
    """True if a pod names a node as its controller without being the mirror of a static pod."""
    return pod.owner is not None and pod.owner.kind == "Node" and MIRROR not in pod.annotations


class OwnerResolver:
    """The OwnersPort that reads owners from the API server and remembers them for half an hour."""

    def __init__(self, client: KubePort) -> None:
        self._client = client
        # By all that a reference says: anybody may write a reference with the UID of somebody else's owner.
        self._above: dict[Root, tuple[datetime, OwnerReference | None]] = {}
        self._resources: dict[str, tuple[datetime, dict[str, _ApiResource]]] = {}

    async def roots(self, pods: Collection[GpuPod], now: datetime) -> Mapping[str, Root]:
        """Gives the root of each pod by pod UID; raises OwnersUnreadableError."""
        self._above = {owner: known for owner, known in self._above.items() if now - known[0] < FRESH}
        self._resources = {name: known for name, known in self._resources.items() if now - known[0] < FRESH}
        free = asyncio.Semaphore(AT_A_TIME)

        async def find(pod: GpuPod) -> Root:
            async with free:
                return await self._root(pod, now)

        # One pod of each owner fills what is remembered for the others.
        firsts = {pod.owner.uid: pod for pod in pods if pod.owner is not None}
        await asyncio.gather(*(find(pod) for pod in firsts.values()))
        return {pod.uid: await self._root(pod, now) for pod in pods}

    async def chain(self, pod: GpuPod, now: datetime) -> tuple[Root, ...]:
        """Gives the owners of a pod, its controller first and its root last; none for a pod without one."""
        found: list[Root] = []
        reference = None if _pretends_to_be_static(pod) else pod.owner
        while reference is not None and len(found) < LONGEST_CHAIN:
            owner = Root(reference.api_version, reference.kind, pod.namespace, reference.name, reference.uid)
            found.append(owner)
            reference = None if owner.untouchable else await self._controller_of(owner, now)
        return tuple(found)

    async def fate(self, pod: GpuPod, pods: int) -> Fate | None:
        """Gives what the pod's Job comes to if so many of its pods are evicted; None if nobody knows."""
        owner = pod.owner
        if owner is None or (owner.group, owner.kind) != ("batch", "Job"):
            return None
        name = quote(owner.name, safe="")
        try:
            job = await self._client.get(f"/apis/batch/v1/namespaces/{pod.namespace}/jobs/{name}", RunningJob)
        except (ApiError, ApiUnreachable):
            return None
        return fate_of(job, pods) if job.metadata.uid == owner.uid else None

    async def _root(self, pod: GpuPod, now: datetime) -> Root:
        chain = await self.chain(pod, now)
        return chain[-1] if chain else root_of_pod(pod)

    async def _controller_of(self, owner: Root, now: datetime) -> OwnerReference | None:
        known = self._above.get(owner)
        if known is None:
            known = (now, await self._read(owner, now))
            self._above[owner] = known
        return known[1]

    async def _read(self, owner: Root, now: datetime) -> OwnerReference | None:
        if API_VERSION.fullmatch(owner.api_version) is None or _names_nothing(owner):
            return None
        try:
            resource = (await self._resources_of(owner.api_version, now)).get(owner.kind)
            if resource is None or not resource.namespaced:
                return None
            name = quote(owner.name, safe="")
            path = f"{_base(owner.api_version)}/namespaces/{owner.namespace}/{resource.name}/{name}"
            found = await self._client.get(path, _Object)
        except ApiError as error:
            if error.status in {403, 404}:
                return None
            raise OwnersUnreadableError(f"{owner}: {error}") from error
        except ApiUnreachable as error:
            raise OwnersUnreadableError(f"{owner}: {error}") from error
        # A reference to another object of that name proves nothing about what is above it.
        return found.metadata.controller if found.metadata.uid == owner.uid else None

    async def _resources_of(self, api_version: str, now: datetime) -> dict[str, _ApiResource]:
        known = self._resources.get(api_version)
        if known is None or now - known[0] >= FRESH:
            known = (now, await self._discover(api_version))
            self._resources.pop(api_version, None)
            self._resources[api_version] = known
            if len(self._resources) > MOST_VERSIONS:
                # The one that was read first; whoever needs it reads it again.
                del self._resources[next(iter(self._resources))]
        return known[1]

    async def _discover(self, api_version: str) -> dict[str, _ApiResource]:
        try:
            listed = await self._client.get(_base(api_version), _ApiResources)
        except (ApiError, ApiUnreachable) as error:
            # Anybody can name a group behind an aggregated API that is down: nobody else waits for it.
            if "." in api_version and not (isinstance(error, ApiError) and error.status < 500):
                return {}
            raise
        return {one.kind: one for one in listed.resources or () if "/" not in one.name}


def _names_nothing(owner: Root) -> bool:
    """True if a reference is longer than any name: the API server may not even answer."""
    return len(owner.name) > LONGEST_NAME or len(owner.api_version) > LONGEST_VERSION


def _base(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
