"""Runs a reaper as a loop or once, from an API client and settings; must not know the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from typing import Any

import structlog

from policy.errors import FieldError, InvalidError
from reaper.audit import AuditLog
from reaper.cycle import Cycle, CycleResult
from reaper.hints import Hint
from reaper.loop import Loop
from reaper.memory import Memory
from reaper.receiver import NotNow, Receiver
from reaper.report import NoEvents, Reporter
from reaper.rights import Rights, needed
from reaper.settings import ReaperSettings
from reaper.world import CONTROLLER, World, silent
from runtime.clock import Clock
from runtime.events import EventRecorder, EventsPort
from runtime.kube import KubePort
from runtime.lease import Elector
from runtime.lifecycle import run_together
from runtime.ops import OpsServer
from runtime.scrapers import guard_of

log = structlog.get_logger(__name__)

LEASE = "gpu-tenure-reaper"
LAST_POST_SECONDS = 1.0


def reporter_of(
    client: KubePort, settings: ReaperSettings, clock: Clock, identity: str, audit: AuditLog | None = None
) -> Reporter:
    """Gives who speaks: without Events in a dry run and where the profile only observes."""
    recorder = EventRecorder(client, clock=clock, controller=CONTROLLER, instance=identity)
    events: EventsPort = NoEvents() if silent(settings) else recorder
    return Reporter(events, dry_run=settings.dry_run, audit=audit)


def audit_of(settings: ReaperSettings, clock: Clock, identity: str) -> AuditLog | None:
    """Gives the audit log, if there is to be one.

    Raises:
        InvalidError: its file cannot be opened.
    """
    if not settings.audit_log:
        return None
    try:
        return AuditLog(settings.audit_log, clock.now, identity, dry_run=settings.dry_run)
    except OSError as error:
        why = f"cannot append to {settings.audit_log}: {error.strerror}"
        raise InvalidError([FieldError("--audit-log", why)]) from error


async def run_once(client: KubePort, settings: ReaperSettings, clock: Clock, identity: str) -> int:
    """Runs one cycle; gives 0 if it was complete, 1 if it held or failed, or if another reaper leads."""
    world = World(client, settings, clock, identity=identity, once=True)
    audit = audit_of(settings, clock, identity)
    reporter = reporter_of(client, settings, clock, identity, audit)
    watching = asyncio.create_task(world.watch(), name="watch")
    results: list[CycleResult | None] = []
    elector = elector_of(client, settings, clock, identity)

    async def lead() -> None:
        await Rights(client, needed(settings, LEASE)).ask()
        if await world.wait_synced(settings.sync_timeout):
            cycle = Cycle(world.ports(elector), settings, Memory(), reporter, once=True)
            loop = Loop(cycle.run, clock=clock, seconds=settings.cycle, quiet_seconds=0)
            results.append(await loop.once(None))
        else:
            log.error("lists not read in time", problem=world.unready())

    try:
        if elector is None:
            await lead()
        else:
            await _lead_soon(elector, lead, settings.sync_timeout)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        world.prometheus.close()
        if audit is not None:
            audit.close()
        await world.outbox.flush(settings.alertmanager_timeout)
    return 0 if results == [CycleResult.COMPLETE] else 1


async def _lead_soon(elector: Elector, work: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
    """Runs the work as the leader; gives up if another leads for too long."""
    leading = asyncio.Event()

    async def lead() -> None:
        leading.set()
        await work()

    task = asyncio.create_task(elector.run(lead), name="lead once")
    try:
        async with asyncio.timeout(seconds):
            await leading.wait()
    except TimeoutError:
        log.error("lease not gained in time", leader=elector.leader or "nobody")
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def elector_of(client: KubePort, settings: ReaperSettings, clock: Clock, identity: str) -> Elector | None:
    """Gives who says that this process may act; a dry run does nothing and takes the Lease from nobody."""
    if settings.dry_run:
        return None
    return Elector(client, settings.lease_namespace, LEASE, identity, clock=clock)


async def run_loop(
    client: KubePort, settings: ReaperSettings, clock: Clock, identity: str, stop: asyncio.Event
) -> None:
    """Runs cycles while leading, and serves health and metrics, until told to stop."""
    service = Service(client, settings, clock, identity, stop)
    rights = Rights(client, needed(settings, LEASE))
    ready = {"caches": service.world.unready, "rights": rights.lacking}
    alive = {"cycles": service.health.stalled}
    token = settings.receiver_token_file
    posts = {"/alerts": Receiver(token, service.look).handle} if token else {}
    guard = guard_of(client, clock, protect=settings.protect_metrics)
    host, port = settings.ops_host, settings.ops_port
    async with OpsServer(host, port, ready=ready, alive=alive, posts=posts, guard=guard):
        chosen = {"profile": settings.profile.value, "dry_run": settings.dry_run}
        log.info("reaper started", **chosen, cycle_seconds=settings.cycle, identity=identity)
        background = {
            "watch": service.world.watch(),
            "lead": service.campaign(),
            "rights": rights.watch(),
            "alerts": service.world.outbox.run(),
        }
        try:
            await run_together(stop, {"drain": service.drain()}, background)
        finally:
            service.close()


class Service:
    """A reaper that goes on until `stop`."""

    def __init__(
        self, client: KubePort, settings: ReaperSettings, clock: Clock, identity: str, stop: asyncio.Event
    ) -> None:
        self.world = World(client, settings, clock, identity=identity)
        self.health = Health(clock, settings.cycle * settings.stalled_cycles)
        self._settings = settings
        self._clock = clock
        self._stop = stop
        self._elector = elector_of(client, settings, clock, identity)
        self._audit = audit_of(settings, clock, identity)
        self._reporter = reporter_of(client, settings, clock, identity, self._audit)
        self._acting = asyncio.Lock()

    def close(self) -> None:
        """Closes connections and files."""
        self.world.prometheus.close()
        if self._audit is not None:
            self._audit.close()

    async def campaign(self) -> None:
        """Runs cycles whenever this process leads; a dry run needs nobody's leave."""
        await (self._elector.run(self._lead) if self._elector is not None else self._lead())

    async def drain(self) -> None:
        """Waits for the stop, and then for what is being done: what has begun is recorded to its end.

        A cycle that still looks is given up: the next leader looks for itself, and is not kept waiting.
        """
        await self._stop.wait()
        # Never released: nothing is begun any more.
        await self._acting.acquire()
        # The next leader posts whatever holds; it is not kept waiting for the Lease.
        await self.world.outbox.flush(LAST_POST_SECONDS)

    def look(self, hints: Collection[Hint]) -> Collection[Hint]:
        """Brings the next cycle forward if a hint names a GPU pod; gives those that name none.

        Raises:
            NotNow: this process does not lead, or does not know the pods yet.
        """
        problem = self.world.unready()
        if problem is not None or not self.health.leads:
            raise NotNow(problem or "another replica leads")
        unknown = [hint for hint in hints if self.world.pods.get(hint.namespace, hint.pod) is None]
        if len(unknown) < len(hints):
            self.health.wake()
        return unknown

    async def _lead(self) -> None:
        # What an earlier leadership of this process remembered may be out of date by now.
        ports = replace(self.world.ports(self._elector), stop=self._stop)
        cycle = Cycle(ports, self._settings, Memory(), self._reporter, once=False, acting=self._acting)
        seconds, quiet = self._settings.cycle, self._settings.quiet
        loop = Loop(cycle.run, clock=self._clock, seconds=seconds, quiet_seconds=quiet)
        self.health.leading(loop)
        try:
            await self.world.wait_synced(self._settings.sync_timeout)
            await loop.run()
        finally:
            self.health.following()


class Health:
    """Whether a leader's cycles go on; a follower has none."""

    def __init__(self, clock: Clock, limit_seconds: float) -> None:
        self._clock = clock
        self._limit_seconds = limit_seconds
        self._loop: Loop | None = None
        self._since = clock.monotonic()

    def leading(self, loop: Loop) -> None:
        """Notes that cycles begin."""
        self._loop, self._since = loop, self._clock.monotonic()

    def following(self) -> None:
        """Notes that another process leads."""
        self._loop = None

    @property
    def leads(self) -> bool:
        """True while this process runs cycles."""
        return self._loop is not None

    def wake(self) -> None:
        """Brings the leader's next cycle forward."""
        if self._loop is not None:
            self._loop.wake()

    def stalled(self) -> str | None:
        """Gives a sentence if the leader's cycles have stopped; a check for the ops server."""
        return self._loop.stalled(self._limit_seconds, self._since) if self._loop else None
