"""Plans what a new GPU pod gets: terms, class, policy, deadline; pure, knows no request and no patch."""

from __future__ import annotations

import msgspec

from policy.asking import Admitted, admitted_terms
from policy.classes import ClassDecision
from policy.deadline import DeadlineDecision, DeadlineInput, pod_deadline
from policy.keys import REAPER_ONLY, TERM_LABELS, Annotation, Label
from policy.profile import is_enforcing
from policy.spec import GPUPolicy
from policy.terms import Action, terms_to_labels
from webhook.own import OWN_LABELS, READ_ANNOTATIONS, OwnMetadata, OwnPod, Pairs
from webhook.scene import Scene

_POLICY, _CLASS = str(Label.POLICY), str(Label.CLASS)
_DEADLINE, _SECONDS = str(Annotation.DEADLINE), str(Annotation.DEADLINE_SECONDS)
_ASKED = str(Annotation.ASKED)
_ACTS = {Action.EVICT: "evicts this pod", Action.STOP: "stops the owner of this pod"}


class PodPlan(msgspec.Struct, frozen=True):
    """A pod as it shall be, and the decisions that lead there."""

    after: OwnPod
    admitted: Admitted
    deadline: DeadlineDecision


def plan_pod(own: OwnPod, decision: ClassDecision, policy: GPUPolicy, scene: Scene) -> PodPlan:
    """Decides terms and deadline; planning the planned pod again changes nothing."""
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
    metadata = OwnMetadata(in_order(labels, OWN_LABELS), in_order(annotations, READ_ANNOTATIONS))
    seconds = own.deadline if deadline.seconds is None else deadline.seconds
    return PodPlan(OwnPod(metadata, seconds, own.queued), admitted, deadline)


def pod_remarks(plan: PodPlan, policy: GPUPolicy, scene: Scene) -> tuple[str, ...]:
    """What the creator of a pod should know, the most surprising first."""
    remarks = [str(replacement) for replacement in plan.admitted.replaced]
    if plan.deadline.warning is not None:
        remarks.append(plan.deadline.warning)
    terms = plan.admitted.terms
    acts = _ACTS.get(terms.action)
    if acts is not None and is_enforcing(scene.profile, scene.enforcement):
        remarks.append(f"policy {policy.name} {acts} once {terms.describe()}, {terms.grace} after a warning")
    return tuple(remarks)


def note_deadline(annotations: dict[str, str], value: str, seconds: int | None) -> None:
    """Writes the two annotations about a deadline, in place; `deadline-seconds` only where there is one."""
    annotations[_DEADLINE] = value
    annotations.pop(_SECONDS, None)
    if seconds is not None:
        annotations[_SECONDS] = str(seconds)


def in_order(values: dict[str, str], keys: tuple[str, ...]) -> Pairs:
    """The values by key in the order of `keys`, so that equal maps are equal pairs."""
    return tuple((key, values[key]) for key in keys if key in values)
