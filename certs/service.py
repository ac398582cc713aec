"""Puts the certificates' component together from an API client and settings, and runs it; decides nothing.

Must not know the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from certs import metrics
from certs.canary import Canary
from certs.configurations import Configurations, Trust
from certs.keeper import Keeper, Rules, Situation
from certs.probe import Probe, Target, dial, target_of
from certs.settings import CertsSettings
from certs.store import SecretStore
from runtime.clock import Clock
from runtime.kube import ApiError, ApiUnreachable, KubePort
from runtime.lease import Elector
from runtime.lifecycle import run_together
from runtime.ops import OpsServer
from runtime.scrapers import guard_of

LEASE = "gpu-tenure-certs"
STALLED_SECONDS = 300.0
HELD_SECONDS = 1.0
log = structlog.get_logger(__name__)


def make_keeper(
    client: KubePort, settings: CertsSettings, clock: Clock, may_write: Callable[[], bool] = lambda: True
) -> Keeper:
    """Makes the one that does the rounds."""
    target = target_of(settings.probe, settings.plan.names)

    async def serves(authorities: bytes) -> bool:
        return target is not None and (await dial(target, authorities)).error is None

    store = SecretStore(client, settings.namespace, settings.authority_secret, settings.serving_secret)
    configurations = Configurations(client, settings.configurations)
    rules = Rules(settings.plan, settings.settle)
    probed = serves if target is not None else None
    return Keeper(store, configurations, rules, clock, may_write=may_write, serves=probed)


class Service:
    """One replica: it campaigns, and keeps the certificates while it leads."""

    def __init__(self, client: KubePort, settings: CertsSettings, clock: Clock, identity: str) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._target = target_of(settings.probe, settings.plan.names)
        self._keeper: Keeper | None = None
        self._problem: str | None = None
        self.elector = Elector(client, settings.namespace, LEASE, identity, clock=clock)

    async def run(self) -> None:
        """Campaigns and leads for ever."""
        await self.elector.run(self._lead)

    async def _lead(self) -> None:
        keeper = make_keeper(self._client, self._settings, self._clock, self.elector.is_leader)
        self._keeper = keeper
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._rounds(keeper))
                if self._settings.canary_namespace:
                    tasks.create_task(self._canary().run())
        finally:
            self._keeper = None

    async def _rounds(self, keeper: Keeper) -> None:
        while True:
            held = await self._round(keeper)
            await asyncio.sleep(HELD_SECONDS if held else self._settings.interval)

    def _canary(self) -> Canary:
        settings = self._settings
        namespace, resource = settings.canary_namespace, settings.canary_resource
        return Canary(self._client, namespace, resource, self._clock, asyncio.sleep)

    async def _round(self, keeper: Keeper) -> bool:
        """Does one round; what the API server refuses is said and tried again. Returns whether it held."""
        try:
            situation = await keeper.round()
        except (ApiError, ApiUnreachable) as error:
            metrics.FAILURES.inc()
            self._problem = f"the last round failed: {error}"
            log.warning("round failed", error=str(error))
            return False
        self._problem = None
        if self._target is not None:
            await _probe(self._target, situation)
        return situation.held

    def not_ready(self) -> str | None:
        """A readiness check: a leader's last round did all it could; a follower is always ready to lead."""
        return self._problem if self._keeper is not None else None

    def stalled(self) -> str | None:
        """A sentence if a leader's rounds have stopped; a check for the ops server."""
        if self._keeper is None:
            return None
        since = self._clock.monotonic() - self._keeper.last_ended
        return f"no round has ended for {since:.0f} s" if since > STALLED_SECONDS else None


async def _probe(target: Target, situation: Situation) -> Probe:
    """Dials with what the configurations trust, or will trust once they are installed."""
    probe = await dial(target, _trusted(situation.trusts) or situation.bundle.authorities_pem)
    metrics.PROBE.set(probe.error is None)
    if probe.not_after is not None:
        metrics.SERVED_NOT_AFTER.set(probe.not_after.timestamp())
    if probe.error is not None:
        log.warning("webhook not reached", host=target.host, port=target.port, error=probe.error)
    return probe


def _trusted(trusts: tuple[Trust, ...]) -> bytes:
    """The caBundle of a webhook; after a round all of them are the same."""
    return trusts[0].pem if trusts else b""


async def run_service(
    client: KubePort, settings: CertsSettings, clock: Clock, identity: str, stop: asyncio.Event
) -> None:
    """Runs a replica with its ops server until told to stop."""
    service = Service(client, settings, clock, identity)
    ready, alive = {"certificates": service.not_ready}, {"rounds": service.stalled}
    guard = guard_of(client, clock, protect=settings.protect_metrics)
    async with OpsServer(settings.ops_host, settings.ops_port, ready=ready, alive=alive, guard=guard):
        log.info("certificates are watched", identity=identity)
        await run_together(stop, {}, {"lead": service.run()})
