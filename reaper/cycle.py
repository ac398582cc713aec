"""One cycle: observe, judge, plan, re-check, act, report; knows not when, nor what is behind its ports."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

import structlog

from policy.verdicts import Reason
from reaper import metrics, report
from reaper.alertboard import Topic
from reaper.brakes import Brake, Sample, advance
from reaper.deadline_telling import DeadlineTeller
from reaper.evicting import Evictor
from reaper.housekeeping import House
from reaper.limits import BrakeLimits, Limits
from reaper.lookback import Lookback
from reaper.marking import Marker
from reaper.memory import Memory
from reaper.observation import Observation
from reaper.owners import OwnersUnreadableError, root_of_pod
from reaper.pause import Pause
from reaper.plan import Plan, plan
from reaper.pods import GpuPod
from reaper.ports import Ports
from reaper.pressure import Wanted, wanted_by
from reaper.prospects import Prospects
from reaper.recheck import Recheck
from reaper.recording import Recorder
from reaper.records import Record
from reaper.report import Reporter
from reaper.settings import ReaperSettings
from reaper.situation import Situation
from reaper.subjects import Subject
from reaper.survey import Rules, is_judged, judged, survey
from reaper.turning import turned_idle
from reaper.warning_telling import WarningTeller
from runtime.kube import ApiError, ApiUnreachable

log = structlog.get_logger(__name__)
NOT_SYNCED = "NotSynced"
API_UNAVAILABLE = "ApiUnavailable"


class CycleResult(StrEnum):
    """How a cycle ended."""

    COMPLETE = "complete"
    HELD = "held"
    NOT_LEADING = "not_leading"


class Cycle:
    """The cycles of one process."""

    def __init__(
        self,
        ports: Ports,
        settings: ReaperSettings,
        memory: Memory,
        reporter: Reporter,
        *,
        once: bool,
        acting: asyncio.Lock | None = None,
    ) -> None:
        self._ports = ports
        self._acting = acting or asyncio.Lock()
        self._settings = settings
        self._memory = memory
        self._reporter = reporter
        self._once = once
        self._limits: Limits = settings.limits()
        self._brake_limits: BrakeLimits = settings.brake_limits()
        self._rules = Rules(
            profile=settings.profile,
            excluded_namespaces=frozenset(settings.excluded_namespaces),
            snooze_seconds=settings.snooze,
            apart_seconds=settings.cycle / 2,
        )
        prospects = Prospects(ports, memory)
        self._marker = Marker(ports, memory, reporter, prospects, settings.contact)
        self._warnings = WarningTeller(ports, memory, prospects, settings.contact)
        self._lookback = Lookback(ports, settings.judging().sources)
        recheck = Recheck(ports, memory, self._rules)
        recorder = Recorder(
            ports, memory, reporter, self._limits, settings.contact, settings.logs_url_template
        )
        self._evictor = Evictor(ports, reporter, recheck, recorder)
        self._ways = settings.ways()
        self._deadlines = DeadlineTeller(ports, self._rules.excluded_namespaces, settings.contact)
        self._house = House(ports, settings, memory, reporter, self._marker, self._rules, once=once)

    async def run(self, quiet_until: datetime | None = None) -> CycleResult:
        """Runs one cycle; whatever is missing makes it hold."""
        if not self._ports.leading():
            return CycleResult.NOT_LEADING
        unready = self._ports.unready()
        if unready is not None:
            return self._held(NOT_SYNCED, (unready,))
        try:
            return await self._run(self._ports.clock.now(), quiet_until)
        except (ApiError, ApiUnreachable, OwnersUnreadableError) as error:
            return self._held(API_UNAVAILABLE, (str(error),))

    async def _run(self, began: datetime, quiet_until: datetime | None) -> CycleResult:
        pause = await self._ports.pause(began)
        metrics.PAUSED.set(pause.paused)
        records = await self._ports.records.fetch()
        pods = tuple(self._ports.pods())
        subjects = await self._survey(pods, began)
        await self._deadlines.tell(subjects, began)
        observation = await self._observe(subjects, began)
        if observation is not None and not observation.complete:
            return self._held(observation.problem or Reason.PARTIAL_ANSWER, observation.problems)
        self._reporter.cycle_problem(None)
        async with self._acting:
            return await self._conclude(pods, subjects, observation, (pause, records), quiet_until)

    async def _conclude(
        self,
        pods: Collection[GpuPod],
        subjects: Collection[Subject],
        observation: Observation | None,
        known: tuple[Pause, Collection[Record]],
        quiet_until: datetime | None,
    ) -> CycleResult:
        """Judges, plans and acts by what was read; a stop waits for the end of this part alone."""
        pause, records = known
        # Prometheus may have taken a while, and a grace begins when the warning is written.
        now = self._ports.clock.now()
        first = not any(seen.kind for seen in self._memory.seen.values())
        turned = 0
        judged_subjects = []
        for subject in subjects:
            after, turns = self._judge(subject, observation, first=first, now=now)
            judged_subjects.append(after)
            turned += turns
        situation = self._situation(judged_subjects, turned, pause, quiet_until, now)
        planned = plan(judged_subjects, records, situation, self._limits, now)
        self._report(judged_subjects, planned)
        await self._act(planned, records, now)
        await self._warnings.tell(judged_subjects, planned.ceilings, now)
        if not self._reporter.dry_run:
            await self._lookback.run(judged_subjects, records, observation, now)
        metrics.WITHOUT_TERMS.set(sum(one.skip is Reason.NO_TERMS for one in judged_subjects))
        if not (pause.paused or self._reporter.dry_run):
            await self._house.keep(judged_subjects, pods, records, now)
        self._memory.forget_others({pod.uid for pod in pods}, now)
        report.complete(self._ports.clock.now())
        return CycleResult.COMPLETE

    def _held(self, problem: str, sentences: Collection[str]) -> CycleResult:
        self._reporter.cycle_problem(problem, sentences)
        # Nobody could look, so what was said still holds.
        for topic in Topic:
            self._ports.alerts.again(topic, self._ports.clock.now())
        metrics.CYCLES.labels("held").inc()
        return CycleResult.HELD

    async def _survey(self, pods: Collection[GpuPod], now: datetime) -> list[Subject]:
        # Owners of pods that ended may be gone, and nothing depends on them.
        living = [pod for pod in pods if not (pod.finished or pod.deleting)]
        roots = await self._ports.owners.roots(living, now)
        policies = self._ports.policies()
        self._memory.meet((pod.uid for pod in pods), now)
        return [
            survey(
                pod,
                roots.get(pod.uid) or root_of_pod(pod),
                self._memory.mark_of(pod),
                self._ports.namespace(pod.namespace),
                policies,
                self._rules,
                now,
            )
            for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))
        ]

    async def _observe(self, subjects: Collection[Subject], now: datetime) -> Observation | None:
        terms = [one.terms for one in subjects if is_judged(one) and one.terms is not None]
        return await self._ports.observe(terms, now) if terms else None

    def _judge(
        self, subject: Subject, observation: Observation | None, *, first: bool, now: datetime
    ) -> tuple[Subject, int]:
        """Gives the judged subject, and the devices that turned idle with it."""
        if observation is None or subject.terms is None or not is_judged(subject):
            self._memory.unjudged(subject.pod.uid)
            return subject, 0
        verdict = self._ports.judge(subject.pod, subject.terms, observation, now)
        before = self._memory.judged(subject.pod.uid, verdict, now, self._rules.apart_seconds)
        after = judged(subject, verdict, before, self._rules, now)
        span = self._brake_limits.idle_seconds
        turns = turned_idle(after, before, once=self._once, first=first, span_seconds=span, now=now)
        return after, after.devices if turns else 0

    def _situation(
        self,
        subjects: Collection[Subject],
        turned: int,
        pause: Pause,
        quiet_until: datetime | None,
        now: datetime,
    ) -> Situation:
        # A pod that waits for a node holds nothing, and anybody can make any number of them.
        weighed = [
            one
            for one in subjects
            if one.verdict is not None and one.skip is None and one.pod.node is not None
        ]
        sample = Sample(
            at=now,
            judged=sum(one.devices for one in weighed),
            unknown=sum(one.devices for one in weighed if one.verdict is not None and one.verdict.puzzling),
            turned_idle=turned,
            reclaimed=self._memory.reclaimed,
        )
        self._memory.reclaimed = 0
        self._memory.brake = self._advance(sample, pause, now)
        return Situation(
            pause=pause,
            brake=self._memory.brake,
            quiet_until=quiet_until,
            slow_until=self._memory.slow_until,
            not_before=self._memory.not_before,
            once=self._once,
            judged_devices=sample.judged,
            ways=self._ways,
            wanted=self._wanted(),
        )

    def _wanted(self) -> Wanted | None:
        if not self._settings.on_pressure:
            return None
        return wanted_by(self._ports.pods(), self._rules.excluded_namespaces)

    def _advance(self, sample: Sample, pause: Pause, now: datetime) -> Brake:
        released_at = pause.brake_released_at
        if self._once and released_at is not None:
            # A single run has no brake from before that a person could have released: a release lasts.
            age = (now - released_at).total_seconds()
            if 0 <= age < self._brake_limits.idle_seconds + self._brake_limits.release_seconds:
                return Brake()
        return advance(self._memory.brake, sample, released_at, self._brake_limits)

    def _report(self, subjects: Collection[Subject], planned: Plan) -> None:
        skips = {skip.subject.pod.uid: skip for skip in planned.skips}
        self._reporter.holds(planned.holds)
        self._reporter.verdicts(subjects, skips)
        report.count(subjects, skips)

    async def _act(self, planned: Plan, records: Collection[Record], now: datetime) -> None:
        await self._marker.steps(planned.steps, now)
        await self._marker.keeps(planned.keeps)
        await self._evictor.run(planned.actions, records)
