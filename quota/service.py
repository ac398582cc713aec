"""Puts the quota component together from an API client and settings, and runs it; decides nothing itself.

Must not know the command line.
"""

from __future__ import annotations

import asyncio

import structlog

from quota import metrics
from quota.coverage import Coverage
from quota.expiry import Expiry
from quota.keeper import Keeper, Rules, WentBackError
from quota.report import Reporter
from quota.settings import QuotaSettings
from quota.view import View
from runtime.clock import Clock
from runtime.events import EventRecorder
from runtime.gpu_resources import table_of
from runtime.kube import KubePort
from runtime.lease import Elector
from runtime.lifecycle import run_together
from runtime.ops import OpsServer
from runtime.scrapers import guard_of

CONTROLLER = "gpu-tenure.io/quota"
LEASE = "gpu-tenure-quota"
STALLED_SECONDS = 120.0
log = structlog.get_logger(__name__)


class Service:
    """One replica: it campaigns, and keeps the ledgers while it leads."""

    def __init__(self, client: KubePort, settings: QuotaSettings, clock: Clock, identity: str) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._identity = identity
        self._keeper: Keeper | None = None
        self._view: View | None = None
        self.elector = Elector(client, settings.lease_namespace, LEASE, identity, clock=clock)

    async def run(self) -> None:
        """Campaigns and leads for ever."""
        await self.elector.run(self._lead)

    async def _lead(self) -> None:
        """Keeps the ledgers; starts again from consistent lists when the data went back in time."""
        while True:
            try:
                await self._keep()
            except* WentBackError:
                metrics.RESTORES.inc()
                log.warning("data went back in time, counting anew")

    async def _keep(self) -> None:
        """Keeps the ledgers with caches of its own, for ever."""
        table = table_of(self._settings.gpu_resources)
        view = View(self._client, table, self._settings.excluded_namespaces, self._clock)
        rules = Rules(
            table.weight_of,
            Coverage(self._settings.settle),
            Expiry(self._client, self._clock, self._settings.reservation),
        )
        events = EventRecorder(
            self._client, clock=self._clock, controller=CONTROLLER, instance=self._identity
        )
        reporter = Reporter(events, table.weight_of)
        keeper = Keeper(self._client, view, rules, reporter, self.elector.is_leader, self._clock)
        self._keeper, self._view = keeper, view
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(view.run(), name="watch")
                group.create_task(keeper.run(), name="keep")
        finally:
            self._keeper = self._view = None

    def not_ready(self) -> str | None:
        """A readiness check: a leader has read everything; a follower is always ready to lead."""
        return self._view.not_synced() if self._view is not None else None

    def stalled(self) -> str | None:
        """A sentence if a leader's rounds have stopped; a check for the ops server."""
        if self._keeper is None:
            return None
        since = self._clock.monotonic() - self._keeper.last_ended
        return f"no round has ended for {since:.0f} s" if since > STALLED_SECONDS else None


async def run_service(
    client: KubePort, settings: QuotaSettings, clock: Clock, identity: str, stop: asyncio.Event
) -> None:
    """Runs a replica with its ops server until told to stop."""
    service = Service(client, settings, clock, identity)
    ready, alive = {"caches": service.not_ready}, {"rounds": service.stalled}
    guard = guard_of(client, clock, protect=settings.protect_metrics)
    async with OpsServer(settings.ops_host, settings.ops_port, ready=ready, alive=alive, guard=guard):
        log.info("quota keeper started", identity=identity)
        await run_together(stop, {}, {"lead": service.run()})
