"""Rounds over all quotas: counts, releases, writes by compare-and-swap; the pure part is in policy.

A round writes a ledger only from pods at or beyond what it counts already, so that even a leader which slept
for an hour and does not know that another leads takes nothing back that is true.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from policy.ledger import Ledger, Weigh
from policy.ledger_count import HeldPod, count_pods, differs, may_count
from policy.revisions import revision
from quota import metrics
from quota.coverage import Coverage
from quota.expiry import Expiry
from quota.report import Reporter
from quota.view import View
from runtime.clock import Clock, Sleep
from runtime.kube import ApiError, ApiUnreachable, KubePort
from runtime.listing import read_version
from runtime.quotas import QUOTAS_PATH, StoredQuota, fetch_quota, write_ledger

WRITE_SECONDS = 5.0
ATTEMPTS = 5
TICK_SECONDS = 1.0
SHORTEST_PAUSE_SECONDS = 0.05
ASK_SECONDS = 10.0
"""How often it is asked whether the API server's data went back: watches from before would never say so."""
log = structlog.get_logger(__name__)


class WentBackError(Exception):
    """The API server's data are older than what this process has seen: they were restored from a backup."""


@dataclass(frozen=True)
class Rules:
    """How pods weigh, which namespaces count, and when reservations expire."""

    weigh: Weigh
    coverage: Coverage
    expiry: Expiry


class Keeper:
    """The work of one leadership."""

    def __init__(
        self,
        client: KubePort,
        view: View,
        rules: Rules,
        reporter: Reporter,
        leading: Callable[[], bool],
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.last_ended = clock.monotonic()
        self._client = client
        self._view = view
        self._rules = rules
        self._reporter = reporter
        self._leading = leading
        self._clock = clock
        self._sleep = sleep
        self._own: dict[str, StoredQuota] = {}
        self._asked = clock.monotonic()

    async def run(self) -> None:
        """Counts whenever something changed, and at least once a second. Raises WentBackError."""
        while True:
            self._view.changed.clear()
            begun = self._clock.monotonic()
            await self.round()
            self.last_ended = self._clock.monotonic()
            metrics.ROUND_SECONDS.set(self.last_ended - begun)
            # Half of the time is for others, however many pods there are.
            await self._sleep(max(SHORTEST_PAUSE_SECONDS, self.last_ended - begun))
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._view.changed.wait()
            except TimeoutError:
                continue

    async def round(self) -> None:
        """Goes over all quotas once. Raises WentBackError."""
        if self._view.not_synced() is not None:
            return
        if self._clock.monotonic() - self._asked >= ASK_SECONDS:
            await self._ask()
        quotas = list(self._view.quotas.values())
        metrics.INVALID.set(sum(stored.problem is not None for stored in quotas))
        self._forget_others(quotas)
        for stored in quotas:
            if stored.problem is not None:
                self._reporter.unreadable(stored)
                continue
            try:
                await self._keep(self._newest(stored))
            except (ApiError, ApiUnreachable) as error:
                metrics.WRITES.labels("failed").inc()
                log.warning("ledger not kept", quota=stored.name, error=str(error))

    async def _ask(self) -> None:
        """Compares watches and API server, also while nothing is to be written. Raises WentBackError."""
        self._asked = self._clock.monotonic()
        read = [revision(cache.resource_version or "") for cache in (self._view.pods, self._view.quotas)]
        try:
            newest = revision(await read_version(self._client, QUOTAS_PATH, WRITE_SECONDS))
        except (ApiError, ApiUnreachable) as error:
            log.warning("not asked how far the API server is", error=str(error))
            return
        if newest < max(read):
            raise WentBackError

    def _forget_others(self, quotas: list[StoredQuota]) -> None:
        names = {stored.name for stored in quotas}
        self._reporter.forget_others(names)
        self._rules.expiry.forget_others(names)
        self._rules.coverage.forget_others({stored.quota.uid for stored in quotas})
        self._own = {name: own for name, own in self._own.items() if name in names}

    def _newest(self, stored: StoredQuota) -> StoredQuota:
        own = self._own.get(stored.name)
        if own is None or own.quota.uid != stored.quota.uid:
            return stored
        return own if revision(own.version) > revision(stored.version) else stored

    async def _keep(self, stored: StoredQuota) -> None:
        """Brings one ledger up to date; after a conflict it is read again and counted anew."""
        due = self._rules.expiry.due(stored.name, stored.ledger.reservations)
        expired = await self._rules.expiry.never_came(stored.name, due) if due else set[str]()
        for _ in range(ATTEMPTS):
            listed = await self._listed(stored)
            # From here to the write nothing waits but the write itself: pods and version belong together.
            pods, version = self._view.held_pods(), self._view.pods.resource_version
            if version is None:
                return
            after = self._counted(stored, pods, version, listed, expired)
            if not differs(stored.ledger, after):
                await self._reporter.counted(stored.quota, stored.ledger, pods)
                return
            if not await self._may_write(stored.ledger, version):
                return
            written = await self._write(stored, after)
            if written is not None:
                self._check_order(written, version)
                self._own[stored.name] = written
                self._reporter.released(expired & stored.ledger.reservations.keys())
                await self._reporter.counted(written.quota, written.ledger, pods)
                return
            again = await fetch_quota(self._client, stored.name, WRITE_SECONDS)
            if again is None or again.problem is not None:
                return
            stored = again

    async def _listed(self, stored: StoredQuota) -> tuple[str, ...]:
        """The namespaces to count; a new one only once all pods are seen that were let in before."""
        view, counted = self._view, stored.ledger.namespaces
        now = self._clock.monotonic()
        listed = self._rules.coverage.namespaces(
            stored.quota, stored.ledger, view.countable(), view.births, now
        )
        if set(listed) <= set(counted) or await self._sees_all():
            return listed
        return tuple(name for name in listed if name in counted)

    async def _sees_all(self) -> bool:
        """Whether the watch has brought every pod: a dead one cannot be told from a quiet one."""
        listing = await self._view.pods.fresh_list()
        known = {*(pod.uid for pod in self._view.pods.values()), *self._view.gone()}
        return all(pod.uid in known for pod in listing.objects.values())

    def _counted(
        self,
        stored: StoredQuota,
        pods: list[HeldPod],
        version: str,
        listed: tuple[str, ...],
        expired: set[str],
    ) -> Ledger:
        gone = {*self._view.gone(), *expired} & stored.ledger.reservations.keys()
        return count_pods(stored.quota, stored.ledger, pods, listed, version, self._rules.weigh, gone)

    async def _may_write(self, ledger: Ledger, version: str) -> bool:
        """Whether the ledger may be counted from pods at `version`. Raises WentBackError."""
        if not self._leading():
            return False
        newest = revision(await read_version(self._client, QUOTAS_PATH, WRITE_SECONDS))
        if newest < revision(version):
            raise WentBackError
        # A ledger that counts what has not happened yet is of a world that is no more.
        return may_count(ledger, version) or revision(ledger.pods_resource_version) > newest

    async def _write(self, stored: StoredQuota, after: Ledger) -> StoredQuota | None:
        """Writes; None if somebody else was faster."""
        if not self._leading():
            return None
        try:
            written = await write_ledger(self._client, stored, after, WRITE_SECONDS)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            metrics.WRITES.labels("conflict").inc()
            return None
        metrics.WRITES.labels("written").inc()
        return written

    @staticmethod
    def _check_order(written: StoredQuota, version: str) -> None:
        """A write comes after all that was read before it; if not, time has gone back in between."""
        if revision(written.version) <= revision(version):
            raise WentBackError
