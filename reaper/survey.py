"""Says of one pod what holds for it, before its use is known; must not know Prometheus or other pods."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct, structs

from policy import defaults
from policy.holding import Holding, ceiling, holding_terms
from policy.keys import Annotation, Enforcement
from policy.objects import Namespace
from policy.profile import Profile
from policy.selection import PolicySet
from policy.snooze import snooze_of
from policy.spec import ActWindow
from policy.verdicts import Reason
from reaper.evidence import Verdict
from reaper.marks import Mark
from reaper.memory import Seen
from reaper.owners import Root
from reaper.pods import GpuPod
from reaper.subjects import Subject

JUDGED_SKIPS = frozenset({None, Reason.DRY_RUN})
"""Skips of pods that are judged all the same, so that people see what would happen."""


class Rules(Struct, frozen=True, kw_only=True):
    """The settings that say what holds.

    Attributes:
        profile: How far the installation goes.
        excluded_namespaces: Namespaces left alone.
        snooze_seconds: The longest snooze from now.
        apart_seconds: Verdicts that are closer than this count as one: a hint brings no warning forward.
    """

    profile: Profile
    excluded_namespaces: Collection[str] = ()
    snooze_seconds: int = defaults.SNOOZE_SECONDS
    apart_seconds: float = 0


def survey(
    pod: GpuPod,
    root: Root,
    mark: Mark | None,
    namespace: Namespace | None,
    policies: PolicySet,
    rules: Rules,
    now: datetime,
) -> Subject:
    """Gives a pod without its verdict."""
    skip = _plain_skip(pod, rules)
    if skip is not None or namespace is None:
        return Subject(pod=pod, root=root, mark=mark, skip=skip or Reason.NAMESPACE_UNKNOWN)
    held = holding_terms(pod.pod, policies, namespace, now=now, idle_since=mark.idle_since if mark else None)
    subject = Subject(
        pod=pod,
        root=root,
        policy=held.current,
        terms=held.terms,
        ceiling=ceiling(held.terms.action, held.enforcement, rules.profile, dry_run=False),
        skip=_held_skip(held),
        mark=mark,
        may_act_now=is_open(held.current.act_window, now),
    )
    return _snoozed(subject, rules, now)


def judged(subject: Subject, verdict: Verdict, before: Seen, rules: Rules, now: datetime) -> Subject:
    """Adds the verdict, and what this process knew of the pod before it."""
    after = before.after(verdict, now, rules.apart_seconds)
    added = structs.replace(subject, verdict=verdict, last_idle=before.last_idle, streak=after.streak)
    return _snoozed(added, rules, now)


def is_judged(subject: Subject) -> bool:
    """True if Prometheus is asked about the pod."""
    return subject.skip in JUDGED_SKIPS and subject.terms is not None


def is_open(window: ActWindow | None, now: datetime) -> bool:
    """True if the policy lets the reaper act at this time; a zone that is not known here is closed."""
    if window is None:
        return True
    try:
        return window.is_open(now.astimezone(ZoneInfo(window.time_zone)))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def _plain_skip(pod: GpuPod, rules: Rules) -> Reason | None:
    if pod.finished:
        return Reason.FINISHED
    if pod.deleting:
        return Reason.TERMINATING
    if pod.namespace in rules.excluded_namespaces:
        return Reason.EXCLUDED
    return Reason.PLACEHOLDER if pod.priority < 0 else None


def _held_skip(held: Holding) -> Reason | None:
    if held.skip is not None:
        return held.skip
    if held.observed is not None:
        return held.observed
    return Reason.DRY_RUN if held.enforcement is Enforcement.DRY_RUN else None


def _snoozed(subject: Subject, rules: Rules, now: datetime) -> Subject:
    starts = [
        start
        for start in (
            subject.mark.idle_since if subject.mark else None,
            subject.verdict.idle_since if subject.verdict else None,
        )
        if start is not None
    ]
    asked = subject.pod.annotations.get(Annotation.KEEP_UNTIL)
    bound = subject.policy.bounds.keep_until
    # A snooze ends at a fixed time after the stretch began, so the earliest known start counts.
    snooze = snooze_of(asked, now, min(starts, default=None), bound, rules.snooze_seconds)
    return structs.replace(subject, snooze=snooze)
