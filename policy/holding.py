"""What holds for a running pod, derived anew each time; reads no clock and trusts no label alone."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from policy.asking import (
    after_range,
    grace_range,
    parse_asked,
    policy_terms,
    wants_exemption,
)
from policy.classes import PodClass
from policy.durations import Duration, readable_time
from policy.errors import FieldError
from policy.keys import Annotation, Enforcement, Label, enforcement_of, short_name
from policy.memory import MemoryLimit
from policy.objects import Namespace, Pod
from policy.profile import Profile
from policy.selection import PolicySet
from policy.snooze import Snooze, snooze_of
from policy.spec import BUILT_IN, GPUPolicy
from policy.terms import Action, LabelledTerms, Statistic, Terms, read_labels, weakest
from policy.verdicts import Reason

_PROFILE_CEILING: Final = {
    Profile.OBSERVE: Action.OBSERVE,
    Profile.WARN: Action.WARN,
    Profile.ENFORCE: Action.STOP,
}


class Holding(Struct, frozen=True):
    """What holds for one pod now.

    `terms` have the action that policy and labels allow, before any ceiling. `skip` says why the pod is not
    judged at all (Exempt, OptedOut); `observed` why its action is only `observe` (NoTerms, PolicyMissing,
    PolicyInvalid). `policy` is the policy's name as the pod's label has it, empty without one; `current` is
    that policy as it is today, the built-in one where it cannot be used. `exempt_until` is set for a pod
    that asked to be exempt while its policy allows it for a time. `problems` are sentences about labels and
    annotations that could not count.
    """

    terms: Terms
    policy: str
    current: GPUPolicy
    pod_class: PodClass
    enforcement: Enforcement
    skip: Reason | None = None
    observed: Reason | None = None
    exempt_until: datetime | None = None
    snooze: Snooze = Snooze()
    asked: frozenset[str] = frozenset()
    problems: tuple[FieldError, ...] = ()

    @property
    def snooze_until(self) -> datetime | None:
        """Until when a user's snooze keeps the pod."""
        return self.snooze.until


def holding_terms(
    pod: Pod, policies: PolicySet, namespace: Namespace, *, now: datetime, idle_since: datetime | None = None
) -> Holding:
    """What holds for a pod at `now`, from its labels, its policy as it is today, and its namespace.

    `idle_since` bounds snoozes; where it is None the pod's own annotation counts.
    """
    meta = pod.metadata
    labels, annotations = meta.labels or {}, meta.annotations or {}
    name = labels.get(Label.POLICY, "")
    policy, observed = _current_policy(name, policies)
    pod_class = _class_of(labels.get(Label.CLASS))
    found, problems = read_labels(labels)
    if observed is None and (pod_class is None or found.missing):
        observed = Reason.NO_TERMS
    known_class = pod_class or PodClass.SERVING
    asked = parse_asked(annotations)
    terms = held_terms(found, policy_terms(policy, known_class), policy, asked)
    if observed is not None:
        terms = msgspec.structs.replace(terms, action=Action.OBSERVE)
    enforcement = enforcement_of(namespace.metadata.labels)
    exempt_until = (
        exemption_end(policy, meta.creation_timestamp) if wants_exemption(labels, annotations) else None
    )
    is_exempt = exempt_until is not None and now < exempt_until
    skip = Reason.OPTED_OUT if enforcement is Enforcement.DISABLED else Reason.EXEMPT if is_exempt else None
    since = idle_since or readable_time(annotations.get(Annotation.IDLE_SINCE))
    snooze = snooze_of(annotations.get(Annotation.KEEP_UNTIL), now, since, policy.bounds.keep_until)
    return Holding(
        terms=terms,
        policy=name,
        current=policy,
        pod_class=known_class,
        enforcement=enforcement,
        skip=skip,
        observed=observed,
        exempt_until=exempt_until,
        snooze=snooze,
        asked=asked,
        problems=problems,
    )


def ceiling(action: Action, enforcement: Enforcement, profile: Profile, *, dry_run: bool) -> Action:
    """The most that may be done: the weakest of the action, the namespace, the profile and the flag."""
    namespace = Action.STOP if enforcement is Enforcement.ENABLED else Action.OBSERVE
    flag = Action.OBSERVE if dry_run else Action.STOP
    return weakest(action, namespace, _PROFILE_CEILING[profile], flag)


def held_terms(found: LabelledTerms, today: Terms, policy: GPUPolicy, asked: frozenset[str]) -> Terms:
    """Per field the milder of the label and today's value; what was asked is held to today's bounds instead.

    A field without a readable label has today's value.
    """
    milder = milder_terms(found, today)
    if not asked:
        return milder

    def is_asked(label: Label) -> bool:
        return short_name(label) in asked

    action, after, grace = milder.action, milder.after, milder.grace
    if is_asked(Label.IDLE_ACTION):
        # A user may ask for something stronger than the policy; an exemption that ended leaves today's value.
        action = today.action if found.exempt or found.action is None else found.action
    if is_asked(Label.IDLE_AFTER) and found.after is not None:
        after = after_range(policy.bounds, today).clamp(found.after)
    if is_asked(Label.IDLE_GRACE) and found.grace is not None:
        grace = grace_range(policy.bounds, today).clamp(found.grace)
    return msgspec.structs.replace(milder, action=action, after=after, grace=grace)


def milder_terms(found: LabelledTerms, today: Terms) -> Terms:
    """Per field the milder: lower action, longer times, lower utilization, `maximum`, smaller memory."""
    action = today.action
    if found.action is not None and not found.exempt:
        action = weakest(found.action, today.action)
    either_maximum = Statistic.MAXIMUM in {found.statistic, today.statistic}
    return Terms(
        action=action,
        after=_longer(found.after, today.after),
        utilization=min(found.utilization or today.utilization, today.utilization),
        statistic=Statistic.MAXIMUM if either_maximum else Statistic.AVERAGE,
        memory=milder_memory(found.memory, today.memory),
        grace=_longer(found.grace, today.grace),
        warm_up=_longer(found.warm_up, today.warm_up),
        of=today.of,
        never_touched=today.never_touched,
    )


def milder_memory(label: MemoryLimit | None, today: MemoryLimit | None) -> MemoryLimit | None:
    """The smaller limit; any is milder than none.

    An absolute and a relative one cannot be compared without the device: what the pod was admitted with
    stays.
    """
    if label is None or today is None:
        return label or today
    if label.bytes is not None and today.bytes is not None:
        return label if label.bytes <= today.bytes else today
    if label.percent is not None and today.percent is not None:
        return label if label.percent <= today.percent else today
    return label


def exemption_end(policy: GPUPolicy, created: str | None) -> datetime | None:
    """Until when a pod created then may be exempt under a policy; None is never."""
    limit = policy.bounds.exemption.limit
    start = readable_time(created)
    if limit is None or start is None:
        return None
    try:
        return start + limit.delta
    except OverflowError:
        return None


def _current_policy(name: str, policies: PolicySet) -> tuple[GPUPolicy, Reason | None]:
    """The policy that a pod's label names, or the built-in one and why."""
    if not name:
        return BUILT_IN, Reason.NO_TERMS
    policy = policies.get(name)
    if policy is not None:
        return policy, None
    return BUILT_IN, Reason.POLICY_INVALID if name in policies.invalid else Reason.POLICY_MISSING


def _class_of(label: str | None) -> PodClass | None:
    """The class that a label names."""
    try:
        return PodClass(label or "")
    except ValueError:
        return None


def _longer(label: Duration | None, today: Duration) -> Duration:
    """The longer of two; the label's text where they are equal."""
    return today if label is None or label < today else label
