"""The GPUPolicies and Namespaces of the cluster, watched. Knows nothing of what a policy does to a pod."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import structlog

from policy.keys import API_VERSION, GROUP
from policy.objects import Namespace
from policy.selection import PolicySet
from runtime import metrics
from runtime.clock import Clock
from runtime.kube import ApiError, KubePort
from runtime.watch import Change, WatchCache, WatchOptions

POLICIES_PATH = f"/apis/{API_VERSION}/gpupolicies"
CRD_NAME = f"gpupolicies.{GROUP}"
NAMESPACES_PATH = "/api/v1/namespaces"
CRD_RETRY_SECONDS = 10.0
log = structlog.get_logger(__name__)


class Catalog:
    """What webhook and reaper need to know of the cluster to find a namespace's policy.

    Without the CRD it counts as synced, with no policy, and asks again. `run` never ends by itself.
    """

    def __init__(self, client: KubePort, *, clock: Clock, options: WatchOptions | None = None) -> None:
        options = options or WatchOptions()
        self._policies = WatchCache(
            client,
            POLICIES_PATH,
            _read_policy,
            clock=clock,
            options=replace(options, longest_pause=CRD_RETRY_SECONDS, on_problem=self._on_policies_problem),
        )
        self._namespaces = WatchCache(client, NAMESPACES_PATH, _read_namespace, clock=clock, options=options)
        self._policies.subscribe(self._on_policy)
        self._namespaces.subscribe(self._on_namespace)
        self._set: PolicySet | None = PolicySet()
        self._crd_missing = False
        self._policies_known = asyncio.Event()
        self._waiting: dict[str, asyncio.Event] = {}
        self._told: dict[str, tuple[str, int]] = {}

    @property
    def policies(self) -> PolicySet:
        """All GPUPolicies, those that are invalid kept apart; the same object until one of them changes."""
        if self._set is None:
            self._set = _merge([read.policies for read in self._policies.values()])
        return self._set

    @property
    def crd_missing(self) -> bool:
        """Whether the API server does not know GPUPolicies; then nothing but the built-in policy applies."""
        return self._crd_missing

    @property
    def synced(self) -> bool:
        """Whether all Namespaces and GPUPolicies are read; without the CRD there are no policies to read."""
        return self._namespaces.synced and self._policies_known.is_set()

    async def wait_synced(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - a limit is the point
        """Waits until `synced`, at most `timeout` seconds; returns whether it is."""
        try:
            async with asyncio.timeout(timeout):
                await self._policies_known.wait()
                await self._namespaces.wait_synced()
        except TimeoutError:
            return False
        return True

    def not_ready(self) -> str | None:
        """Returns None once synced, else a sentence that says what is missing; a check for the ops server."""
        for cache, known in ((self._namespaces, self._namespaces.synced), (self._policies, self.synced)):
            if not known:
                problem = f": {cache.problem}" if cache.problem else ""
                return f"{cache.resource} are not read yet{problem}"
        return None

    def age(self) -> float:
        """Returns the seconds since the API server was last heard on the staler of the two watches."""
        return (
            self._namespaces.age() if self._crd_missing else max(self._policies.age(), self._namespaces.age())
        )

    def namespace(self, name: str) -> Namespace | None:
        """Returns the namespace, or None if it is not known."""
        return self._namespaces.get("", name)

    def namespaces(self) -> list[Namespace]:
        """Returns all namespaces that are known now."""
        return list(self._namespaces.values())

    async def wait_namespace(self, name: str, timeout: float) -> Namespace | None:  # noqa: ASYNC109 - as above
        """Returns the namespace, waiting at most `timeout` seconds for the watch to bring it, or None."""
        known = self.namespace(name)
        if known is not None:
            return known
        event = self._waiting.setdefault(name, asyncio.Event())
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except TimeoutError:
            if self._waiting.get(name) is event:
                del self._waiting[name]
        return self.namespace(name)

    async def run(self) -> None:
        """Watches both collections for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._policies.run(), name="watch gpupolicies")
            group.create_task(self._namespaces.run(), name="watch namespaces")

    def _on_policies_problem(self, problem: Exception | None) -> None:
        missing = isinstance(problem, ApiError) and problem.status == 404
        if missing and not self._crd_missing:
            remedy = f"apply the CustomResourceDefinition {CRD_NAME}"
            log.error("GPUPolicy is not installed", remedy=remedy)
        if missing or problem is None:
            self._crd_missing = missing
            self._policies_known.set()
            metrics.CRD_MISSING.set(missing)

    def _on_policy(self, _: Change, old: _ReadPolicy | None, new: _ReadPolicy | None) -> None:
        self._set = None
        if new is None:
            self._told.pop(old.name, None) if old else None
        elif new.policies.invalid and self._told.get(new.name) != new.version:
            self._told[new.name] = new.version
            errors = [str(error) for error in new.policies.invalid[new.name].errors]
            log.error("policy is invalid", policy=new.name, errors=errors)
        metrics.INVALID_POLICIES.set(sum(bool(read.policies.invalid) for read in self._policies.values()))

    def _on_namespace(self, _: Change, __: Namespace | None, new: Namespace | None) -> None:
        if new is not None and self._waiting:
            event = self._waiting.pop(new.metadata.name or "", None)
            if event is not None:
                event.set()


class _ReadPolicy(msgspec.Struct, frozen=True):
    name: str
    version: tuple[str, int]
    policies: PolicySet


def _read_policy(raw: msgspec.Raw) -> _ReadPolicy:
    obj: dict[str, Any] = msgspec.json.decode(raw)
    metadata = obj["metadata"]
    version = (str(metadata.get("uid", "")), int(metadata.get("generation", 0)))
    return _ReadPolicy(str(metadata.get("name", "")), version, PolicySet.of([obj]))


def _read_namespace(raw: msgspec.Raw) -> Namespace:
    return msgspec.json.decode(raw, type=Namespace)


def _merge(sets: list[PolicySet]) -> PolicySet:
    valid = sorted((policy for one in sets for policy in one.valid), key=lambda policy: policy.name)
    invalid = {name: broken for one in sets for name, broken in one.invalid.items()}
    return PolicySet(tuple(valid), dict(sorted(invalid.items())))
