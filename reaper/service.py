"""Puts a reaper together from an API client and settings, and runs it as a loop or once.

Must not know the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from datetime import datetime
from typing import Any

import msgspec
import structlog

from policy.objects import Namespace, Pod
from policy.profile import Profile
from policy.terms import Terms
from reaper.act import KubeActor
from reaper.cycle import Cycle, CycleResult
from reaper.evidence import Verdict
from reaper.judge import judge
from reaper.loop import Loop
from reaper.memory import Memory
from reaper.metrics import DATA_AGE
from reaper.observation import Observation, observe
from reaper.owners import OwnerResolver
from reaper.pause import Pause, read_pause
from reaper.pods import GpuPod, gpu_pod
from reaper.ports import Ports
from reaper.prometheus import HttpPrometheus
from reaper.records import RecordsPort, RecordStore, ShadowRecords
from reaper.report import EventsPort, NoEvents, Reporter
from reaper.settings import ReaperSettings
from runtime.catalog import NAMESPACES_PATH, POLICIES_PATH, Catalog
from runtime.clock import Clock
from runtime.events import EventRecorder
from runtime.kube import MERGE_PATCH, ApiError, KubePort
from runtime.lease import Elector
from runtime.lifecycle import run_together
from runtime.ops import OpsServer
from runtime.watch import WatchCache

log = structlog.get_logger(__name__)

PODS_PATH = "/api/v1/pods"
CONTROLLER = "gpu-tenure.io/reaper"
LEASE = "gpu-tenure-reaper"
STALE_SECONDS = 180.0
"""The API server sends a bookmark every minute: a watch that is silent for longer is not to be trusted."""


def decode_pod(raw: msgspec.Raw) -> GpuPod | None:
    """Reads a pod from the API server; None if it holds no GPU."""
    return gpu_pod(msgspec.json.decode(raw, type=Pod))


class World:
    """The ports of a reaper on a real cluster."""

    def __init__(self, client: KubePort, settings: ReaperSettings, clock: Clock) -> None:
        self.client = client
        self.catalog = Catalog(client, clock=clock)
        self.pods = WatchCache(client, PODS_PATH, decode_pod, clock=clock)
        self.prometheus = HttpPrometheus(settings.prometheus(), clock.monotonic)
        self._settings = settings
        self._judging = settings.judging()
        self._clock = clock

    def ports(self, elector: Elector | None) -> Ports:
        """Gives the ports; without an elector this process always leads."""
        records: RecordsPort = RecordStore(self.client)
        return Ports(
            clock=self._clock,
            pods=self.pods.values,
            policies=lambda: self.catalog.policies,
            namespace=self.catalog.namespace,
            namespaces=self.catalog.namespaces,
            unready=self.unready,
            fresh_pod=self.fresh_pod,
            fresh_namespace=self.fresh_namespace,
            owners=OwnerResolver(self.client),
            observe=self.observe,
            judge=self.judge,
            records=ShadowRecords(records) if self._settings.dry_run else records,
            pause=self.pause,
            actor=KubeActor(self.client),
            write_status=self.write_status,
            leading=elector.is_leader if elector is not None else lambda: True,
        )

    def unready(self) -> str | None:
        """Gives why the caches cannot be trusted now, or None."""
        missing = self.catalog.not_ready()
        if missing is not None:
            return missing
        if not self.pods.synced:
            problem = f": {self.pods.problem}" if self.pods.problem else ""
            return f"pods are not read yet{problem}"
        age = max(self.pods.age(), self.catalog.age())
        DATA_AGE.set(age)
        return f"the API server has been silent for {age:.0f} s" if age > STALE_SECONDS else None

    async def fresh_pod(self, namespace: str, name: str) -> GpuPod | None:
        """Reads a pod; None if it is gone or holds no GPU."""
        try:
            pod = await self.client.get(f"/api/v1/namespaces/{namespace}/pods/{name}", Pod)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return gpu_pod(pod)

    async def fresh_namespace(self, name: str) -> Namespace | None:
        """Reads a namespace; None if it is gone."""
        try:
            return await self.client.get(f"{NAMESPACES_PATH}/{name}", Namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def observe(self, terms: Collection[Terms], at: datetime) -> Observation:
        """Asks Prometheus for the windows and thresholds of these terms."""
        windows = {one.after.seconds for one in terms}
        thresholds = {one.utilization for one in terms}
        return await observe(self.prometheus, windows, at, self._judging, thresholds)

    def judge(self, pod: GpuPod, terms: Terms, observation: Observation, now: datetime) -> Verdict:
        """Judges a pod."""
        return judge(pod, terms, observation, now, self._judging)

    async def pause(self, now: datetime) -> Pause:
        """Reads the switch."""
        return await read_pause(self.client, now)

    async def write_status(self, policy: str, status: Mapping[str, Any]) -> None:
        """Writes the status of a policy."""
        path = f"{POLICIES_PATH}/{policy}/status"
        await self.client.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)

    async def watch(self) -> None:
        """Keeps the caches true, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.catalog.run(), name="watch policies and namespaces")
            group.create_task(self.pods.run(), name="watch pods")

    async def wait_synced(self, seconds: float) -> bool:
        """Waits for the first lists; returns whether they are there."""
        try:
            async with asyncio.timeout(seconds):
                await self.catalog.wait_synced()
                await self.pods.wait_synced()
        except TimeoutError:
            return False
        return True


