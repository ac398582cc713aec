"""Carries out a plan's changes of warnings, snoozes and missing terms, and tells users; decides nothing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from policy.durations import format_time
from policy.keys import Annotation
from policy.terms import Action
from policy.verdicts import Reason, VerdictKind
from reaper import messages, metrics
from reaper.act import Written
from reaper.backfill import Backfill
from reaper.marks import Mark, annotations_of
from reaper.memory import Memory
from reaper.messages import Announced, EventReason, announced_of
from reaper.ports import Ports
from reaper.prospects import Prospects
from reaper.report import Reporter
from reaper.steps import Change, Keep, Step
from reaper.subjects import Subject

SAID = {
    Change.SIGHT: "pod seen idle",
    Change.WARN: "pod warned",
    Change.MOVE: "reclaim moved",
    Change.LOWER: "reclaim cancelled",
    Change.REMOVE: "warning withdrawn",
}


class Marker:
    """Writes marks for one process."""

    def __init__(
        self, ports: Ports, memory: Memory, reporter: Reporter, prospects: Prospects, contact: str
    ) -> None:
        self._ports = ports
        self._memory = memory
        self._reporter = reporter
        self._prospects = prospects
        self._contact = contact

    async def steps(self, steps: Collection[Step], now: datetime) -> None:
        """Carries out the changes, one after the other; each failure is left for the next cycle."""
        for step in steps:
            if not self._ports.leading():
                return
            written = await self._write(step.subject, step.mark, now)
            metrics.MARKS.labels(step.change.value, written.value).inc()
            _count_ended(step, written)
            if written in {Written.WRITTEN, Written.HELD, Written.FULL}:
                if step.change is Change.WARN:
                    self._memory.warned_at[step.subject.pod.uid] = now
                await self._tell(step, written, now)

    async def keeps(self, keeps: Collection[Keep]) -> None:
        """Writes snoozes as times, and tells once what is wrong with one."""
        for keep in keeps:
            if self._reporter.dry_run or not self._ports.leading():
                return
            await self._complain(keep)
            if keep.text is None:
                continue
            annotations = {Annotation.KEEP_UNTIL.value: keep.text}
            if await self._ports.actor.annotate(keep.subject.pod, annotations) is Written.WRITTEN:
                self._reporter.line("snooze written", keep.subject, keep_until=keep.text)

    async def _complain(self, keep: Keep) -> None:
        pod = keep.subject.pod
        if keep.problem is not None and self._memory.told.get(pod.uid) != keep.problem:
            self._memory.told[pod.uid] = keep.problem
            note = keep.problem[0].upper() + keep.problem[1:]
            await self._reporter.event(pod, EventReason.KEEP_UNTIL, note)

    async def backfills(self, backfills: Collection[Backfill]) -> None:
        """Gives terms to pods without."""
        for backfill in backfills:
            if self._reporter.dry_run or not self._ports.leading():
                return
            written = await self._ports.actor.label(
                backfill.subject.pod, backfill.labels, backfill.annotations
            )
            metrics.MARKS.labels("backfill", written.value).inc()
            if written is Written.WRITTEN:
                self._reporter.line("terms written", backfill.subject, terms=backfill.labels)

    async def _write(self, subject: Subject, mark: Mark | None, now: datetime) -> Written:
        uid = subject.pod.uid
        written = Written.HELD
        if not self._reporter.dry_run:
            written = await self._ports.actor.annotate(subject.pod, annotations_of(mark, uid))
        if written is Written.WRITTEN:
            self._memory.held.pop(uid, None)
            self._memory.wrote[uid] = (now, mark)
        elif written in {Written.HELD, Written.FULL}:
            self._memory.held[uid] = mark
        return written

    async def _tell(self, step: Step, written: Written, now: datetime) -> None:
        fields: dict[str, str] = {}
        if step.mark is not None and step.mark.reclaim_at is not None:
            fields["reclaim_at"] = format_time(step.mark.reclaim_at)
        if step.reason is not None and step.change is not Change.WARN:
            fields["because"] = step.reason.value
        self._reporter.line(SAID[step.change], step.subject, **fields)
        note = self._note(step, await self._announced(step), written, now)
        if note is not None:
            reason, text, normal = note
            await self._reporter.event(step.subject.pod, reason, text, normal=normal)

    async def _announced(self, step: Step) -> Announced:
        """Gives what the step announces; of a Job also what an eviction does to it."""
        fate = None
        if step.action is Action.EVICT and step.change in {Change.WARN, Change.MOVE}:
            fate = await self._prospects.ask(step.subject.pod)
        return announced_of(step.action, step.subject.root, fate)

    def _note(
        self, step: Step, announced: Announced, written: Written, now: datetime
    ) -> tuple[EventReason, str, bool] | None:
        subject, mark, contact = step.subject, step.mark, step.subject.contact(self._contact)
        before = subject.mark
        if step.change is Change.WARN and mark is not None:
            if written is Written.FULL:
                text = messages.held_in_memory(subject, mark, contact, now, announced)
                return EventReason.NOT_WRITABLE, text, False
            text = messages.warning(subject, mark, contact, now, step.reason, announced)
            return EventReason.IDLE_WARNING, text, False
        if step.change is Change.MOVE and mark is not None:
            return (
                EventReason.RECLAIM_MOVED,
                messages.moved(subject, mark, step.reason, contact, now, announced),
                True,
            )
        if step.change is Change.LOWER:
            return EventReason.WARNING_WITHDRAWN, messages.lowered(step.reason or Reason.WARN_ONLY), True
        if step.change is Change.REMOVE and before is not None and before.warned:
            return EventReason.WARNING_WITHDRAWN, messages.withdrawn(step.reason), True
        return None


def _count_ended(step: Step, written: Written) -> None:
    """Counts a warning that was withdrawn or held off, by what did it."""
    warned = step.subject.mark is not None and step.subject.mark.warned
    if not warned or written not in {Written.WRITTEN, Written.HELD, Written.FULL}:
        return
    if step.change is Change.MOVE and step.reason is Reason.SNOOZED:
        metrics.WARNINGS_ENDED.labels("snooze").inc()
    elif step.change is Change.REMOVE:
        verdict = step.subject.verdict
        active = verdict is not None and verdict.kind is VerdictKind.ACTIVE
        metrics.WARNINGS_ENDED.labels("activity" if active else "other").inc()
