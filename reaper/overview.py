"""All GPU pods as `gpu-tenure status` shows them: who, what, how long idle, what is next; pure.

The rows come from the planner itself: what it would do with these verdicts, and why it would not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct

from policy.durations import format_time, readable_time
from policy.keys import Annotation, Enforcement, Label, enforcement_of
from policy.objects import Namespace
from policy.terms import EXEMPT, Action
from policy.verdicts import REASONS, Reason, VerdictKind
from reaper.limits import Limits
from reaper.outlook import Ceiling
from reaper.plan import Plan, plan
from reaper.records import Record
from reaper.situation import Situation
from reaper.steps import Change, Skip, Step
from reaper.subjects import Subject
from reaper.survey import is_judged
from reaper.switches import Switch, Switches, decides

HELD = frozenset(
    {
        Reason.PAUSED,
        Reason.BRAKE,
        Reason.OUTSIDE_WINDOW,
        Reason.LIMIT_REACHED,
        Reason.DISRUPTION_BUDGET,
        Reason.BACKING_OFF,
        Reason.QUIET_TIME,
    }
)
"""Why something that is due does not happen now; it happens later. Whether pods will wait nobody knows."""

ORDER = (VerdictKind.IDLE, VerdictKind.UNKNOWN, None, VerdictKind.ACTIVE, VerdictKind.SKIPPED)


class Next(StrEnum):
    """What comes next."""

    NOTHING = "nothing"
    JUDGE = "judge"
    WARN = "warn"
    EVICT = "evict"
    STOP = "stop"


class Told(Struct, frozen=True):
    """The last Event of the reaper on a pod."""

    reason: str
    note: str
    at: datetime


class Row(Struct, frozen=True, kw_only=True):
    """One pod.

    Attributes:
        subject: The pod with its terms and verdict.
        reason: Why the verdict is what it is; None without one.
        idle_since: The start of its idle stretch; None if it is not idle.
        skip: Why nothing is done although it is idle, or why it is not judged; None if neither.
        sentence: How the verdict is known, or why nothing is done.
        switch: Which switch decides how far the reaper goes,
        most: and how far that is.
        next_step: What comes next,
        next_at: and when; None for the next cycle, or if nobody knows.
        exempt: Whether it is exempt, or asks to be.
        exempt_until: Until when it is exempt.
        deadline_at: When its deadline ends it; None without one, or before it starts.
        told: What the reaper last told of it.
    """

    subject: Subject
    reason: Reason | None = None
    idle_since: datetime | None = None
    skip: Reason | None = None
    sentence: str = ""
    switch: Switch = Switch.TERMS
    most: Action = Action.OBSERVE
    next_step: Next = Next.NOTHING
    next_at: datetime | None = None
    exempt: bool = False
    exempt_until: datetime | None = None
    deadline_at: datetime | None = None
    told: Told | None = None

    @property
    def kind(self) -> VerdictKind | None:
        """The verdict; Skipped if it is not judged at all, None if nobody has judged it here."""
        verdict = self.subject.verdict
        if verdict is not None:
            return verdict.kind
        return None if is_judged(self.subject) else VerdictKind.SKIPPED

    def waste(self, now: datetime) -> float:
        """Gives the device-seconds that it has been idle for."""
        return (now - self.idle_since).total_seconds() * self.subject.devices if self.idle_since else 0.0


class Look(Struct, frozen=True, kw_only=True):
    """Everything around the pods.

    Attributes:
        records: What was done before.
        situation: Pause, brake and the like.
        switches: What the installation is set to.
        namespaces: Namespaces by name, as far as they could be read.
        exempt_until: Until when pods are exempt, by UID.
        events: What the reaper last told of pods, by UID.
    """

    records: Collection[Record]
    situation: Situation
    switches: Switches
    namespaces: Mapping[str, Namespace]
    exempt_until: Mapping[str, datetime] = {}
    events: Mapping[str, Told] = {}


class _Coming(Struct, frozen=True, kw_only=True):
    """What the planner would do, by UID: looked up once for each of thousands of pods."""

    skips: Mapping[str, Skip]
    steps: Mapping[str, Step]
    actions: Mapping[str, Action]
    ceilings: Mapping[str, Ceiling]
    hold: Reason | None
    quiet_until: datetime | None

    @staticmethod
    def of(planned: Plan, quiet_until: datetime | None) -> _Coming:
        return _Coming(
            skips={one.subject.pod.uid: one for one in reversed(planned.skips)},
            steps={one.subject.pod.uid: one for one in reversed(planned.steps)},
            actions={uid: group.action for group in planned.actions for uid in group.uids},
            ceilings=planned.ceilings,
            hold=planned.holds[0].reason if planned.holds else None,
            quiet_until=quiet_until,
        )


def rows_of(subjects: Collection[Subject], look: Look, limits: Limits, now: datetime) -> list[Row]:
    """Gives one row per pod, the most waste first."""
    situation = look.situation
    coming = _Coming.of(plan(subjects, look.records, situation, limits, now), situation.quiet_until)
    found = [_row(one, coming, look, now) for one in subjects]
    return sorted(
        found,
        key=lambda row: (-row.waste(now), ORDER.index(row.kind), -row.subject.devices, row.subject.key),
    )


def _row(subject: Subject, coming: _Coming, look: Look, now: datetime) -> Row:
    uid = subject.pod.uid
    skip = coming.skips.get(uid)
    reason = skip.reason if skip else None
    namespace = look.namespaces.get(subject.pod.namespace)
    enforcement = enforcement_of(namespace.metadata.labels) if namespace else Enforcement.ENABLED
    terms_action = subject.terms.action if subject.terms else Action.OBSERVE
    switch, most = decides(terms_action, enforcement, look.switches, subject.skip, coming.hold)
    next_step, next_at = _next(subject, reason, coming, now)
    verdict = subject.verdict
    return Row(
        subject=subject,
        reason=verdict.reason if verdict else reason,
        idle_since=_idle_since(subject),
        skip=reason,
        sentence=(skip.sentence if skip and skip.sentence else "") or _sentence(subject, reason),
        switch=switch,
        most=most,
        next_step=next_step,
        next_at=next_at,
        exempt=subject.pod.labels.get(Label.IDLE_ACTION) == EXEMPT or subject.skip is Reason.EXEMPT,
        exempt_until=look.exempt_until.get(uid),
        deadline_at=deadline_of(subject),
        told=look.events.get(uid),
    )


def _idle_since(subject: Subject) -> datetime | None:
    if not subject.idle or subject.verdict is None:
        return None
    starts = [subject.verdict.idle_since, subject.mark.idle_since if subject.mark else None]
    return min((start for start in starts if start is not None), default=None)


def _sentence(subject: Subject, reason: Reason | None) -> str:
    verdict = subject.verdict
    if verdict is not None and (verdict.sentence or reason is None):
        return verdict.sentence or REASONS[verdict.reason]
    return REASONS[reason] if reason else ""


def _next(
    subject: Subject, reason: Reason | None, coming: _Coming, now: datetime
) -> tuple[Next, datetime | None]:
    """What comes next, and when, as far as verdicts stay as they are."""
    uid = subject.pod.uid
    step, action, ceiling = coming.steps.get(uid), coming.actions.get(uid), coming.ceilings.get(uid)
    mark = step.mark if step is not None and step.mark is not None else subject.mark
    if action is not None:
        return Next(action.value), None
    if step is not None and step.change is Change.WARN:
        return Next.WARN, None
    if reason is Reason.NOT_CONFIRMED:
        return Next.WARN, None
    if subject.skip is Reason.EXEMPT:
        return Next.NOTHING, None
    if subject.verdict is not None and subject.verdict.reason is Reason.TOO_YOUNG:
        return Next.JUDGE, _judged_from(subject)
    quiet = coming.quiet_until if reason is Reason.QUIET_TIME else None
    if quiet is not None and (mark is None or not mark.warned):
        return Next.WARN, quiet
    if not subject.idle or mark is None or not mark.warned or mark.reclaim_at is None:
        return Next.NOTHING, None
    if ceiling is None or not ceiling.acts:
        return Next.NOTHING, None
    if reason in {Reason.WITHIN_GRACE, Reason.SNOOZED} or reason in HELD:
        return Next(ceiling.action.value), max(mark.reclaim_at, quiet or now, now)
    return Next.NOTHING, None


def _judged_from(subject: Subject) -> datetime | None:
    terms, started = subject.terms, subject.pod.containers_started
    return started + terms.after.delta + terms.warm_up.delta if terms and started else None


def deadline_of(subject: Subject) -> datetime | None:
    """Gives when the kubelet ends the pod; a Job's own deadline is not looked at."""
    pod = subject.pod.pod
    started = readable_time(pod.status.start_time if pod.status else None)
    seconds = pod.spec.active_deadline_seconds
    if started is None or not seconds:
        return None
    try:
        return started + timedelta(seconds=seconds)
    except OverflowError:
        return None


