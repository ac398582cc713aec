"""Plans what a new GPU pod gets: terms, class, policy, deadline; pure, knows no request and no patch."""

from __future__ import annotations

import msgspec

from policy.asking import Admitted, admitted_terms
from policy.classes import ClassDecision, PodClass
from policy.deadline import DeadlineDecision, DeadlineInput, KueueDecision, kueue_limit, pod_deadline
from policy.keys import KUEUE_MAX_EXEC_TIME, REAPER_ONLY, TERM_LABELS, Annotation, Label
from policy.profile import is_enforcing
from policy.spec import GPUPolicy
from policy.terms import Action, Terms, terms_to_labels
from webhook.own import OWN_LABELS, READ_ANNOTATIONS, OwnMetadata, OwnPod, Pairs
from webhook.scene import Scene
from webhook.scheduling import OwnScheduling, changes, plan_scheduling

_POLICY, _CLASS = str(Label.POLICY), str(Label.CLASS)
_DEADLINE, _SECONDS = str(Annotation.DEADLINE), str(Annotation.DEADLINE_SECONDS)
_ASKED = str(Annotation.ASKED)
_REQUESTED_BY = str(Annotation.REQUESTED_BY)
_ACTS = {Action.EVICT: "evicts {}", Action.STOP: "stops the owner of {}"}


class PodPlan(msgspec.Struct, frozen=True):
    """A pod as it shall be, and the decisions that lead there; `scheduled` names the fields that are set."""

    after: OwnPod
    admitted: Admitted
    deadline: DeadlineDecision
    kueue: KueueDecision = KueueDecision()
    scheduled: tuple[str, ...] = ()


def plan_pod(own: OwnPod, decision: ClassDecision, policy: GPUPolicy, scene: Scene) -> PodPlan:
    """Decides terms, deadline, requester and scheduling; planning the planned pod again changes nothing."""
    labels, annotations = dict(own.metadata.labels or ()), dict(own.metadata.annotations or ())
    admitted = admitted_terms(policy, decision.pod_class, labels, annotations)
    deadline = pod_deadline(
        DeadlineInput(
            policy=policy,
            enforcing=is_enforcing(scene.profile, scene.enforcement),
            spec_seconds=own.deadline,
            existing=annotations.get(_DEADLINE),
            existing_seconds=annotations.get(_SECONDS),
            kueue=own.queued,
            scoped_quota=scene.scoped_quota,
        ),
        decision,
    )
    for label in TERM_LABELS:
        labels.pop(label, None)
    labels |= {_POLICY: policy.name, _CLASS: decision.pod_class.value, **terms_to_labels(admitted.terms)}
    for annotation in (*REAPER_ONLY, _ASKED):
        annotations.pop(annotation, None)
    if admitted.asked:
        annotations[_ASKED] = ",".join(admitted.asked)
    note_deadline(annotations, deadline.value, deadline.effective)
    note_requester(annotations, own.requester)
    kueue = KueueDecision()
    if own.queued and decision.controller is None and decision.pod_class is PodClass.BATCH:
        kueue = note_kueue_limit(labels, policy, scene)
    scheduling = _planned_scheduling(own, policy, scene)
    metadata = OwnMetadata(in_order(labels, OWN_LABELS), in_order(annotations, READ_ANNOTATIONS))
    seconds = own.deadline if deadline.seconds is None else deadline.seconds
    after = OwnPod(metadata, seconds, own.queued, own.requester, scheduling)
    scheduled = changes(own.scheduling, scheduling) if own.scheduling and scheduling else ()
    return PodPlan(after, admitted, deadline, kueue, scheduled)


def _planned_scheduling(own: OwnPod, policy: GPUPolicy, scene: Scene) -> OwnScheduling | None:
    """The scheduling fields as they shall be, None where they are not ours to touch."""
    if own.scheduling is None:
        return None
    return plan_scheduling(own.scheduling, policy.scheduling, scene.priority_class, scene.default_class)


def pod_remarks(plan: PodPlan, policy: GPUPolicy, scene: Scene) -> tuple[str, ...]:
    """What the creator of a pod should know, the most surprising first."""
    remarks = [str(replacement) for replacement in plan.admitted.replaced]
    remarks += [told for told in (plan.deadline.warning, plan.kueue.warning) if told is not None]
    remarks += acting_remarks(plan.admitted.terms, policy, scene, "this pod")
    if plan.scheduled:
        remarks.append(f"policy {policy.name} sets {', '.join(plan.scheduled)} of this pod")
    return tuple(remarks)


def acting_remarks(terms: Terms, policy: GPUPolicy, scene: Scene, whom: str) -> tuple[str, ...]:
    """Says that something will act on `whom`, where it will."""
    acts = _ACTS.get(terms.action)
    if acts is None or terms.exempt or not is_enforcing(scene.profile, scene.enforcement):
        return ()
    idle = f"once {terms.describe()}, {terms.grace} after a warning"
    return (f"policy {policy.name} {acts.format(whom)} {idle}",)


def note_requester(annotations: dict[str, str], requester: str | None) -> None:
    """Writes who asked, in place; whatever somebody else wrote there goes."""
    annotations.pop(_REQUESTED_BY, None)
    if requester is not None:
        annotations[_REQUESTED_BY] = requester


def note_kueue_limit(labels: dict[str, str], policy: GPUPolicy, scene: Scene) -> KueueDecision:
    """Writes the limit that Kueue enforces, in place, by the rule of deadlines."""
    enforcing = is_enforcing(scene.profile, scene.enforcement)
    decision = kueue_limit(labels.get(KUEUE_MAX_EXEC_TIME), policy, enforcing=enforcing)
    if decision.value is not None:
        labels[KUEUE_MAX_EXEC_TIME] = decision.value
    return decision


def note_deadline(annotations: dict[str, str], value: str, seconds: int | None) -> None:
    """Writes the two annotations about a deadline, in place; `deadline-seconds` only where there is one."""
    annotations[_DEADLINE] = value
    annotations.pop(_SECONDS, None)
    if seconds is not None:
        annotations[_SECONDS] = str(seconds)


def in_order(values: dict[str, str], keys: tuple[str, ...]) -> Pairs:
    """The values by key in the order of `keys`, so that equal maps are equal pairs."""
    return tuple((key, values[key]) for key in keys if key in values)