def reporter_of(client: KubePort, settings: ReaperSettings, clock: Clock, identity: str) -> Reporter:
    """Gives who speaks: without Events in a dry run and where the profile only observes."""
    silent = settings.dry_run or settings.profile is Profile.OBSERVE
    events: EventsPort = (
        NoEvents() if silent else EventRecorder(client, clock=clock, controller=CONTROLLER, instance=identity)
    )
    return Reporter(events, dry_run=settings.dry_run)


async def run_once(client: KubePort, settings: ReaperSettings, clock: Clock, identity: str) -> int:
    """Runs one cycle; gives 0 if it was complete, 1 if it held or failed, or if another reaper leads."""
    world = World(client, settings, clock)
    reporter = reporter_of(client, settings, clock, identity)
    watching = asyncio.create_task(world.watch(), name="watch")
    results: list[CycleResult | None] = []
    elector = elector_of(client, settings, clock, identity)

    async def lead() -> None:
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
    world = World(client, settings, clock)
    elector = elector_of(client, settings, clock, identity)
    reporter = reporter_of(client, settings, clock, identity)
    health = Health(clock, settings.cycle * settings.stalled_cycles)

    async def lead() -> None:
        # What an earlier leadership of this process remembered may be out of date by now.
        cycle = Cycle(world.ports(elector), settings, Memory(), reporter, once=False)
        loop = Loop(cycle.run, clock=clock, seconds=settings.cycle, quiet_seconds=settings.quiet)
        health.leading(loop)
        try:
            await world.wait_synced(settings.sync_timeout)
            await loop.run()
        finally:
            health.following()

    ready = {"caches": world.unready}
    alive = {"cycles": health.stalled}
    async with OpsServer(settings.ops_host, settings.ops_port, ready=ready, alive=alive):
        chosen = {"profile": settings.profile.value, "dry_run": settings.dry_run}
        log.info("reaper started", **chosen, cycle_seconds=settings.cycle, identity=identity)
        leading = elector.run(lead) if elector is not None else lead()
        try:
            await run_together(stop, {}, {"watch": world.watch(), "lead": leading})
        finally:
            world.prometheus.close()


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

    def stalled(self) -> str | None:
        """Gives a sentence if the leader's cycles have stopped; a check for the ops server."""
        return self._loop.stalled(self._limit_seconds, self._since) if self._loop else None
