"""Finds the deadlines of pods and Jobs that users are to hear of; pure, knows neither time nor Events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from msgspec import Struct, structs

from policy.classes import PodClass
from policy.durations import readable_time
from policy.keys import Annotation, Enforcement, Label, enforcement_of
from policy.objects import Namespace
from policy.selection import PolicySet, select
from policy.spec import GPUPolicy
from reaper.deadlines import Deadline, origin_of
from reaper.jobs import DEADLINE_EXCEEDED, GpuJob
from reaper.owners import Root
from reaper.pods import GpuPod
from reaper.subjects import Subject

PODS_OF_JOB = 20
"""So many pods of a Job hear of its deadline; the Job and its root do in any case."""


class View(Struct, frozen=True):
    """Where deadlines are looked for.

    Attributes:
        policies: The policies.
        namespace: A namespace by name, or None.
        excluded: Namespaces left alone.
        contact: Whom to ask where a policy names nobody.
    """

    policies: PolicySet
    namespace: Callable[[str], Namespace | None]
    excluded: Collection[str]
    contact: str

    def policy_of(self, name: str) -> GPUPolicy | None:
        """Gives the policy of a namespace; None if nobody there is to hear anything."""
        found = self.namespace(name)
        if found is None or name in self.excluded:
            return None
        labels = found.metadata.labels
        enabled = enforcement_of(labels) is Enforcement.ENABLED
        return select(self.policies, name, labels).policy if enabled else None


def deadlines_of(subjects: Collection[Subject], jobs: Collection[GpuJob], view: View) -> list[Deadline]:
    """Gives all deadlines that run, or that have ended their pod or Job."""
    found = [deadline for one in subjects if (deadline := _of_pod(one, view)) is not None]
    members: dict[str, list[Subject]] = {}
    for subject in subjects:
        if subject.pod.owner is not None and subject.pod.owner.kind == "Job" and subject.holds_devices:
            members.setdefault(subject.pod.owner.uid, []).append(subject)
    return [*found, *_of_jobs(jobs, members, view)]


def _of_pod(subject: Subject, view: View) -> Deadline | None:
    pod = subject.pod
    seconds, status = pod.pod.spec.active_deadline_seconds, pod.pod.status
    if seconds is None or status is None or pod.deleting:
        return None
    late = pod.phase == "Failed" and status.reason == DEADLINE_EXCEEDED
    started, policy = readable_time(status.start_time), view.policy_of(pod.namespace)
    if started is None or policy is None or (pod.finished and not late):
        return None
    holder = Root("v1", "Pod", pod.namespace, pod.name, pod.uid)
    deadline = Deadline(
        holder=holder,
        root=_root_of(subject, holder),
        requester=pod.annotations.get(Annotation.REQUESTED_BY, ""),
        policy=pod.labels.get(Label.POLICY, policy.name),
        longest_seconds=_longest(policy),
        contact=str(policy.contact) or view.contact,
        origin=origin_of(pod.annotations.get(Annotation.DEADLINE)),
        seconds=seconds,
        started=started,
    )
    return _late(deadline) if late else deadline


def _late(deadline: Deadline) -> Deadline:
    # A pod's status does not say when it failed, and the kubelet is punctual.
    return structs.replace(deadline, exceeded_at=deadline.ends_at)


def _root_of(subject: Subject, holder: Root) -> Root:
    """Gives the root owner; of a pod that has ended only the controller is known."""
    owner = subject.pod.owner
    if subject.root.kind != "Pod" or owner is None:
        return subject.root if subject.root.kind != "Pod" else holder
    return Root(owner.api_version, owner.kind, subject.pod.namespace, owner.name, owner.uid)


def _of_jobs(jobs: Collection[GpuJob], members: dict[str, list[Subject]], view: View) -> Iterator[Deadline]:
    for job in jobs:
        policy = view.policy_of(job.namespace)
        if policy is None or job.started is None or (job.ended and job.exceeded_at is None):
            continue
        holder = Root("batch/v1", "Job", job.namespace, job.name, job.uid)
        own = members.get(job.uid, [])
        yield Deadline(
            holder=holder,
            root=own[0].root if own else holder,
            pods=tuple(_pods(own)),
            requester=job.annotations.get(Annotation.REQUESTED_BY, ""),
            policy=policy.name,
            longest_seconds=_longest(policy),
            contact=str(policy.contact) or view.contact,
            origin=origin_of(job.annotations.get(Annotation.DEADLINE)),
            seconds=job.deadline_seconds,
            started=job.started,
            exceeded_at=job.exceeded_at,
        )


def _pods(members: Collection[Subject]) -> list[GpuPod]:
    return [one.pod for one in sorted(members, key=lambda one: one.key)[:PODS_OF_JOB]]


def _longest(policy: GPUPolicy) -> int | None:
    block = policy.deadline_of(PodClass.BATCH)
    return block.max.seconds if block else None
