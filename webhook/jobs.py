"""Plans what a new Job of GPU pods gets: its deadline, and the mark on its template; pure."""

from __future__ import annotations

import msgspec

from policy.classes import ControllerDecision
from policy.deadline import DeadlineDecision, DeadlineInput, job_deadline, template_mark
from policy.keys import PREFIX, Annotation
from policy.profile import is_enforcing
from policy.spec import GPUPolicy
from webhook.own import READ_ANNOTATIONS, OwnJob, OwnMetadata
from webhook.pods import in_order
from webhook.scene import Scene

_DEADLINE, _SECONDS = str(Annotation.DEADLINE), str(Annotation.DEADLINE_SECONDS)


class JobPlan(msgspec.Struct, frozen=True):
    """A Job as it shall be, and the decision that leads there."""

    after: OwnJob
    deadline: DeadlineDecision


def plan_job(own: OwnJob, controller: ControllerDecision, policy: GPUPolicy, scene: Scene) -> JobPlan:
    """Decides the deadline; planning the planned Job again changes nothing.

    The template is only marked: its pods get their terms when they are created.
    """
    annotations = dict(own.metadata.annotations or ())
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
    template = dict(own.template.annotations or ())
    for key in (_DEADLINE, _SECONDS):
        template.pop(key, None)
    template |= {f"{PREFIX}{name}": value for name, value in template_mark(deadline).items()}
    after = OwnJob(
        OwnMetadata(own.metadata.labels, in_order(annotations, READ_ANNOTATIONS)),
        OwnMetadata(own.template.labels, in_order(template, READ_ANNOTATIONS)),
        own.deadline if deadline.seconds is None else deadline.seconds,
        own.template_deadline,
        own.queued,
    )
    return JobPlan(after, deadline)
