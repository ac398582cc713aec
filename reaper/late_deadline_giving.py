"""Gives late deadlines and announces them, a few in each cycle; decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

import structlog

from policy.objects import Namespace
from policy.selection import PolicySet
from policy.spec import GPUPolicy
from reaper import messages, metrics
from reaper.act import Written
from reaper.late_deadlines import Late, concerned, late_for_job, late_for_pod
from reaper.memory import Memory
from reaper.messages import EventReason
from reaper.ports import Ports
from reaper.report import Reporter
from reaper.subjects import Subject
from reaper.survey import Rules
from runtime.events import Regarding
from runtime.kube import ApiError, ApiUnreachable

log = structlog.get_logger(__name__)

PER_CYCLE = 50
JOB = ("batch", "Job")


class LateDeadlines:
    """Gives deadlines for one process."""

    def __init__(
        self, ports: Ports, memory: Memory, reporter: Reporter, rules: Rules, trusted: Collection[str]
    ) -> None:
        self._ports = ports
        self._memory = memory
        self._reporter = reporter
        self._rules = rules
        self._trusted = trusted
        # Jobs need no second look: what was decided for one at its first stays, as long as it has pods.
        self._jobs: set[str] = set()
        self._scoped: dict[str, bool] = {}

    async def run(
        self,
        subjects: Collection[Subject],
        namespace: Callable[[str], Namespace | None],
        policies: PolicySet,
        now: datetime,
    ) -> None:
        """Gives once to each that may get one; what cannot be read or written waits for the next cycle."""
        self._scoped = {}
        self._jobs &= {one.pod.owner.uid for one in subjects if one.pod.owner is not None}
        given = 0
        for subject in subjects:
            seen = self._memory.first_seen(subject.pod.uid)
            home = namespace(subject.pod.namespace)
            policy = concerned(subject, seen, home, policies, self._rules, now)
            if policy is None:
                continue
            if given >= PER_CYCLE or not self._ports.leading():
                return
            try:
                given += await self._give(subject, policy, now)
            except (ApiError, ApiUnreachable) as error:
                log.warning("deadline not given", pod=subject.pod.name, error=str(error))

    async def _give(self, subject: Subject, policy: GPUPolicy, now: datetime) -> bool:
        pod = subject.pod
        late = late_for_pod(subject, policy, self._trusted, now)
        if late is None:
            return await self._give_job(subject, policy, now)
        if await self._scoped_quota(pod.namespace):
            return False
        written = await self._ports.late_deadlines.give_pod(pod, late.seconds)
        regarding = Regarding("Pod", pod.name, pod.uid, pod.namespace)
        return await self._tell(subject, regarding, late, written, now)

    async def _give_job(self, subject: Subject, policy: GPUPolicy, now: datetime) -> bool:
        owner = subject.pod.owner
        if owner is None or (owner.group, owner.kind) != JOB or owner.uid in self._jobs:
            return False
        job = await self._ports.late_deadlines.job_of(subject.pod)
        late = late_for_job(job, policy, self._trusted, now) if job is not None else None
        if job is None or late is None or await self._scoped_quota(subject.pod.namespace):
            self._jobs.add(owner.uid)
            return False
        written = await self._ports.late_deadlines.give_job(subject.pod.namespace, job, late.seconds)
        regarding = Regarding("Job", owner.name, owner.uid, subject.pod.namespace, owner.api_version)
        return await self._tell(subject, regarding, late, written, now)

    async def _scoped_quota(self, namespace: str) -> bool:
        if namespace not in self._scoped:
            self._scoped[namespace] = await self._ports.late_deadlines.scoped_quota(namespace)
        return self._scoped[namespace]

    async def _tell(
        self, subject: Subject, regarding: Regarding, late: Late, written: Written, now: datetime
    ) -> bool:
        metrics.MARKS.labels("deadline", written.value).inc()
        if written is not Written.WRITTEN:
            return False
        text = messages.late_deadline(regarding.kind, subject.policy.name, late.ends_at, now)
        self._reporter.line("deadline given", subject, object=regarding.kind, seconds=late.seconds)
        await self._reporter.event_on(regarding, EventReason.DEADLINE_GIVEN, text)
        return True
