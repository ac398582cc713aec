"""ResourceQuotas, PriorityClasses and claim templates, watched; knows no policy and decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec

from policy.claims import ClaimTemplate
from policy.resourcequota import NO_QUOTAS, NamespaceQuotas, ResourceQuota, namespace_quotas
from policy.resources import BUILT_IN_TABLE, ResourceTable
from policy.scheduling import PriorityClass, PriorityClasses
from runtime.claims import ClaimTemplates
from runtime.clock import Clock
from runtime.kube import KubePort
from runtime.watch import Change, WatchCache, WatchOptions

QUOTAS_PATH = "/api/v1/resourcequotas"
CLASSES_PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Surroundings:
    """What decisions depend on beside policies and namespaces. `run` never ends by itself."""

    def __init__(
        self,
        client: KubePort,
        *,
        clock: Clock,
        table: ResourceTable = BUILT_IN_TABLE,
        options: WatchOptions | None = None,
    ) -> None:
        self._table = table
        self._quotas = WatchCache(client, QUOTAS_PATH, _read_quota, clock=clock, options=options)
        self._classes = WatchCache(client, CLASSES_PATH, _read_class, clock=clock, options=options)
        self._templates = ClaimTemplates(client, clock=clock, options=options)
        self._quotas.subscribe(self._on_quota)
        self._classes.subscribe(self._on_class)
        self._by_namespace: dict[str, dict[str, ResourceQuota]] = {}
        self._summaries: dict[str, NamespaceQuotas] = {}
        self._known_classes: PriorityClasses | None = None

    def quotas(self, namespace: str) -> NamespaceQuotas:
        """What the ResourceQuotas of a namespace mean, as they were last seen."""
        found = self._by_namespace.get(namespace)
        if not found:
            return NO_QUOTAS
        summary = self._summaries.get(namespace)
        if summary is None:
            quotas = tuple(found[name] for name in sorted(found))
            summary = self._summaries[namespace] = namespace_quotas(quotas, self._table)
        return summary

    @property
    def priority_classes(self) -> PriorityClasses:
        """All PriorityClasses, as they were last seen."""
        if self._known_classes is None:
            self._known_classes = PriorityClasses.of(self._classes.values())
        return self._known_classes

    def claim_template(self, namespace: str, name: str) -> ClaimTemplate | None:
        """A ResourceClaimTemplate, None if it is not known; not every API server has them."""
        return self._templates.template(namespace, name)

    async def wait_claims(self, namespace: str, names: Collection[str], timeout: float) -> bool:  # noqa: ASYNC109 - a limit is the point
        """Waits for claim templates; returns whether all are known."""
        return await self._templates.wait(namespace, names, timeout)

    def not_ready(self) -> str | None:
        """Returns None once quotas and classes are read, else a sentence that says what is missing."""
        for cache in (self._quotas, self._classes):
            if not cache.synced:
                problem = f": {cache.problem}" if cache.problem else ""
                return f"{cache.resource} are not read yet{problem}"
        return None

    async def run(self) -> None:
        """Watches all collections for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._quotas.run(), name="watch resourcequotas")
            group.create_task(self._classes.run(), name="watch priorityclasses")
            group.create_task(self._templates.run(), name="watch resourceclaimtemplates")

    def _on_quota(self, _: Change, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        known = new or old
        if known is None:
            return
        namespace, name = known.metadata.namespace or "", known.metadata.name or ""
        quotas = self._by_namespace.setdefault(namespace, {})
        if new is None:
            quotas.pop(name, None)
        else:
            quotas[name] = new
        if not quotas:
            del self._by_namespace[namespace]
        self._summaries.pop(namespace, None)

    def _on_class(self, _: Change, __: PriorityClass | None, ___: PriorityClass | None) -> None:
        self._known_classes = None


def _read_quota(raw: msgspec.Raw) -> ResourceQuota:
    return msgspec.json.decode(raw, type=ResourceQuota)


def _read_class(raw: msgspec.Raw) -> PriorityClass:
    return msgspec.json.decode(raw, type=PriorityClass)
