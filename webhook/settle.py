"""Turns a plan into a patch that is proven to apply, to last and to be valid; pure, knows no request."""

from __future__ import annotations

from typing import Any

import msgspec

from policy.asking import Replacement
from policy.classes import ClassDecision, ControllerDecision
from policy.deadline import DeadlineDecision
from policy.spec import GPUPolicy
from policy.terms import Terms
from webhook.jobs import job_remarks, plan_job
from webhook.own import OwnJob, OwnMetadata, OwnPod
from webhook.patch import UnfitPatchError, annotations_bytes, encode_patch, make_patch
from webhook.pods import PodPlan, plan_pod, pod_remarks
from webhook.scene import Scene
from webhook.warnings import fit_warnings

SIGNATURE = "gpu-tenure: "
"""Begins every warning, so that people know who speaks."""


class Settled(msgspec.Struct, frozen=True):
    """All that follows from what a Scene, a policy and the own part of an object say.

    `patch` is encoded, and empty where nothing has to change; with `unfit` saying why it must not be sent.
    `growth` and `template_growth` are the bytes that annotations gain.
    """

    deadline: str | None
    terms: Terms | None = None
    patch: bytes = b""
    unfit: str | None = None
    warnings: tuple[str, ...] = ()
    replaced: tuple[Replacement, ...] = ()
    reasons: tuple[str, ...] = ()
    growth: int = 0
    template_growth: int = 0
    after: OwnPod | None = None


def settle_pod(own: OwnPod, decision: ClassDecision, policy: GPUPolicy, scene: Scene) -> Settled:
    """Settles a pod."""
    plan = plan_pod(own, decision, policy, scene)
    terms = plan.admitted.terms
    reasons = (
        _terms_sentence(terms, policy),
        *(str(replacement) for replacement in plan.admitted.replaced),
        deadline_sentence(plan.deadline),
        *requester_sentences(own.requester),
        *_scheduling_sentences(plan, policy, scene),
    )
    settled = Settled(
        deadline=str(plan.deadline.value),
        terms=terms,
        replaced=plan.admitted.replaced,
        reasons=reasons,
        growth=growth_of(own.metadata, plan.after.metadata),
        after=plan.after,
    )
    lasts = plan_pod(plan.after, decision, policy, scene).after == plan.after
    remarks = fit_warnings(SIGNATURE + remark for remark in pod_remarks(plan, policy, scene))
    return _with_patch(settled, _pod_document(own), _pod_document(plan.after), remarks, lasts=lasts)


def settle_job(own: OwnJob, controller: ControllerDecision, policy: GPUPolicy, scene: Scene) -> Settled:
    """Settles a Job."""
    plan = plan_job(own, controller, policy, scene)
    settled = Settled(
        deadline=str(plan.deadline.value),
        warnings=fit_warnings(SIGNATURE + remark for remark in job_remarks(plan, policy, scene)),
        reasons=(
            deadline_sentence(plan.deadline),
            *requester_sentences(own.requester),
        ),
        growth=growth_of(own.metadata, plan.after.metadata),
        template_growth=growth_of(own.template, plan.after.template),
    )
    lasts = plan_job(plan.after, controller, policy, scene).after == plan.after
    # The Job's creator is told what its pods get, whose own creator reads nothing: also if nothing changes.
    return _with_patch(settled, _job_document(own), _job_document(plan.after), settled.warnings, lasts=lasts)


def _with_patch(
    settled: Settled, before: dict[str, Any], after: dict[str, Any], remarks: tuple[str, ...], *, lasts: bool
) -> Settled:
    """Adds the patch and its warnings, or why there is none."""
    try:
        operations = make_patch(before, after)
    except UnfitPatchError as error:
        return msgspec.structs.replace(settled, unfit=str(error))
    if not operations:
        return settled
    if not lasts:
        return msgspec.structs.replace(settled, unfit="deciding again would change the object again")
    return msgspec.structs.replace(settled, patch=encode_patch(operations), warnings=remarks)


def _terms_sentence(terms: Terms, policy: GPUPolicy) -> str:
    """What policy and terms come to."""
    if terms.exempt:
        return f"policy {policy.name}: exempt"
    return f"policy {policy.name}: {terms.action} when {terms.describe()}, {terms.grace} after a warning"


def deadline_sentence(decision: DeadlineDecision) -> str:
    """What the deadline comes to."""
    if decision.effective is None:
        return f"deadline: {decision.value}"
    return f"deadline: {decision.value}, {decision.effective} s"


def requester_sentences(requester: str | None) -> tuple[str, ...]:
    """Who asked, where somebody is known."""
    return () if requester is None else (f"requested by {requester}",)


def _scheduling_sentences(plan: PodPlan, policy: GPUPolicy, scene: Scene) -> tuple[str, ...]:
    """What the policy sets of the pod's scheduling fields, and what it cannot set."""
    wanted = policy.scheduling.priority_class_name
    missing = wanted is not None and scene.priority_class is None
    return (
        *((f"scheduling: {', '.join(plan.scheduled)} set by the policy",) if plan.scheduled else ()),
        *((f"PriorityClass {wanted} does not exist, so none is set",) if missing else ()),
    )


def growth_of(before: OwnMetadata, after: OwnMetadata) -> int:
    """How many bytes annotations gain; negative if they lose."""
    return annotations_bytes(dict(after.annotations or ())) - annotations_bytes(
        dict(before.annotations or ())
    )


def _pod_document(own: OwnPod) -> dict[str, Any]:
    """The projection of a pod, in the shape of a pod."""
    scheduling = own.scheduling.document() if own.scheduling is not None else {}
    document: dict[str, Any] = {"spec": {**_spec(own.deadline), **scheduling}}
    if own.metadata.exists:
        document["metadata"] = own.metadata.document()
    return document


def _job_document(own: OwnJob) -> dict[str, Any]:
    """The projection of a Job, in the shape of a Job."""
    template: dict[str, Any] = {"spec": _spec(own.template_deadline)}
    if own.template.exists:
        template["metadata"] = own.template.document()
    document: dict[str, Any] = {"spec": {**_spec(own.deadline), "template": template}}
    if own.metadata.exists:
        document["metadata"] = own.metadata.document()
    return document


def _spec(deadline: int | None) -> dict[str, Any]:
    """The projection of a specification."""
    return {} if deadline is None else {"activeDeadlineSeconds": deadline}
