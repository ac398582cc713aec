"""Decides which pods admitted without terms get them now; knows no verdicts and writes no labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec import Struct, structs

from policy.asking import admitted_terms, asked_of, policy_terms
from policy.classes import ClassSettings, class_of
from policy.holding import ceiling
from policy.keys import Annotation, Enforcement, Label, enforcement_of
from policy.objects import Namespace
from policy.selection import PolicySet, select
from policy.spec import GPUPolicy
from policy.terms import Action, Terms, terms_to_labels, weakest
from policy.verdicts import Reason
from reaper.subjects import Subject
from reaper.survey import Rules


class Backfill(Struct, frozen=True):
    """Labels to be written on a pod, and the annotation that says which of them its user asked for."""

    subject: Subject
    labels: dict[str, str]
    annotations: dict[str, str]


def backfill_of(
    subject: Subject,
    first_seen: datetime | None,
    namespace: Namespace | None,
    policies: PolicySet,
    rules: Rules,
    now: datetime,
    trusted_controllers: Collection[str] = (),
) -> Backfill | None:
    """Gives the terms of a pod without any, once it has been seen for as long as they take to find it idle.

    Only where the reaper may write at all, and never where the policy observes. A pod older than its policy
    was created when nobody could know the rule: it is only ever warned about.
    """
    if subject.skip is not Reason.NO_TERMS or namespace is None or first_seen is None:
        return None
    if not subject.pod.certain:
        # Terms would vouch for claims that nobody has looked up.
        return None
    if enforcement_of(namespace.metadata.labels) is not Enforcement.ENABLED:
        return None
    labels = namespace.metadata.labels or {}
    policy = select(policies, subject.pod.namespace, labels).policy
    pod = subject.pod
    settings = ClassSettings(tuple(trusted_controllers), policy.classes.creators)
    pod_class = class_of(pod.pod, None, pod.namespace, settings).pod_class
    admitted = admitted_terms(policy, pod_class, pod.labels, pod.annotations).terms
    terms = _capped(admitted, policy, subject)
    allowed = ceiling(terms.action, Enforcement.ENABLED, rules.profile, dry_run=False)
    if policy.is_built_in or (allowed is Action.OBSERVE and not terms.exempt):
        return None
    if now - first_seen < terms.after.delta + terms.warm_up.delta:
        return None
    written: Mapping[str, str] = {
        Label.POLICY.value: policy.name,
        Label.CLASS.value: pod_class.value,
        **terms_to_labels(terms),
    }
    asked = ",".join(asked_of(terms, policy_terms(policy, pod_class)))
    return Backfill(subject, dict(written), {Annotation.ASKED.value: asked} if asked else {})


def _capped(terms: Terms, policy: GPUPolicy, subject: Subject) -> Terms:
    if policy.created is None or subject.pod.created >= policy.created:
        return terms
    return structs.replace(terms, action=weakest(terms.action, Action.WARN))
