"""The GPUQuotas that the webhook knows, and which of them a namespace is under; decides nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import structlog

from policy.gpuquota import KIND, Per, subject_of
from policy.ledger import Weigh, amount_of, held
from policy.resourcequota import Room
from policy.selection import selectable_labels, selector_matches
from runtime.clock import Clock
from runtime.kube import ApiError, ApiUnreachable, KubePort
from runtime.quotas import QUOTAS_PATH, StoredQuota, read_stored
from runtime.watch import WatchCache, WatchOptions

CRD_RETRY_SECONDS = 10.0
log = structlog.get_logger(__name__)


class QuotaBook:
    """All GPUQuotas, watched; without their definition in the cluster there are none."""

    def __init__(self, client: KubePort, *, clock: Clock, options: WatchOptions | None = None) -> None:
        options = replace(
            options or WatchOptions(), longest_pause=CRD_RETRY_SECONDS, on_problem=self._on_problem
        )
        self._cache = WatchCache(client, QUOTAS_PATH, read_stored, clock=clock, options=options)
        self._missing = False

    async def run(self) -> None:
        """Watches for ever."""
        await self._cache.run()

    @property
    def synced(self) -> bool:
        """Whether it is known which quotas there are."""
        return self._cache.synced or self._missing

    def not_ready(self) -> str | None:
        """A readiness check."""
        problem = f": {self._cache.problem}" if self._cache.problem else ""
        return None if self.synced else f"gpuquotas are not read yet{problem}"

    def get(self, name: str) -> StoredQuota | None:
        """A quota as the watch brought it last."""
        return self._cache.get("", name)

    def covering(self, namespace: str, labels: Mapping[str, str] | None) -> list[StoredQuota]:
        """The quotas that a namespace is under, by name.

        That are those that select it, and those that have counted it: of two opinions that differ for a
        moment the stricter holds.
        """
        known = selectable_labels(namespace, labels)
        found = [
            stored
            for stored in self._cache.values()
            if namespace in stored.ledger.namespaces
            or selector_matches(stored.quota.namespace_selector, known)
        ]
        return sorted(found, key=lambda stored: stored.name)

    def rooms(self, namespace: str, labels: Mapping[str, str] | None, weigh: Weigh) -> tuple[Room, ...]:
        """What quotas leave for a namespace; those per requester leave something else for everybody."""
        return tuple(
            Room(KIND, stored.name, limit, math.floor(hard), math.ceil(amount_of(counts, limit, weigh)))
            for stored in self.covering(namespace, labels)
            if stored.quota.per is not Per.REQUESTER
            for counts in (held(stored.ledger, subject_of(stored.quota, namespace, None)),)
            for limit, hard in stored.quota.hard.items()
        )

    def _on_problem(self, problem: ApiError | ApiUnreachable | None) -> None:
        missing = isinstance(problem, ApiError) and problem.status == 404
        if missing and not self._missing:
            log.error(
                "GPUQuota is not installed",
                remedy="apply the CustomResourceDefinition gpuquotas.gpu-tenure.io, or turn quotas off",
            )
        if missing or problem is None:
            self._missing = missing
