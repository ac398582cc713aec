"""The GPUQuotas that the webhook knows, and which of them a namespace is under; decides nothing.

A watch brings them at once, but a dead one cannot be told from one that has nothing to say. So where it
counts (`heard`) they are also listed past every cache, and of the two what is newer holds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import structlog

from policy.gpuquota import KIND, Per, subject_of
from policy.ledger import Weigh, amount_of, held
from policy.objects import Namespace
from policy.resourcequota import Room
from policy.revisions import revision
from policy.selection import selectable_labels, selector_matches
from runtime.catalog import NAMESPACES_PATH
from runtime.clock import Clock, Sleep
from runtime.kube import ApiError, ApiUnreachable, KubePort
from runtime.listing import Listing
from runtime.quotas import QUOTAS_PATH, StoredQuota, read_stored
from runtime.watch import WatchCache, WatchOptions
from webhook.look import Look

CRD_RETRY_SECONDS = 10.0
SETTLE_SECONDS = 6.0
LOOK_PAUSE_SECONDS = 10.0
LOOK_AGAIN_SECONDS = 1.0
SILENT_SECONDS = 30.0
"""After this time without an answer a replica that enforces is not ready any more."""
MOST_NAMESPACES = 1000
Labels = Mapping[str, str]
log = structlog.get_logger(__name__)


class QuotaBook:
    """All GPUQuotas, watched and listed; without their definition in the cluster there are none.

    `settle_seconds` is how long the keeper waits before it lets anybody count on a quota that is new: what is
    known here may be half as old, and the other half is for the API server to store a pod that was let in.
    """

    def __init__(
        self,
        client: KubePort,
        *,
        clock: Clock,
        settle_seconds: float = SETTLE_SECONDS,
        options: WatchOptions | None = None,
    ) -> None:
        options = replace(
            options or WatchOptions(), longest_pause=CRD_RETRY_SECONDS, on_problem=self._on_problem
        )
        self._cache = WatchCache(client, QUOTAS_PATH, read_stored, clock=clock, options=options)
        self._missing = False
        self._went_back = False
        self._client = client
        self._clock = clock
        self._limit = settle_seconds / 2
        self._look = Look("gpuquotas", self._list, clock, self._limit)
        self._namespaces: dict[str, Look[Labels]] = {}
        self._begun = clock.monotonic()

    async def run(self, sleep: Sleep = asyncio.sleep) -> None:
        """Watches, and looks now and then, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cache.run(), name="watch gpuquotas")
            group.create_task(self._keep_looking(sleep), name="look at gpuquotas")

    @property
    def synced(self) -> bool:
        """Whether it is known which quotas there are."""
        return self._cache.synced or self._missing

    def not_ready(self) -> str | None:
        """A readiness check."""
        problem = f": {self._cache.problem}" if self._cache.problem else ""
        return None if self.synced else f"gpuquotas are not read yet{problem}"

    def too_silent(self) -> str | None:
        """A readiness check where quotas are enforced: others may still reach the API server."""
        age = min(self._look.age(), self._clock.monotonic() - self._begun)
        return self.not_ready() or (self._silence(age) if age > SILENT_SECONDS else None)

    def unheard(self) -> str | None:
        """Says that quotas could not be read lately; a quota that is new would not be known."""
        age = self._look.age()
        return self._silence(age) if self._look.problem is not None and age > self._limit else None

    async def heard(self, namespace: str) -> Labels | None:
        """Makes sure that quotas are known as they were a moment ago, and returns the labels of a namespace.

        None if that cannot be told in time.
        """
        quotas, labels = await asyncio.gather(self._look.value(), self._labels(namespace).value())
        return None if quotas is None else labels

    def get(self, name: str) -> StoredQuota | None:
        """A quota as watch or list brought it last."""
        watched, listing = self._cache.get("", name), self._look.known
        if listing is None:
            return watched
        listed = listing.objects.get(("", name))
        if self._went_back:
            return listed
        if watched is not None and listed is not None:
            return max(watched, listed, key=lambda one: revision(one.version))
        upto = revision(listing.resource_version)
        if watched is not None:
            return watched if revision(watched.version) > upto else None
        read = self._cache.resource_version
        return listed if read is None or upto > revision(read) else None

    def all(self) -> list[StoredQuota]:
        """All quotas, by name."""
        listed = self._look.known.objects if self._look.known is not None else {}
        names = {one.name for one in self._cache.values()} | {name for _, name in listed}
        return [one for one in map(self.get, sorted(names)) if one is not None]

    def covering(self, namespace: str, *labels: Labels | None) -> list[StoredQuota]:
        """The quotas that a namespace is under, by name; `labels` are its own, by one or more opinions.

        That are those that select it, and those that have counted it: of opinions that differ for a moment
        the strictest holds.
        """
        known = [selectable_labels(namespace, some) for some in labels]
        return [
            stored
            for stored in self.all()
            if namespace in stored.ledger.namespaces
            or any(selector_matches(stored.quota.namespace_selector, some) for some in known)
        ]

    def rooms(self, namespace: str, labels: Labels | None, weigh: Weigh) -> tuple[Room, ...]:
        """What quotas leave for a namespace; those per requester leave something else for everybody."""
        return tuple(
            Room(KIND, stored.name, limit, math.floor(hard), math.ceil(amount_of(counts, limit, weigh)))
            for stored in self.covering(namespace, labels)
            if stored.quota.per is not Per.REQUESTER
            for counts in (held(stored.ledger, subject_of(stored.quota, namespace, None)),)
            for limit, hard in stored.quota.hard.items()
        )

    async def _keep_looking(self, sleep: Sleep) -> None:
        """Looks also while nobody asks, so that readiness follows."""
        while True:
            heard = await self._look.value()
            await sleep(LOOK_AGAIN_SECONDS if heard is None else LOOK_PAUSE_SECONDS)

    async def _list(self) -> Listing[StoredQuota]:
        """All quotas, past every cache; notes whether the watch is of a world that is no more."""
        before = self._cache.resource_version
        try:
            listing = await self._cache.fresh_list()
        except ApiError as error:
            if error.status != 404:
                raise
            listing = Listing("", {})
        else:
            self._went_back = before is not None and revision(listing.resource_version) < revision(before)
        return listing

    def _labels(self, namespace: str) -> Look[Labels]:
        """Looks at the labels of one namespace; those that nobody asks for any more are forgotten."""
        look = self._namespaces.get(namespace)
        if look is None:
            if len(self._namespaces) >= MOST_NAMESPACES:
                young = {name: one for name, one in self._namespaces.items() if one.age() <= self._limit}
                self._namespaces = young
            read = partial(self._read_labels, namespace)
            look = self._namespaces[namespace] = Look(
                f"namespace {namespace}", read, self._clock, self._limit
            )
        return look

    async def _read_labels(self, namespace: str) -> Labels:
        found = await self._client.get(f"{NAMESPACES_PATH}/{namespace}", Namespace)
        return found.metadata.labels or {}

    def _silence(self, age: float) -> str:
        since = f"for {age:.0f} s" if age < math.inf else "yet"
        return f"GPUQuotas could not be read {since}"

    def _on_problem(self, problem: ApiError | ApiUnreachable | None) -> None:
        missing = isinstance(problem, ApiError) and problem.status == 404
        if missing and not self._missing:
            log.error(
                "GPUQuota is not installed",
                remedy="apply the CustomResourceDefinition gpuquotas.gpu-tenure.io, or turn quotas off",
            )
        if missing or problem is None:
            self._missing = missing
