"""Checks a pod right before it is stored: are its terms there, and within its policy? Pure but for stages.

Missing terms mean that the mutating webhook was not reached, or that others changed the pod afterwards; the
reaper completes and clamps them, so they refuse nothing unless the policy says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from policy.keys import Annotation, Label, short_name
from webhook.admission import left_alone
from webhook.answers import Denied, RefusedBy
from webhook.decision import Decision, Outcome
from webhook.images import images_stage
from webhook.own import OwnPod, own_pod
from webhook.review import POD, Request
from webhook.scene import AdmissionSettings, World
from webhook.stages import PASSED, Checked, Finding, Stage, run_stages
from webhook.subject import UPDATE, Memory, annotations_of, classify, find_subject, settled_pod, subject_of

DEADLINE = short_name(Annotation.DEADLINE)
IMAGE_PLACES = ("", "ephemeralcontainers")
"""Subresources of pods by which images change: the pod itself, and its ephemeral containers."""
_RECORDS = (str(Label.POLICY), str(Label.CLASS))


async def validate(
    request: Request,
    world: World,
    settings: AdmissionSettings,
    memory: Memory,
    stages: Sequence[Stage],
) -> Decision:
    """Decides about a created pod, or one whose images change; anything else is admitted as it is."""
    if request.kind != POD or request.object is None:
        return left_alone(Outcome.NOT_OURS)
    changes = request.operation == UPDATE and request.sub_resource in IMAGE_PLACES
    find = subject_of if changes else find_subject
    annotations = annotations_of(request.object)
    subject = find(request, request.object.spec, world, settings, memory, annotations)
    if isinstance(subject, Outcome):
        return left_alone(subject)
    if changes:
        stages = (images_stage,)
    pod = request.object.pod()
    decision = classify(subject, pod, settings)
    summary = await run_stages(stages, Checked(subject, pod, decision))
    refused = isinstance(summary.answer, Denied)
    return Decision(
        outcome=Outcome.REFUSED if refused else Outcome.CHECKED,
        answer=summary.answer,
        devices=subject.devices,
        pod_class=decision.pod_class,
        policy=subject.selected.policy.name,
        missing=summary.missing,
        exceeding=summary.exceeding,
        reasons=(summary.answer.message,) if isinstance(summary.answer, Denied) else (),
    )


def terms_stage(memory: Memory) -> Stage:
    """The first stage: terms that are missing, or that exceed the policy."""

    async def check(checked: Checked) -> Finding:
        return check_terms(checked, memory)

    return check


def check_terms(checked: Checked, memory: Memory) -> Finding:
    """Compares the pod with what admission would make of it now."""
    settled = settled_pod(checked.subject, checked.pod, checked.decision, memory)
    if settled.after is None or not settled.patch:
        return PASSED
    before = own_pod(checked.pod)
    missing, exceeding = _missing(before, settled.after), _exceeding(before, settled.after)
    policy = checked.subject.selected.policy
    remarks: list[str] = []
    refusal = None
    if missing:
        lacking = ", ".join(missing)
        if policy.require_terms:
            refusal = Denied(
                f"GPUPolicy {policy.name} requires idle terms on GPU pods, and this pod lacks {lacking}: "
                "the webhook that writes them was not reached. Create the pod again.",
                RefusedBy.TERMS,
            )
        else:
            remarks.append(f"this GPU pod lacks {lacking}; policy {policy.name} applies all the same")
    if exceeding:
        beyond = ", ".join(exceeding)
        remarks.append(f"{beyond} of this pod exceed policy {policy.name}, whose limits apply all the same")
    return Finding(refusal, tuple(remarks), missing, exceeding)


def _missing(before: OwnPod, after: OwnPod) -> tuple[str, ...]:
    """Short names of the terms that are absent."""
    present = dict(before.metadata.labels or ())
    return tuple(short_name(key) for key, _ in after.metadata.labels or () if key not in present)


def _exceeding(before: OwnPod, after: OwnPod) -> tuple[str, ...]:
    """Short names of the terms that differ from what is admitted."""
    admitted = dict(after.metadata.labels or ())
    names = [
        short_name(key)
        for key, value in before.metadata.labels or ()
        if admitted.get(key) != value and key not in _RECORDS
    ]
    raised = before.deadline is not None and before.deadline != after.deadline
    return (*names, DEADLINE) if raised else tuple(names)
