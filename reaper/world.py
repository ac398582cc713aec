"""The ports of a reaper on a real cluster; must not know what a cycle does with them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec
import structlog

from policy.objects import Namespace, Pod
from policy.profile import Profile
from policy.resources import BUILT_IN_TABLE, ResourceTable
from policy.terms import Terms
from policy.verdicts import Reason
from reaper.act import KubeActor
from reaper.alertboard import AlertBoard
from reaper.alertmanager import Courier, Outbox
from reaper.clocks import believed, disagreement
from reaper.endings import Endings
from reaper.evidence import Verdict
from reaper.jobs import MARKED_JOBS, gpu_job
from reaper.judge import judge
from reaper.late_deadline_api import KubeLateDeadlines
from reaper.metrics import DATA_AGE
from reaper.observation import Observation, observe_terms
from reaper.owners import OwnerResolver
from reaper.pause import Pause, read_pause
from reaper.pods import GpuPod, gpu_pod
from reaper.ports import Ports
from reaper.prometheus import HttpPrometheus
from reaper.records import Record, RecordsPort, RecordStore, expired
from reaper.settings import ReaperSettings
from reaper.shadow_records import ShadowRecords
from reaper.stop_api import KubeStops
from runtime.catalog import NAMESPACES_PATH, POLICIES_PATH, Catalog
from runtime.clock import Clock
from runtime.events import EventRecorder, NoOnce, OncePort
from runtime.kube import MERGE_PATCH, ApiError, KubePort
from runtime.lease import Elector
from runtime.sieve import gpu_pod_sieve
from runtime.watch import Change, WatchCache

log = structlog.get_logger(__name__)

CONTROLLER = "gpu-tenure.io/reaper"
PODS_PATH = "/api/v1/pods"
JOBS_PATH = "/apis/batch/v1/jobs"
JOBS_SECONDS = 5.0
STALE_SECONDS = 180.0
"""The API server sends a bookmark every minute: a watch that is silent for longer is not to be trusted."""


def silent(settings: ReaperSettings) -> bool:
    """Says whether users hear nothing: in a dry run, and where the profile only observes."""
    return settings.dry_run or settings.profile is Profile.OBSERVE


def decode_pod(raw: msgspec.Raw, table: ResourceTable = BUILT_IN_TABLE) -> GpuPod | None:
    """Reads a pod from the API server; None if it holds no GPU."""
    return gpu_pod(msgspec.json.decode(raw, type=Pod), table)


class World:
    """The ports of a reaper on a real cluster."""

    def __init__(
        self,
        client: KubePort,
        settings: ReaperSettings,
        clock: Clock,
        *,
        identity: str = "reaper",
        once: bool = False,
    ) -> None:
        """`identity` is whom Events name as their sender."""
        self.client = client
        self.catalog = Catalog(client, clock=clock)
        self._table = settings.table()
        sieve = gpu_pod_sieve(self._table)
        self.pods = WatchCache(client, PODS_PATH, self._decode, clock=clock, sieve=sieve)
        self.jobs = WatchCache(client, JOBS_PATH, gpu_job, clock=clock, sieve=MARKED_JOBS)
        self.endings = Endings()
        self.pods.subscribe(self._note_ending)
        self.prometheus = HttpPrometheus(settings.prometheus(), clock.monotonic)
        couriers = [] if silent(settings) else [Courier(one) for one in settings.alertmanagers()]
        recorder = EventRecorder(client, clock=clock, controller=CONTROLLER, instance=identity)
        self.once: OncePort = NoOnce() if silent(settings) else recorder
        self.outbox = Outbox(couriers)
        self.alerts = AlertBoard(couriers, settings.hold_seconds(settings.cycle, once=once))
        self._settings = settings
        self._judging = settings.judging()
        self._clock = clock
        self._remarks: tuple[str, ...] = ()

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
            records=ShadowRecords(records, self._expired) if self._settings.dry_run else records,
            pause=self.pause,
            actor=KubeActor(self.client),
            late_deadlines=KubeLateDeadlines(self.client, self._table),
            stops=KubeStops(self.client, self._settings.ways(), self._table),
            write_status=self.write_status,
            leading=elector.is_leader if elector is not None else lambda: True,
            alerts=self.alerts,
            jobs=self.jobs.values,
            once=self.once,
            endings=self.endings,
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
        return gpu_pod(pod, self._table)

    async def fresh_namespace(self, name: str) -> Namespace | None:
        """Reads a namespace; None if it is gone."""
        try:
            return await self.client.get(f"{NAMESPACES_PATH}/{name}", Namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def _expired(self, records: Collection[Record]) -> Collection[Record]:
        return expired(records, self.pods.values(), self._clock.now(), self._settings.records_kept)

    def _note_ending(self, _: Change, before: GpuPod | None, after: GpuPod | None) -> None:
        last = after or before
        if last is not None:
            self.endings.note(last)

    def _decode(self, raw: msgspec.Raw) -> GpuPod | None:
        return decode_pod(raw, self._table)

    async def observe(self, terms: Collection[Terms], at: datetime) -> Observation:
        """Asks Prometheus for the windows and thresholds of these terms."""
        found = await observe_terms(self.prometheus, terms, at, self._judging)
        if found.complete and found.remarks != self._remarks:
            self._remarks = found.remarks
            log.info("metrics observed", remarks=list(found.remarks))
        theirs, tolerance = self.prometheus.answered_at, self._settings.clock_tolerance
        wrong = disagreement("Prometheus", theirs, self._clock.now(), tolerance)
        return Observation(at, False, Reason.CLOCKS_DIFFER, (wrong,)) if wrong and found.complete else found

    def judge(self, pod: GpuPod, terms: Terms, observation: Observation, now: datetime) -> Verdict:
        """Judges a pod."""
        found = judge(pod, terms, observation, now, self._judging)
        return believed(found, pod, self._settings.early_start)

    async def pause(self, now: datetime) -> Pause:
        """Reads the switch."""
        own = self._settings.lease_namespace
        return await read_pause(self.client, now, self._settings.clock_tolerance, own)

    async def write_status(self, policy: str, status: Mapping[str, Any]) -> None:
        """Writes the status of a policy."""
        path = f"{POLICIES_PATH}/{policy}/status"
        await self.client.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)

    async def watch(self) -> None:
        """Keeps the caches true, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.catalog.run(), name="watch policies and namespaces")
            group.create_task(self.pods.run(), name="watch pods")
            group.create_task(self.jobs.run(), name="watch Jobs")

    async def wait_synced(self, seconds: float) -> bool:
        """Waits for the first lists; returns whether they are there."""
        try:
            async with asyncio.timeout(seconds):
                await self.catalog.wait_synced()
                await self.pods.wait_synced()
                # Without them only users of Jobs miss something.
                await self.jobs.wait_synced(JOBS_SECONDS)
        except TimeoutError:
            return False
        return True
