"""Makes subjects for a person's look from what they may read; must not know where anything was read.

Where policies are not readable, the pod's own labels count; where nobody judges, what the reaper wrote on it.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, structs

from policy.asking import wants_exemption
from policy.holding import ceiling, exemption_end
from policy.keys import Annotation, Enforcement, Label, enforcement_of
from policy.objects import Namespace, ObjectMeta
from policy.profile import Profile
from policy.selection import PolicySet
from policy.snooze import snooze_of
from policy.terms import Action, terms_from_labels
from policy.verdicts import Reason, VerdictKind
from reaper.evidence import Evidence, Verdict
from reaper.limits import Limits
from reaper.marks import mark_of
from reaper.owners import Root
from reaper.pods import GpuPod
from reaper.subjects import Subject
from reaper.survey import Rules, is_judged, survey
from reaper.switches import Switches

WRITTEN = "as the reaper wrote on the pod"


class Readable(Struct, frozen=True, kw_only=True):
    """What could be read beside pods.

    Attributes:
        policies: None if they may not be read.
        namespaces: By name; those that may not be read are missing.
        switches: What the installation is set to, as far as that was readable.
        snooze_seconds: The longest snooze from now.
    """

    policies: PolicySet | None
    namespaces: dict[str, Namespace]
    switches: Switches = Switches()
    snooze_seconds: int = Limits().snooze_seconds

    @property
    def rules(self) -> Rules:
        """The settings that say what holds; a profile that nobody could read limits nothing."""
        return Rules(
            profile=self.switches.profile or Profile.ENFORCE,
            excluded_namespaces=self.switches.excluded_namespaces or (),
            snooze_seconds=self.snooze_seconds,
        )


def glanced(pod: GpuPod, root: Root, readable: Readable, now: datetime) -> Subject:
    """Gives a pod with what holds for it, as far as that can be told, and without a verdict."""
    mark = mark_of(pod)
    namespace = readable.namespaces.get(pod.namespace) or Namespace(ObjectMeta(name=pod.namespace))
    if readable.policies is not None:
        found = survey(pod, root, mark, namespace, readable.policies, readable.rules, now)
    else:
        bare = survey(pod, root, mark, namespace, PolicySet(), readable.rules, now)
        found = _by_labels(bare, namespace, readable.rules, now)
    return structs.replace(found, ceiling=Action.OBSERVE) if readable.switches.dry_run else found


def _by_labels(subject: Subject, namespace: Namespace, rules: Rules, now: datetime) -> Subject:
    """Takes the labels for what holds: nobody here knows what the policy says today."""
    if subject.skip not in {Reason.POLICY_MISSING, Reason.NO_TERMS, None}:
        return subject
    terms, _ = terms_from_labels(subject.pod.labels)
    if terms is None:
        return structs.replace(subject, skip=Reason.NO_TERMS)
    since = subject.mark.idle_since if subject.mark else None
    asked = subject.pod.annotations.get(Annotation.KEEP_UNTIL)
    snooze = snooze_of(asked, now, since, None, rules.snooze_seconds)
    enforcement = enforcement_of(namespace.metadata.labels)
    dry = Reason.DRY_RUN if enforcement is Enforcement.DRY_RUN else None
    most = ceiling(terms.action, enforcement, rules.profile, dry_run=False)
    skip = Reason.EXEMPT if terms.exempt else dry
    return structs.replace(subject, terms=terms, ceiling=most, skip=skip, snooze=snooze)


def with_verdict(subject: Subject, verdict: Verdict | None, limits: Limits) -> Subject:
    """Adds a verdict; without one that which the reaper's mark stands for, if there is a mark."""
    if not is_judged(subject) or subject.terms is None:
        return subject
    if verdict is None and subject.mark is not None:
        terms = subject.terms
        evidence = Evidence(terms.after.seconds, terms.utilization, terms.statistic.value, subject.devices)
        since = subject.mark.idle_since
        verdict = Verdict(VerdictKind.IDLE, Reason.BELOW_THRESHOLD, since, False, evidence, WRITTEN)
    return structs.replace(subject, verdict=verdict, streak=limits.idle_verdicts)


def exempt_until(pod: GpuPod, policies: PolicySet | None) -> datetime | None:
    """Gives until when a pod is exempt; None if it is not, or if nobody can tell."""
    labels, annotations = pod.labels, pod.annotations
    policy = policies.get(labels.get(Label.POLICY, "")) if policies else None
    if policy is None or not wants_exemption(labels, annotations):
        return None
    return exemption_end(policy, pod.pod.metadata.creation_timestamp)
