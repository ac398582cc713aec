"""Knows in which namespaces a scope of a ResourceQuota counts GPUs; decides nothing.

A deadline moves a pod from the scope NotTerminating to the scope Terminating: a quota of the one would not
count it any more, and one of the other might refuse it.
"""

from __future__ import annotations

import msgspec

from policy.objects import ObjectMeta, Quantities
from policy.resources import rule_of
from runtime.clock import Clock
from runtime.kube import KubePort
from runtime.watch import Change, WatchCache, WatchOptions

PATH = "/api/v1/resourcequotas"
SCOPES = frozenset({"Terminating", "NotTerminating"})
PREFIXES = ("requests.", "limits.")


class _Requirement(msgspec.Struct, frozen=True, rename="camel"):
    scope_name: str = ""


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: tuple[_Requirement, ...] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    hard: Quantities | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: _Selector | None = None


class ResourceQuota(msgspec.Struct, frozen=True):
    """The part of a ResourceQuota that says what it counts."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


def scoped_namespace(raw: msgspec.Raw | bytes) -> str | None:
    """Gives the namespace of a ResourceQuota that counts GPUs in one of the scopes; None of any other."""
    quota = msgspec.json.decode(raw, type=ResourceQuota)
    selector = quota.spec.scope_selector or _Selector()
    scopes = {*(quota.spec.scopes or ()), *(one.scope_name for one in selector.match_expressions or ())}
    if not scopes & SCOPES or not any(_is_gpu(name) for name in quota.spec.hard or ()):
        return None
    return quota.metadata.namespace


def _is_gpu(name: str) -> bool:
    """Whether a name under `hard` is that of a GPU resource."""
    return any(name.startswith(prefix) and rule_of(name.removeprefix(prefix)) for prefix in PREFIXES)


class ScopedQuotas:
    """The ResourceQuotas of the cluster, watched; only those that matter are kept."""

    def __init__(self, client: KubePort, *, clock: Clock, options: WatchOptions | None = None) -> None:
        self._cache = WatchCache(
            client, PATH, scoped_namespace, clock=clock, options=options or WatchOptions()
        )
        self._namespaces: frozenset[str] = frozenset()
        self._cache.subscribe(self._on_change)

    def holds_in(self, namespace: str) -> bool:
        """Whether a scope counts GPUs in a namespace."""
        return namespace in self._namespaces

    def not_ready(self) -> str | None:
        """A readiness check: None once all are read."""
        if self._cache.synced:
            return None
        problem = f": {self._cache.problem}" if self._cache.problem else ""
        return f"{self._cache.resource} are not read yet{problem}"

    async def run(self) -> None:
        """Watches for ever."""
        await self._cache.run()

    def _on_change(self, _: Change, __: str | None, ___: str | None) -> None:
        self._namespaces = frozenset(self._cache.values())
