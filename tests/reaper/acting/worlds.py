"""A fake world for the tests of whole cycles: pods in memory, time moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from policy.objects import Namespace, ObjectMeta
from policy.selection import PolicySet
from policy.terms import Terms
from policy.verdicts import Reason, VerdictKind
from reaper.alertboard import AlertsPort, NoAlerts
from reaper.cycle import Cycle, CycleResult
from reaper.evidence import Verdict
from reaper.jobs import GpuJob
from reaper.memory import Memory
from reaper.observation import Observation
from reaper.pause import Pause
from reaper.pods import GpuPod
from reaper.ports import Ports
from reaper.report import Reporter
from reaper.settings import ReaperSettings
from reaper.signals import Signals
from tests.reaper.acting.keepers import FakeEvents, FakeOnce, FakeRecords
from tests.reaper.acting.made import AFTER, MINUTE, NOON, POLICY, pod_of, verdict_of
from tests.reaper.acting.surroundings import FakeActor, FakeLateDeadlines, FakeOwners, FakeStops


class FakeClock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        """Gives the time."""
        return self.time

    def monotonic(self) -> float:
        """Gives the time as seconds."""
        return self.time.timestamp()


class FakeWorld:
    """A cluster in memory with a reaper's cycles on it."""

    def __init__(
        self, *, once: bool = False, dry_run: bool = False, alerts: AlertsPort | None = None, **settings: Any
    ) -> None:
        self.clock = FakeClock()
        self.alerts = alerts or NoAlerts()
        self.jobs: list[GpuJob] = []
        self.once_events = FakeOnce()
        self.pods: dict[str, GpuPod] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.namespaces: dict[str, dict[str, str]] = {"team-a": {}, "team-b": {}}
        self.policies = PolicySet.of([POLICY])
        self.paused = Pause(paused=False)
        self.unready: str | None = None
        self.leads = True
        self.stop = asyncio.Event()
        self.incomplete: Reason | None = None
        self.statuses: list[tuple[str, dict[str, Any]]] = []
        self.observed = 0
        self.observed_before = 0
        self.windows: Mapping[int, Signals] = {}
        self.owners = FakeOwners()
        self.records = FakeRecords()
        self.actor = FakeActor(self)
        self.stops = FakeStops(self)
        self.late_deadlines = FakeLateDeadlines(self)
        self.events = FakeEvents()
        self.memory = Memory()
        self.before_look: Callable[[], None] = lambda: None
        self.once = once
        usual = {"profile": "enforce", "device_percent": 100}
        no_brake = {"brake_idle_percent": 101, "brake_unknown_percent": 101}
        chosen = {**usual, **no_brake, "dry_run": dry_run, **settings}
        self.settings = ReaperSettings(prometheus_url="http://prometheus:9090", **chosen)
        self.restart()

    def restart(self) -> None:
        """Begins a new process: whatever it remembered is lost."""
        self.memory = Memory()
        reporter = Reporter(self.events, dry_run=self.settings.dry_run)
        self.cycle = Cycle(self._ports(), self.settings, self.memory, reporter, once=self.once)

    async def run(self, count: int = 1, after: timedelta = MINUTE) -> CycleResult:
        """Runs cycles, one per minute unless told otherwise; gives how the last ended."""
        result = CycleResult.HELD
        for _ in range(count):
            self.clock.time += after
            if self.once:
                self.restart()
            self.observed_before = self.observed
            result = await self.cycle.run(None)
        return result

    def add(self, name: str, kind: VerdictKind = VerdictKind.IDLE, **more: Any) -> GpuPod:
        """Adds a pod with a verdict."""
        pod = pod_of(name, **more)
        self.pods[pod.uid] = pod
        self.verdicts[pod.uid] = verdict_of(kind)
        return pod

    def turns(self, name: str, kind: VerdictKind) -> None:
        """Changes the verdict of a pod; an idle stretch begins two hours ago."""
        since = self.clock.time - timedelta(seconds=AFTER)
        self.verdicts[self.pod(name).uid] = verdict_of(kind, idle_since=since)

    def pod(self, name: str) -> GpuPod:
        """Gives a pod by name."""
        return next(pod for pod in self.pods.values() if pod.name == name)

    def change(self, uid: str, **fields: Any) -> None:
        """Changes a pod, as its object and as what was read of it."""
        pod = self.pods[uid]
        labels = fields.get("labels", pod.labels)
        annotations = fields.get("annotations", pod.annotations)
        metadata = structs.replace(pod.pod.metadata, labels=labels, annotations=annotations)
        inner = structs.replace(pod.pod, metadata=metadata)
        self.pods[uid] = structs.replace(pod, pod=inner, **fields)

    def annotations(self, name: str) -> dict[str, str]:
        """Gives the reaper's annotations of a pod, by short names."""
        found = self.pod(name).annotations
        return {key.removeprefix("gpu-tenure.io/"): value for key, value in found.items()}

    def _ports(self) -> Ports:
        return Ports(
            clock=self.clock,
            pods=lambda: list(self.pods.values()),
            policies=lambda: self.policies,
            namespace=self._namespace,
            namespaces=lambda: [found for name in self.namespaces if (found := self._namespace(name))],
            unready=lambda: self.unready,
            fresh_pod=self._fresh_pod,
            fresh_namespace=self._fresh_namespace,
            owners=self.owners,
            observe=self._observe,
            judge=self._judge,
            records=self.records,
            pause=self._pause,
            actor=self.actor,
            stops=self.stops,
            late_deadlines=self.late_deadlines,
            write_status=self._write_status,
            leading=lambda: self.leads,
            alerts=self.alerts,
            jobs=lambda: tuple(self.jobs),
            once=self.once_events,
            stop=self.stop,
        )

    async def _write_status(self, policy: str, status: Mapping[str, Any]) -> None:
        self.statuses.append((policy, dict(status)))

    def _namespace(self, name: str) -> Namespace | None:
        labels = self.namespaces.get(name)
        return None if labels is None else Namespace(ObjectMeta(name=name, labels=labels))

    async def _fresh_namespace(self, name: str) -> Namespace | None:
        return self._namespace(name)

    async def _fresh_pod(self, namespace: str, name: str) -> GpuPod | None:
        found = (pod for pod in self.pods.values() if (pod.namespace, pod.name) == (namespace, name))
        return next(found, None)

    async def _observe(self, terms: Collection[Terms], at: datetime) -> Observation:
        assert terms
        self.observed += 1
        if self.observed == self.observed_before + 2:
            self.before_look()
        problems = ("no answer",) if self.incomplete else ()
        return Observation(at, self.incomplete is None, self.incomplete, problems, windows=self.windows)

    def _judge(self, pod: GpuPod, terms: Terms, observation: Observation, now: datetime) -> Verdict:
        assert terms.after.seconds == AFTER
        assert observation.complete
        assert observation.observed_at <= now
        return self.verdicts[pod.uid]

    async def _pause(self, now: datetime) -> Pause:  # noqa: ARG002
        return self.paused


async def warned(**settings: Any) -> FakeWorld:
    """Gives a world with one warned idle pod, two minutes after noon."""
    world = FakeWorld(**settings)
    world.add("a")
    await world.run(2)
    assert "reclaim-at" in world.annotations("a")
    return world


def annotate(world: FakeWorld, key: str, value: str) -> None:
    """Adds an annotation, as a user does."""
    world.change(world.pod("a").uid, annotations={**world.pod("a").annotations, key: value})
