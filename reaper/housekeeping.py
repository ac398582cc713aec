"""What a cycle does after acting: terms and deadlines that lack, statuses, records; decides no action."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import structlog

from policy.verdicts import VerdictKind
from reaper.backfill import backfill_of
from reaper.late_deadline_giving import LateDeadlines
from reaper.marking import Marker
from reaper.memory import Memory
from reaper.pods import GpuPod
from reaper.ports import Ports
from reaper.reclaim import Closing, closings
from reaper.records import Record, expired
from reaper.report import Reporter
from reaper.reverting import Reverted
from reaper.settings import ReaperSettings
from reaper.standing import standings
from reaper.subjects import Subject
from reaper.survey import Rules
from runtime.kube import ApiError, ApiUnreachable

log = structlog.get_logger(__name__)
REMOVALS_PER_CYCLE = 50


class House:
    """Keeps things in order for one process that neither pauses nor runs dry."""

    def __init__(
        self,
        ports: Ports,
        settings: ReaperSettings,
        memory: Memory,
        reporter: Reporter,
        marker: Marker,
        rules: Rules,
        *,
        once: bool,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._memory = memory
        self._marker = marker
        self._rules = rules
        self._once = once
        self._reverted = Reverted(ports, reporter)
        self._late = LateDeadlines(ports, memory, reporter, rules, settings.trusted_controllers)

    async def keep(
        self,
        subjects: Collection[Subject],
        pods: Collection[GpuPod],
        records: Collection[Record],
        now: datetime,
    ) -> None:
        """Gives terms and deadlines that lack, looks after stops, completes records and drops old ones."""
        await self._write_statuses(subjects)
        # A single run cannot know for how long the reaper has seen a pod.
        if not self._once:
            await self._backfill(subjects, now)
        await self._reverted.run(records, subjects, now)
        verdicts: Mapping[str, VerdictKind] = {
            one.pod.uid: one.verdict.kind for one in subjects if one.verdict is not None
        }
        for closing in closings(records, pods, verdicts):
            if not self._ports.leading():
                return
            await self._complete(closing, now)
        for record in expired(records, pods, now, self._settings.records_kept)[:REMOVALS_PER_CYCLE]:
            if not self._ports.leading():
                return
            await self._remove(record)

    async def _complete(self, closing: Closing, now: datetime) -> None:
        """Completes a record; one that is refused waits for the next cycle and keeps no other waiting."""
        record = closing.record
        try:
            await self._ports.records.complete(record, closing.phase, closing.message, now)
        except ApiError as error:
            log.warning("record not completed", record=record.name, error=str(error))

    async def _remove(self, record: Record) -> None:
        try:
            await self._ports.records.remove(record)
        except ApiError as error:
            log.warning("record not removed", record=record.name, error=str(error))

    async def _write_statuses(self, subjects: Collection[Subject]) -> None:
        found = standings(self._ports.policies(), self._ports.namespaces(), subjects)
        for name, status in found.items():
            if self._memory.statuses.get(name) == status or not self._ports.leading():
                continue
            try:
                await self._ports.write_status(name, status)
            except (ApiError, ApiUnreachable) as error:
                log.debug("status not written", policy=name, error=str(error))
            else:
                self._memory.statuses[name] = status

    async def _backfill(self, subjects: Collection[Subject], now: datetime) -> None:
        policies = self._ports.policies()
        if self._settings.backfill_deadline:
            await self._late.run(subjects, self._ports.namespace, policies, now)
        if not self._settings.backfill:
            return
        found = [
            backfill_of(
                subject,
                self._memory.first_seen(subject.pod.uid),
                self._ports.namespace(subject.pod.namespace),
                policies,
                self._rules,
                now,
                self._settings.trusted_controllers,
            )
            for subject in subjects
        ]
        await self._marker.backfills([one for one in found if one is not None])