def document(row: Row, now: datetime) -> dict[str, Any]:
    """One row as docs/status.md has it."""
    subject, verdict = row.subject, row.subject.verdict
    pod, terms, evidence = subject.pod, subject.terms, verdict.evidence if verdict else None
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "node": pod.node,
        "owner": {"kind": subject.root.kind, "name": subject.root.name},
        "requester": pod.annotations.get(Annotation.REQUESTED_BY),
        "class": pod.labels.get(Label.CLASS),
        "policy": pod.labels.get(Label.POLICY),
        "devices": subject.devices,
        "verdict": row.kind.value if row.kind else None,
        "reason": row.reason.value if row.reason else None,
        "sentence": row.sentence,
        "utilization": evidence.maximum if evidence else None,
        "memoryBytes": evidence.memory if evidence else None,
        "parked": bool(verdict and verdict.parked),
        "idleSince": _time(row.idle_since),
        "idleSeconds": round((now - row.idle_since).total_seconds()) if row.idle_since else None,
        "terms": terms.describe() if terms else None,
        "action": terms.action.value if terms else None,
        "switch": row.switch.value,
        "most": row.most.value,
        "skip": row.skip.value if row.skip else None,
        "next": {"step": row.next_step.value, "at": _time(row.next_at)},
        "keptUntil": _time(subject.snooze.until),
        "exempt": row.exempt,
        "exemptUntil": _time(row.exempt_until),
        "deadlineAt": _time(row.deadline_at),
        "lastEvent": _told(row.told) if row.told else None,
    }


def _told(told: Told) -> dict[str, Any]:
    return {"reason": told.reason, "note": told.note, "at": format_time(told.at)}


def _time(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)
