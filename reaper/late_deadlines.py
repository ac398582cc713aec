"""Decides which pods and Jobs admitted without a deadline get one now; writes nothing and asks nobody.

It is never sooner than a day from now, and what is older than its policy gets none: nobody could know the
rule then. Quotas that count pods by their deadline are looked at by whoever writes.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from policy.classes import ClassSettings, class_of, controller_of
from policy.deadline import DeadlineDecision, DeadlineInput, DeadlineNote, job_deadline, pod_deadline
from policy.durations import readable_time
from policy.keys import Annotation, enforcement_of
from policy.objects import Namespace, ObjectMeta
from policy.profile import is_enforcing
from policy.selection import PolicySet, select
from policy.spec import GPUPolicy
from policy.verdicts import Reason
from reaper.stopways import is_kueue
from reaper.subjects import Subject
from reaper.survey import Rules

LEAST: Final = timedelta(hours=24)
UNCONCERNED: Final = frozenset(
    {Reason.FINISHED, Reason.TERMINATING, Reason.EXCLUDED, Reason.PLACEHOLDER, Reason.NAMESPACE_UNKNOWN}
)


class JobStatus(Struct, frozen=True, rename="camel"):
    """When a Job started."""

    start_time: str | None = None


class JobSpec(Struct, frozen=True, rename="camel"):
    """What bounds a Job."""

    active_deadline_seconds: int | None = None


class DatedJob(Struct, frozen=True):
    """A Job, as far as its deadline goes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus | None = None


class Late(Struct, frozen=True):
    """A deadline to be given: the seconds for the spec, which count from the start, and when it ends."""

    seconds: int
    ends_at: datetime


def concerned(
    subject: Subject,
    first_seen: datetime | None,
    namespace: Namespace | None,
    policies: PolicySet,
    rules: Rules,
    now: datetime,
) -> GPUPolicy | None:
    """Gives the policy under which a pod may get a deadline; None if it may not, or not yet."""
    if namespace is None or first_seen is None or subject.terms is None or subject.skip in UNCONCERNED:
        return None
    if not is_enforcing(rules.profile, enforcement_of(namespace.metadata.labels)):
        return None
    if Annotation.DEADLINE in subject.pod.annotations or not subject.pod.certain:
        return None
    if now - first_seen < subject.terms.after.delta + subject.terms.warm_up.delta:
        return None
    policy = select(policies, subject.pod.namespace, namespace.metadata.labels or {}).policy
    return None if _is_older(subject.pod.created, policy) else policy


def late_for_pod(subject: Subject, policy: GPUPolicy, trusted: Collection[str], now: datetime) -> Late | None:
    """Gives the deadline of a pod that would have got one when it was created.

    Who created a pod is not known any more. Where some creators' pods are interactive, one without a
    controller may be theirs, and is left alone: by its shape a notebook runs once, too.
    """
    pod = subject.pod
    if pod.owner is None and policy.classes.creators:
        return None
    settings = ClassSettings(tuple(trusted), policy.classes.creators)
    given = DeadlineInput(
        policy=policy,
        enforcing=True,
        spec_seconds=pod.pod.spec.active_deadline_seconds,
        kueue=is_kueue(pod.labels),
    )
    decision = pod_deadline(given, class_of(pod.pod, None, pod.namespace, settings))
    started = readable_time(pod.pod.status.start_time) if pod.pod.status else None
    return _late(decision, started, now)


def late_for_job(job: DatedJob, policy: GPUPolicy, trusted: Collection[str], now: datetime) -> Late | None:
    """Gives the deadline of a Job that would have got one when it was created."""
    created = readable_time(job.metadata.creation_timestamp)
    if created is None or _is_older(created, policy):
        return None
    if Annotation.DEADLINE in (job.metadata.annotations or {}):
        return None
    given = DeadlineInput(
        policy=policy,
        enforcing=True,
        spec_seconds=job.spec.active_deadline_seconds,
        kueue=is_kueue(job.metadata.labels or {}),
    )
    settings = ClassSettings(tuple(trusted), policy.classes.creators)
    controller = controller_of(job.metadata, None, job.metadata.namespace or "", settings)
    started = readable_time(job.status.start_time) if job.status else None
    return _late(job_deadline(given, controller), started, now)


def _late(decision: DeadlineDecision, started: datetime | None, now: datetime) -> Late | None:
    """Gives age + max(default - age, 24h): what is due already still has a day."""
    if decision.value != DeadlineNote.INJECTED or decision.seconds is None or started is None:
        return None
    age = now - started
    if age < timedelta():
        return None
    seconds = int((age + max(timedelta(seconds=decision.seconds) - age, LEAST)).total_seconds())
    return Late(seconds, started + timedelta(seconds=seconds))


def _is_older(created: datetime, policy: GPUPolicy) -> bool:
    return policy.created is not None and created < policy.created
