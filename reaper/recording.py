"""Writes the record of an action before it, settles its answer, and tells; does and decides nothing else."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import structlog
from msgspec import structs

from policy.terms import Action
from policy.verdicts import Reason
from reaper import messages, metrics
from reaper.act import STALE_BUDGET_SECONDS, Outcome, Result
from reaper.alerts import reclaimed
from reaper.groups import Group
from reaper.limits import Limits
from reaper.marks import Mark
from reaper.memory import Memory
from reaper.messages import EventReason
from reaper.ports import Ports
from reaper.recheck import Refusal
from reaper.reclaim import record_of, spec_of
from reaper.records import Phase, Record
from reaper.report import Reporter
from reaper.stops import Stop
from reaper.subjects import Subject
from runtime.kube import ApiError, ApiUnreachable

log = structlog.get_logger(__name__)

BUSY_SECONDS = 10.0
DOUBT_SECONDS = 30.0
DONE = {Action.EVICT: "evicted", Action.STOP: "stopped"}


class Recorder:
    """Records for one process."""

    def __init__(
        self,
        ports: Ports,
        memory: Memory,
        reporter: Reporter,
        limits: Limits,
        contact: str,
        logs_template: str = "",
    ) -> None:
        self._ports = ports
        self._memory = memory
        self._reporter = reporter
        self._limits = limits
        self._contact = contact
        self._logs_template = logs_template

    def spared(self, group: Group, refusal: Refusal) -> None:
        """Tells that a planned action does not happen."""
        metrics.SPARED.labels(refusal.reason.value).inc()
        for member in group.members:
            self._reporter.line("pod spared", member, because=refusal.reason.value, why=refusal.sentence)

    async def begin(self, member: Subject, decided_at: datetime, action: Action) -> Record | None:
        """Writes the record; without one nothing is done."""
        record = record_of(member, decided_at, action)
        try:
            warned_at = self._memory.warned_at.get(member.pod.uid)
            spec = spec_of(member, decided_at, warned_at, self._logs_template, action)
            return await self._ports.records.begin(record, spec)
        except (ApiError, ApiUnreachable) as error:
            _not_written(member, error)
            return None

    async def begin_stop(
        self, member: Subject, decided_at: datetime, stop: Stop, *, already: bool
    ) -> Record | None:
        """Writes the record and in it how the owner was before; without either nothing is done.

        What a stop of ours has changed already says nothing about before.
        """
        record = await self.begin(member, decided_at, Action.STOP)
        if record is None or record.phase is Phase.ACCEPTED:
            return record
        record = structs.replace(record, action=Action.STOP)
        if already:
            return record
        try:
            await self._ports.records.note(record, {"stop": stop.to_status()})
        except (ApiError, ApiUnreachable) as error:
            _not_written(member, error)
            return None
        return structs.replace(record, stop=stop)

    async def settle(self, member: Subject, record: Record, result: Result) -> None:
        """Completes the record as the answer wants, and tells what came of the action."""
        now = self._ports.clock.now()
        self._answered(member, record.action, result)
        match result.outcome:
            case Outcome.ACCEPTED:
                await self._accepted(member, record, now)
            case Outcome.GONE | Outcome.ENDING:
                await self._complete(record, Phase.GONE, result.message, now)
            case Outcome.REFUSED:
                await self._complete(record, Phase.REFUSED, result.message, now)
                again = now + timedelta(seconds=self._limits.refusal_seconds)
                text = messages.refused(result.message, again, now, DONE[record.action])
                await self._reporter.event(member.pod, EventReason.EVICTION_REFUSED, text)
            case Outcome.BUDGET if result.refuses:
                await self._blocked(member, record, result, now)
            case _:
                self._wait(member, result, now)

    def doubted(self, member: Subject, action: Action, result: Result) -> None:
        """Notes that nobody could say whether the pod may go.

        There is no record: the action has not been asked for, whatever becomes of the pod.
        """
        self._answered(member, action, result)
        self._wait(member, result, self._ports.clock.now())

    async def not_asked(
        self, begun: Collection[tuple[Subject, Record]], first: Subject, result: Result
    ) -> None:
        """Completes the records of pods that were not asked about, since the first of their run stays.

        Otherwise they would count as taken once their users delete them. An answer that is not known yet
        leaves them open: the first may have gone.
        """
        match result.outcome:
            case Outcome.BUDGET if result.refuses:
                phase = Phase.BLOCKED
            case Outcome.REFUSED | Outcome.GONE | Outcome.ENDING:
                phase = Phase.REFUSED
            case _:
                return
        now = self._ports.clock.now()
        message = f"pod {first.pod.name} did not go first: {result.message}"
        for _, record in begun:
            await self._complete(record, phase, message, now)

    async def _accepted(self, member: Subject, record: Record, now: datetime) -> None:
        self._memory.reclaimed += member.devices
        self._memory.taken.add(member.pod.uid)
        metrics.RECLAIMED.inc(0 if self._reporter.dry_run else member.devices)
        metrics.WARNINGS_ENDED.labels("action").inc()
        contact = member.contact(self._contact)
        mark = member.mark or Mark(now)
        if record.action is Action.STOP:
            said, reason = "the owner was stopped", EventReason.STOPPED
            text = messages.stopped(member, mark, contact, now)
        else:
            said, reason = "the eviction was accepted", EventReason.EVICTED
            text = messages.evicted(member, mark, contact, now)
        await self._complete(record, Phase.ACCEPTED, said, now)
        await self._reporter.event(member.pod, reason, text)
        self._ports.alerts.add(reclaimed(member, record.action, text, self._contact, now))

    async def _blocked(self, member: Subject, record: Record, result: Result, now: datetime) -> None:
        first = record.phase is not Phase.BLOCKED
        await self._complete(record, Phase.BLOCKED, result.message, now)
        if first:
            again = now + timedelta(seconds=self._limits.budget_seconds)
            text = messages.blocked(result.message, again, now, DONE[record.action])
            await self._reporter.event(member.pod, EventReason.EVICTION_BLOCKED, text)

    def _answered(self, member: Subject, action: Action, result: Result) -> None:
        metrics.ACTIONS.labels(action.value, result.outcome.value).inc()
        answered = "eviction answered" if action is Action.EVICT else "stop answered"
        self._reporter.line(answered, member, outcome=result.outcome.value, said=result.message)

    def _wait(self, member: Subject, result: Result, now: datetime) -> None:
        """Notes when to ask again after an answer that says nothing of the pod."""
        if result.outcome is Outcome.BUSY:
            self._memory.slow_until = now + timedelta(seconds=result.retry_after or BUSY_SECONDS)
            return
        stale = result.outcome is Outcome.BUDGET
        seconds = (result.retry_after or STALE_BUDGET_SECONDS) if stale else DOUBT_SECONDS
        self._memory.not_before[member.pod.uid] = now + timedelta(seconds=seconds)

    async def _complete(self, record: Record, phase: Phase, message: str, now: datetime) -> None:
        try:
            await self._ports.records.complete(record, phase, message, now)
        except (ApiError, ApiUnreachable) as error:
            # Planned counts for every limit, so a lost completion can only make the reaper do less.
            log.warning("record not completed", record=record.name, phase=phase.value, error=str(error))


def _not_written(member: Subject, error: Exception) -> None:
    log.error("record not written, pod spared", pod=member.pod.name, error=str(error))
    metrics.SPARED.labels(Reason.BACKING_OFF.value).inc()
