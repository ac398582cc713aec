"""Tells people what changed: a log line per change, Events, metrics; decides nothing and writes on no pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Literal

import structlog

from policy.durations import format_time
from policy.verdicts import Reason, VerdictKind
from reaper import metrics
from reaper.audit import Audited, AuditPort, NoAudit, entry_of, entry_of_record
from reaper.evidence import Verdict
from reaper.messages import EventReason
from reaper.pods import GpuPod
from reaper.records import Record
from reaper.steps import Hold, Skip
from reaper.subjects import Subject
from runtime.events import EventsPort, Regarding

log = structlog.get_logger(__name__)


class NoEvents:
    """The EventsPort that sends none: under observe and in dry runs users hear nothing."""

    async def record(
        self,
        regarding: Regarding,
        reason: str,
        action: str,
        note: str,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the field's name in the API
    ) -> bool:
        """Sends nothing."""
        del regarding, reason, action, note, type
        return False


class Reporter:
    """Speaks for one process, and only when something changed.

    Attributes:
        dry_run: True if everything that is said would only be done.
    """

    def __init__(self, events: EventsPort, *, dry_run: bool, audit: AuditPort | None = None) -> None:
        self._events = events
        self._audit = audit or NoAudit()
        self.dry_run = dry_run
        self._said: dict[str, tuple[str, ...]] = {}
        self._holds: tuple[str, ...] = ()
        self._problem: str | None = None
        metrics.DRY_RUN.set(dry_run)

    async def event(self, pod: GpuPod, reason: EventReason, note: str, *, normal: bool = False) -> None:
        """Sends an Event on a pod."""
        regarding = Regarding("Pod", pod.name, pod.uid, pod.namespace)
        await self.event_on(regarding, reason, note, normal=normal)

    async def event_on(
        self, regarding: Regarding, reason: EventReason, note: str, *, normal: bool = False
    ) -> None:
        """Sends an Event on any object."""
        await self._events.record(regarding, reason.value, "Reclaim", note, "Normal" if normal else "Warning")

    def line(self, message: str, subject: Subject, **fields: object) -> None:
        """Logs what was done about a pod."""
        said = f"dry run: {message}" if self.dry_run else message
        log.info(said, **who(subject.pod), **seen(subject.verdict), **fields)
        self._audit.write(entry_of(message, subject, fields))

    def cycle_problem(self, problem: str | None, sentences: Collection[str] = ()) -> None:
        """Says once that observations are incomplete, and once that they are complete again."""
        said = None if problem is None else str(problem)
        if said == self._problem:
            return
        if said is None:
            log.info("observations are complete again", reason=self._problem)
        else:
            log.warning("cycle held: observations are incomplete", reason=said, problems=list(sentences)[:5])
        self._problem = said

    def holds(self, holds: Collection[Hold]) -> None:
        """Says once why cycles do less, and once that they do not any more."""
        reasons = tuple(hold.reason.value for hold in holds)
        if reasons != self._holds:
            for hold in holds:
                if hold.reason.value not in self._holds:
                    log.warning("reaper holds", reason=hold.reason.value, why=hold.sentence)
                    self._hold(Audited.HOLD, hold.reason.value, hold.sentence)
            for gone in set(self._holds) - set(reasons):
                log.info("reaper holds no longer", reason=gone)
                self._hold(Audited.RELEASE, gone)
        self._holds = reasons
        metrics.BRAKE.set(Reason.BRAKE.value in reasons)

    def undone(self, event: Audited, message: str, record: Record, by: str) -> None:
        """Keeps in the audit log that somebody undid an action."""
        self._audit.write(entry_of_record(event, message, record, by))

    def _hold(self, event: Audited, reason: str, sentence: str = "") -> None:
        message = "reaper holds" if event is Audited.HOLD else "reaper holds no longer"
        entry = {"event": event.value, "message": message, "reason": reason, "sentence": sentence or None}
        self._audit.write(entry)

    def verdicts(self, subjects: Collection[Subject], skips: Mapping[str, Skip]) -> None:
        """Logs each pod whose verdict, reason or skip changed since it was last said."""
        present = {subject.pod.uid for subject in subjects}
        self._said = {uid: said for uid, said in self._said.items() if uid in present}
        for subject in subjects:
            skip = skips.get(subject.pod.uid)
            kind, reason = disposition(subject, skip)
            now_said = (kind, reason, skip.reason.value if skip else "")
            if self._said.get(subject.pod.uid) != now_said:
                self._said[subject.pod.uid] = now_said
                self._verdict_line(subject, kind, reason, skip)

    def _verdict_line(self, subject: Subject, kind: str, reason: str, skip: Skip | None) -> None:
        fields: dict[str, Any] = {**seen(subject.verdict), "verdict": kind, "reason": reason}
        if skip is not None:
            fields["skip"] = skip.reason.value
            if skip.sentence:
                fields["why"] = skip.sentence
        owner = {"owner": str(subject.root), "policy": subject.policy.name, "devices": subject.devices}
        log.info("verdict changed", **who(subject.pod), **owner, **fields)


def disposition(subject: Subject, skip: Skip | None) -> tuple[str, str]:
    """Gives the verdict and reason under which a pod counts; an unjudged pod is Skipped."""
    if subject.verdict is not None:
        return subject.verdict.kind.value, subject.verdict.reason.value
    reason = skip.reason if skip else subject.skip
    return VerdictKind.SKIPPED.value, reason.value if reason else Reason.EXCLUDED.value


def who(pod: GpuPod) -> dict[str, str]:
    """Gives the fields that name a pod."""
    return {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}


def seen(verdict: Verdict | None) -> dict[str, Any]:
    """Gives the fields that say what was seen."""
    if verdict is None:
        return {}
    evidence = verdict.evidence
    found: dict[str, Any] = {
        "verdict": verdict.kind.value,
        "reason": verdict.reason.value,
        "evidence": {
            "sentence": verdict.sentence,
            "window_seconds": evidence.window,
            "devices": f"{evidence.devices_seen} of {evidence.devices_expected}",
            "maximum_percent": evidence.maximum,
            "samples": f"{evidence.samples} of {evidence.expected_samples}",
        },
    }
    if verdict.idle_since is not None:
        found["idle_since"] = format_time(verdict.idle_since)
    if verdict.parked:
        found["parked"] = True
    return found


def count(subjects: Collection[Subject], skips: Mapping[str, Skip]) -> None:
    """Feeds the gauges of a complete cycle."""
    pods: Counter[tuple[str, str, str]] = Counter()
    devices: Counter[str] = Counter()
    for subject in subjects:
        kind, reason = disposition(subject, skips.get(subject.pod.uid))
        pods[kind, reason, subject.ceiling.value] += 1
        devices[kind] += subject.devices if subject.holds_devices else 0
    metrics.PODS.clear()
    for (kind, reason, action), number in pods.items():
        metrics.PODS.labels(kind, reason, action).set(number)
    metrics.DEVICES.clear()
    for kind in VerdictKind:
        metrics.DEVICES.labels(kind.value).set(devices[kind.value])
    metrics.SKIPS.clear()
    for reason_, number in Counter(skip.reason.value for skip in skips.values()).items():
        metrics.SKIPS.labels(reason_).set(number)


def complete(now: datetime) -> None:
    """Notes that a cycle ended well."""
    metrics.CYCLES.labels("complete").inc()
    metrics.LAST_CYCLE.set(now.timestamp())
