"""Carries out a plan's actions: look again, record, evict, complete the record, tell; decides nothing."""

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
from reaper.limits import Limits
from reaper.marks import Mark
from reaper.memory import Memory
from reaper.messages import EventReason
from reaper.ports import Ports
from reaper.recheck import Recheck, Refusal
from reaper.reclaim import record_of, spec_of
from reaper.records import Phase, Record
from reaper.report import Reporter
from reaper.subjects import Group, Subject
from runtime.kube import ApiError, ApiUnreachable

log = structlog.get_logger(__name__)

BUSY_SECONDS = 10.0
DOUBT_SECONDS = 30.0
LOOK_SECONDS = 30.0
"""A look that is older than this proves nothing: what was idle may be in use again."""

ALL_AT_ONCE = frozenset({Reason.PAUSED, Reason.NOT_LEADER})
"""Refusals that concern every action of the cycle."""


class Evictor:
    """Acts for one process."""

    def __init__(
        self, ports: Ports, memory: Memory, reporter: Reporter, recheck: Recheck, limits: Limits, contact: str
    ) -> None:
        self._ports = ports
        self._memory = memory
        self._reporter = reporter
        self._recheck = recheck
        self._limits = limits
        self._contact = contact

    async def run(self, groups: Collection[Group], records: Collection[Record]) -> None:
        """Acts on the groups, in their order."""
        by_uid = {record.pod_uid: record for record in records}
        for group in groups:
            confirmed = await self._recheck.confirm(group)
            if isinstance(confirmed, Refusal):
                self._spared(group, confirmed)
                if confirmed.reason in ALL_AT_ONCE:
                    return
                continue
            if not await self._act(structs.replace(group, members=confirmed), by_uid):
                return

    def _spared(self, group: Group, refusal: Refusal) -> None:
        metrics.SPARED.labels(refusal.reason.value).inc()
        for member in group.members:
            self._reporter.line("pod spared", member, because=refusal.reason.value, why=refusal.sentence)

    async def _act(self, group: Group, by_uid: dict[str, Record]) -> bool:
        """Acts on one group; False if the cycle must not act any more."""
        if len(group.members) > 1:
            looked = self._ports.clock.monotonic()
            refused = await self._first_refusal(group, by_uid)
            if refused is not None:
                return refused is not Outcome.BUSY
            if self._ports.clock.monotonic() - looked > LOOK_SECONDS:
                self._spared(
                    group, Refusal(Reason.CHANGED, "asking about every pod of the run took too long")
                )
                return True
        started = [by_uid[uid].decided_at for uid in group.uids if uid in by_uid]
        decided_at = min(started, default=self._ports.clock.now().replace(microsecond=0))
        for member in group.members:
            record = await self._begin(member, decided_at)
            if record is None:
                return True
            if record.phase is Phase.ACCEPTED:
                continue
            if not self._ports.leading():
                return False
            result = await self._ports.actor.evict(member.pod, dry_run=self._reporter.dry_run)
            await self._settle(member, record, result)
            if result.outcome is Outcome.BUSY:
                return False
        return True

    async def _first_refusal(self, group: Group, by_uid: dict[str, Record]) -> Outcome | None:
        """Asks about every pod of a run first, because it goes whole or not at all; None if all would go."""
        for member in group.members:
            result = await self._ports.actor.evict(member.pod, dry_run=True)
            if result.outcome not in {Outcome.ACCEPTED, Outcome.GONE}:
                record = by_uid.get(member.pod.uid) or await self._begin(member, self._ports.clock.now())
                if record is not None:
                    await self._settle(member, record, result)
                return result.outcome
        return None

    async def _begin(self, member: Subject, decided_at: datetime) -> Record | None:
        """Writes the record; without one nothing is done."""
        record = record_of(member, decided_at)
        try:
            spec = spec_of(member, decided_at, self._memory.warned_at.get(member.pod.uid))
            return await self._ports.records.begin(record, spec)
        except (ApiError, ApiUnreachable) as error:
            log.error("record not written, pod spared", pod=member.pod.name, error=str(error))
            metrics.SPARED.labels(Reason.BACKING_OFF.value).inc()
            return None

    async def _settle(self, member: Subject, record: Record, result: Result) -> None:
        now = self._ports.clock.now()
        metrics.ACTIONS.labels("evict", result.outcome.value).inc()
        self._reporter.line("eviction answered", member, outcome=result.outcome.value, said=result.message)
        match result.outcome:
            case Outcome.ACCEPTED:
                await self._accepted(member, record, now)
            case Outcome.GONE | Outcome.ENDING:
                await self._complete(record, Phase.GONE, result.message, now)
            case Outcome.REFUSED:
                await self._complete(record, Phase.REFUSED, result.message, now)
                again = now + timedelta(seconds=self._limits.refusal_seconds)
                text = messages.refused(result.message, again, now)
                await self._reporter.event(member.pod, EventReason.EVICTION_REFUSED, text)
            case Outcome.BUDGET if result.retry_after is None:
                await self._blocked(member, record, result, now)
            case Outcome.BUDGET:
                # The budget's own numbers are out of date: nothing is known yet.
                self._wait(member, now, result.retry_after or STALE_BUDGET_SECONDS)
            case Outcome.BUSY:
                self._memory.slow_until = now + timedelta(seconds=result.retry_after or BUSY_SECONDS)
            case Outcome.UNKNOWN:
                self._wait(member, now, DOUBT_SECONDS)

    async def _accepted(self, member: Subject, record: Record, now: datetime) -> None:
        self._memory.reclaimed += member.devices
        metrics.RECLAIMED.inc(0 if self._reporter.dry_run else member.devices)
        await self._complete(record, Phase.ACCEPTED, "the eviction was accepted", now)
        contact = member.contact(self._contact)
        mark = member.mark or Mark(now)
        text = messages.evicted(member, mark, contact, now)
        await self._reporter.event(member.pod, EventReason.EVICTED, text)
        self._ports.alerts.add(reclaimed(member, Action.EVICT, text, self._contact, now))

    async def _blocked(self, member: Subject, record: Record, result: Result, now: datetime) -> None:
        first = record.phase is not Phase.BLOCKED
        await self._complete(record, Phase.BLOCKED, result.message, now)
        if first:
            again = now + timedelta(seconds=self._limits.budget_seconds)
            text = messages.blocked(result.message, again, now)
            await self._reporter.event(member.pod, EventReason.EVICTION_BLOCKED, text)

    def _wait(self, member: Subject, now: datetime, seconds: float) -> None:
        self._memory.not_before[member.pod.uid] = now + timedelta(seconds=seconds)

    async def _complete(self, record: Record, phase: Phase, message: str, now: datetime) -> None:
        try:
            await self._ports.records.complete(record, phase, message, now)
        except (ApiError, ApiUnreachable) as error:
            # Planned counts for every limit, so a lost completion can only make the reaper do less.
            log.warning("record not completed", record=record.name, phase=phase.value, error=str(error))
