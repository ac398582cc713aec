"""Fakes of what is done to pods and their owners, and of who owns what; knows no cycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import structs

from reaper.act import Outcome, Result, Written
from reaper.fates import Fate
from reaper.late_deadlines import DatedJob
from reaper.owners import OwnersUnreadableError, Root, root_of_pod
from reaper.pods import GpuPod
from reaper.stop_api import Chain, Found, NotStoppableError, Standing
from reaper.stops import Stop, stop_of
from reaper.stopways import BUILT_IN, WORKLOAD, Ways

if TYPE_CHECKING:
    from tests.reaper.acting.worlds import FakeWorld

BUILT_IN_WAYS = Ways(BUILT_IN)


class FakeActor:
    """Changes the pods of the world as the API server would, and keeps what was asked."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self.evicted: list[str] = []
        self.tried: list[str] = []
        self.written = Written.WRITTEN
        self.answers: dict[str, Result] = {}
        self.together: tuple[str, Result] | None = None
        self.asked_together: list[list[str]] = []
        self.writes = 0

    async def annotate(self, pod: GpuPod, annotations: Mapping[str, str | None]) -> Written:
        """Changes annotations of a pod."""
        self.writes += 1
        if self.written is Written.WRITTEN:
            found = {**self._world.pods[pod.uid].annotations, **annotations}
            kept = {key: value for key, value in found.items() if value is not None}
            self._world.change(pod.uid, annotations=kept)
        return self.written

    async def label(self, pod: GpuPod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Written:
        """Changes labels and annotations of a pod."""
        self.writes += 1
        now = self._world.pods[pod.uid]
        self._world.change(
            pod.uid, labels={**now.labels, **labels}, annotations={**now.annotations, **annotations}
        )
        return Written.WRITTEN

    async def evict(self, pod: GpuPod, *, dry_run: bool = False) -> Result:
        """Marks a pod as going, unless another answer was prepared."""
        self.tried.append(pod.name)
        answer = self.answers.get(pod.name, Result(Outcome.ACCEPTED))
        if answer.outcome is Outcome.ACCEPTED and not dry_run:
            self.evicted.append(pod.name)
            self._world.change(pod.uid, deleting=True)
        return answer

    async def refused_together(self, pods: Sequence[GpuPod]) -> tuple[GpuPod, Result] | None:
        """Gives what was prepared in `together`, by the name of a pod."""
        self.asked_together.append([pod.name for pod in pods])
        if self.together is None:
            return None
        name, result = self.together
        return self._world.pod(name), result


class FakeStops:
    """Stops owners by letting their pods go; `problem` says why one cannot be."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self.stopped: list[str] = []
        self.tried: list[str] = []
        self.problem = ""
        self.already = False
        self.answer = Result(Outcome.ACCEPTED)
        self.standing = Standing(exists=True, stopped=True, noted=True)
        self.looked = 0

    async def find(self, chains: Sequence[tuple[GpuPod, Chain]], now: datetime) -> Mapping[str, Found]:
        """Gives what is to be changed."""
        if self.problem:
            raise NotStoppableError(self.problem)
        found = {}
        for pod, chain in chains:
            owner = chain[-1] if chain else root_of_pod(pod)
            way = BUILT_IN_WAYS.of(owner.group, owner.kind) or WORKLOAD
            found[pod.uid] = Found(stop_of(owner, way, {"spec": {"replicas": 3}}, now), "1", self.already)
        return found

    async def stop(self, found: Found, namespace: str, now: datetime, *, dry_run: bool) -> Result:
        """Lets the pods of an owner go, unless another answer was prepared."""
        assert namespace
        assert now == self._world.clock.time
        self.tried.append(found.stop.name)
        if self.answer.outcome is Outcome.ACCEPTED and not dry_run:
            self.stopped.append(found.stop.name)
            for pod in list(self._world.pods.values()):
                if self._world.owners.root(pod).uid == found.stop.uid:
                    self._world.change(pod.uid, deleting=True)
        return self.answer

    async def look(self, stop: Stop, namespace: str) -> Standing:
        """Gives what was prepared."""
        assert stop.name
        assert namespace
        self.looked += 1
        return self.standing


class FakeLateDeadlines:
    """Keeps the deadlines that were given; `jobs` has Jobs by the UID of the reference to them."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self.jobs: dict[str, DatedJob] = {}
        self.scoped = False
        self.given: list[tuple[str, int]] = []
        self.looked = 0

    async def scoped_quota(self, namespace: str) -> bool:
        """Gives what was prepared."""
        assert namespace
        return self.scoped

    async def job_of(self, pod: GpuPod) -> DatedJob | None:
        """Gives the Job of a pod."""
        self.looked += 1
        return self.jobs.get(pod.owner.uid) if pod.owner else None

    async def give_pod(self, pod: GpuPod, seconds: int) -> Written:
        """Keeps the deadline of a pod."""
        self.given.append((pod.name, seconds))
        note = {"gpu-tenure.io/deadline": "injected"}
        self._world.change(pod.uid, annotations={**self._world.pods[pod.uid].annotations, **note})
        return Written.WRITTEN

    async def give_job(self, namespace: str, job: DatedJob, seconds: int) -> Written:
        """Keeps the deadline of a Job."""
        assert namespace
        self.given.append((job.metadata.name or "", seconds))
        noted = structs.replace(job.metadata, annotations={"gpu-tenure.io/deadline": "injected"})
        self.jobs[job.metadata.uid or ""] = structs.replace(job, metadata=noted)
        return Written.WRITTEN


class FakeOwners:
    """Gives the roots that tests chose; `broken` raises."""

    def __init__(self) -> None:
        self.chosen: dict[str, Root] = {}
        self.broken = False
        self.fates: dict[str, Fate] = {}

    def root(self, pod: GpuPod) -> Root:
        """Gives the root of a pod."""
        return self.chosen.get(pod.name, root_of_pod(pod))

    async def chain(self, pod: GpuPod, now: datetime) -> Chain:  # noqa: ARG002
        """Gives the root alone, and nothing for a pod without one."""
        root = self.root(pod)
        return () if root.kind == "Pod" else (root,)

    async def fate(self, pod: GpuPod, pods: int) -> Fate | None:
        """Gives what was prepared."""
        assert pods > 0
        return self.fates.get(pod.name)

    async def roots(self, pods: Collection[GpuPod], now: datetime) -> Mapping[str, Root]:  # noqa: ARG002
        """Gives the root of each pod."""
        if self.broken:
            raise OwnersUnreadableError("the API server is away")
        return {pod.uid: self.chosen.get(pod.name, root_of_pod(pod)) for pod in pods}
