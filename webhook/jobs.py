"""Plans what a new Job of GPU pods gets: its deadline, and the marks on its template; pure."""

from __future__ import annotations

import msgspec

from policy.asking import Admitted, admitted_terms
from policy.classes import ControllerDecision, PodClass
from policy.deadline import DeadlineDecision, DeadlineInput, KueueDecision, job_deadline, template_mark
from policy.keys import KUEUE_MAX_EXEC_TIME, PREFIX, Annotation
from policy.profile import is_enforcing
from policy.spec import GPUPolicy
from webhook.own import READ_ANNOTATIONS, OwnJob, OwnMetadata
from webhook.pods import acting_remarks, in_order, note_kueue_limit, note_requester
from webhook.scene import Scene

_DEADLINE, _SECONDS = str(Annotation.DEADLINE), str(Annotation.DEADLINE_SECONDS)


class JobPlan(msgspec.Struct, frozen=True):
    """A Job as it shall be, the decisions that lead there, and the terms that its pods will get."""

    after: OwnJob
    deadline: DeadlineDecision
    admitted: Admitted
    kueue: KueueDecision = KueueDecision()


def plan_job(own: OwnJob, controller: ControllerDecision, policy: GPUPolicy, scene: Scene) -> JobPlan:
    """Decides deadline and requester; planning the planned Job again changes nothing.

    The template is only marked: its pods get their terms when they are created.
    """
    labels, annotations = dict(own.metadata.labels or ()), dict(own.metadata.annotations or ())
    deadline = job_deadline(
        DeadlineInput(
            policy=policy,
            enforcing=is_enforcing(scene.profile, scene.enforcement),
            spec_seconds=own.deadline,
            existing=annotations.get(_DEADLINE),
            existing_seconds=annotations.get(_SECONDS),
            kueue=own.queued,
            scoped_quota=scene.scoped_quota,
        ),
        controller,
    )
    annotations[_DEADLINE] = deadline.value
    kueue = note_kueue_limit(labels, policy, scene) if own.queued else KueueDecision()
    template = dict(own.template.annotations or ())
    for key in (_DEADLINE, _SECONDS):
        template.pop(key, None)
    template |= {f"{PREFIX}{name}": value for name, value in template_mark(deadline).items()}
    note_requester(template, own.requester)
    after = OwnJob(
        OwnMetadata(
            in_order(labels, (KUEUE_MAX_EXEC_TIME,)) if labels else own.metadata.labels,
            in_order(annotations, READ_ANNOTATIONS),
        ),
        OwnMetadata(own.template.labels, in_order(template, READ_ANNOTATIONS)),
        own.deadline if deadline.seconds is None else deadline.seconds,
        own.template_deadline,
        own.queued,
        own.requester,
    )
    admitted = admitted_terms(
        policy, PodClass.BATCH, dict(own.template.labels or ()), dict(own.template.annotations or ())
    )
    return JobPlan(after, deadline, admitted, kueue)


def job_remarks(plan: JobPlan, policy: GPUPolicy, scene: Scene) -> tuple[str, ...]:
    """What the creator of a Job should know: of itself, and of its pods, whose creator nobody reads."""
    remarks = [told for told in (plan.deadline.warning, plan.kueue.warning) if told is not None]
    remarks += [f"its pods: {replacement}" for replacement in plan.admitted.replaced]
    remarks += acting_remarks(plan.admitted.terms, policy, scene, "its pods")
    return tuple(remarks)
