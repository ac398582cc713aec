"""The deadline rule for pods and Jobs, as a function of values; writes nothing and reads no clock."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from policy.classes import ClassDecision, ControllerDecision, PodClass, Standing
from policy.durations import MAX_SECONDS, duration_of
from policy.spec import Deadline, GPUPolicy, JobDeadlines

POD_MAXIMUM: Final = 2**31 - 1
"""Seconds; a pod's deadline is from 1 to this, a Job's from 0 to 2^63 - 1."""


class DeadlineNote(StrEnum):
    """The values of the annotation `deadline`, beside `none: REASON`."""

    INJECTED = "injected"
    KEPT = "kept"
    LOWERED = "lowered"
    JOB = "job"
    WOULD_INJECT = "would-inject"
    WOULD_LOWER = "would-lower"


class NoDeadline(StrEnum):
    """Why a pod or Job gets no deadline, in the order in which the reasons are given."""

    POLICY_HAS_NONE = "PolicyHasNone"
    KUEUE = "Kueue"
    CONTROLLER_OWNED = "ControllerOwned"
    UNKNOWN_CONTROLLER = "UnknownController"
    JOB_UNMARKED = "JobUnmarked"
    CLASS_NOT_BATCH = "ClassNotBatch"
    SCOPED_QUOTA = "ScopedQuota"

    @property
    def annotation(self) -> str:
        """As the annotation spells it: `none: Kueue`."""
        return f"none: {self.value}"


class DeadlineDecision(Struct, frozen=True):
    """What to write: the annotation, `seconds` into the spec (None writes nothing), and what to tell.

    `effective` is what the annotation `deadline-seconds` says, None where it is absent: the seconds that
    count in the end.
    """

    value: str
    seconds: int | None = None
    warning: str | None = None
    effective: int | None = None


class DeadlineInput(Struct, frozen=True):
    """What the rule looks at.

    `spec_seconds` is the object's own `activeDeadlineSeconds`; `existing` and `existing_seconds` are the
    incoming annotations `deadline` and `deadline-seconds`; `enforcing` says whether deadlines are written
    here; `kueue` whether the object is Kueue's; `scoped_quota` whether a Terminating or NotTerminating
    ResourceQuota counts GPUs.
    """

    policy: GPUPolicy
    enforcing: bool
    spec_seconds: int | None = None
    existing: str | None = None
    existing_seconds: str | None = None
    kueue: bool = False
    scoped_quota: bool = False


class KueueDecision(Struct, frozen=True):
    """The value to write into Kueue's label (None writes nothing), and what to tell the user."""

    value: str | None = None
    warning: str | None = None


def pod_deadline(given: DeadlineInput, decision: ClassDecision) -> DeadlineDecision:
    """The deadline of a pod that is being created."""
    block = given.policy.deadline_of(decision.pod_class)
    if _of_marked_job(given, decision):
        return _from_job(given)
    reason = _pod_reason(given, decision, block)
    if reason is not None or block is None:
        return _without(given, reason or NoDeadline.POLICY_HAS_NONE, lowest=1)
    if given.spec_seconds is not None and not 1 <= given.spec_seconds <= POD_MAXIMUM:
        # The API server refuses the pod, and its sentence is better than a silent correction.
        return DeadlineDecision(DeadlineNote.KEPT)
    return _decide(given, block)


def job_deadline(given: DeadlineInput, controller: ControllerDecision) -> DeadlineDecision:
    """The deadline of a Job that is being created; Jobs are batch, whoever made them."""
    return _bounded(given, controller, (JobDeadlines.JOB,), lowest=0)


def workload_deadline(given: DeadlineInput, controller: ControllerDecision) -> DeadlineDecision:
    """The deadline of another run-once kind, which has a field of its own for it.

    Its pods are its controller's and so never get one: also where those of Jobs do, the field is set.
    """
    return _bounded(given, controller, (JobDeadlines.JOB, JobDeadlines.POD), lowest=1)


def _bounded(
    given: DeadlineInput, controller: ControllerDecision, places: tuple[JobDeadlines, ...], lowest: int
) -> DeadlineDecision:
    """The deadline of a workload under policies that set it there; below `lowest` no value is valid."""
    block = given.policy.deadline_of(PodClass.BATCH)
    reason = _workload_reason(given, controller.standing, block, places)
    if reason is not None or block is None:
        return _without(given, reason or NoDeadline.POLICY_HAS_NONE, lowest)
    if given.spec_seconds is not None and given.spec_seconds < lowest:
        return DeadlineDecision(DeadlineNote.KEPT)
    return _decide(given, block)


def template_mark(decision: DeadlineDecision) -> dict[str, str]:
    """The values for a Job's template, by short annotation name, so that its pods say what the Job has.

    A Job with a deadline marks `job` and the seconds; one without passes on why, or what would be.
    """
    if decision.effective is None:
        return {"deadline": decision.value}
    return {"deadline": DeadlineNote.JOB.value, "deadline-seconds": str(decision.effective)}


def kueue_limit(label: str | None, policy: GPUPolicy, *, enforcing: bool) -> KueueDecision:
    """The value of `kueue.x-k8s.io/max-exec-time-seconds` for a workload of Kueue's, by the same rule.

    What Kueue would not read as a limit (it wants a whole number above 0) counts as absent.
    """
    block = policy.deadline_of(PodClass.BATCH)
    if block is None or not enforcing:
        return KueueDecision()
    seconds = _kueue_seconds(label)
    if seconds is None:
        value = str(block.default.seconds)
        told = None if label is None else f"Kueue's time limit {label[:63]!r} is none, set to {block.default}"
        return KueueDecision(value, told)
    if seconds > block.max.seconds:
        return KueueDecision(
            str(block.max.seconds), f"Kueue's time limit lowered from {_shown(seconds)} to {block.max}"
        )
    return KueueDecision()


def _pod_reason(given: DeadlineInput, decision: ClassDecision, block: Deadline | None) -> NoDeadline | None:
    """The first reason that holds against a deadline on a pod."""
    if block is None:
        return NoDeadline.POLICY_HAS_NONE
    if given.kueue:
        return NoDeadline.KUEUE
    if decision.standing is Standing.UNKNOWN:
        return NoDeadline.UNKNOWN_CONTROLLER
    if decision.controller is not None and not decision.is_job:
        return NoDeadline.CONTROLLER_OWNED
    if decision.is_job and block.jobs is not JobDeadlines.POD:
        return NoDeadline.JOB_UNMARKED
    if decision.pod_class is not PodClass.BATCH:
        return NoDeadline.CLASS_NOT_BATCH
    return NoDeadline.SCOPED_QUOTA if given.scoped_quota else None


def _workload_reason(
    given: DeadlineInput, standing: Standing, block: Deadline | None, places: tuple[JobDeadlines, ...]
) -> NoDeadline | None:
    """The first reason that holds against a deadline on a workload."""
    if block is None or block.jobs not in places:
        return NoDeadline.POLICY_HAS_NONE
    if given.kueue:
        return NoDeadline.KUEUE
    if standing is Standing.UNKNOWN:
        return NoDeadline.UNKNOWN_CONTROLLER
    return NoDeadline.SCOPED_QUOTA if given.scoped_quota else None


def _of_marked_job(given: DeadlineInput, decision: ClassDecision) -> bool:
    """Whether the pod's Job has said through its template what holds for its pods."""
    if not decision.is_job or decision.standing is not Standing.TRUSTED:
        return False
    block = given.policy.deadline_of(PodClass.BATCH)
    if given.existing == DeadlineNote.JOB:
        return True
    if given.spec_seconds is not None or (block is not None and block.jobs is JobDeadlines.POD):
        return False
    if given.existing in {DeadlineNote.WOULD_INJECT, DeadlineNote.WOULD_LOWER}:
        return not given.enforcing
    return given.existing in {reason.annotation for reason in NoDeadline}


def _from_job(given: DeadlineInput) -> DeadlineDecision:
    """Repeats what the Job's template says; nothing is written into the spec."""
    seconds = given.existing_seconds if given.existing == DeadlineNote.JOB else None
    readable = seconds is not None and seconds.isascii() and seconds.isdigit() and len(seconds) <= 19
    effective = int(seconds) if seconds is not None and readable else None
    return DeadlineDecision(given.existing or "", effective=effective)


def _without(given: DeadlineInput, reason: NoDeadline, lowest: int) -> DeadlineDecision:
    """No deadline of ours: a user's own stays as it is, without a maximum."""
    if given.spec_seconds is None:
        return DeadlineDecision(reason.annotation)
    effective = given.spec_seconds if given.spec_seconds >= lowest else None
    return DeadlineDecision(DeadlineNote.KEPT, effective=effective)


def _decide(given: DeadlineInput, block: Deadline) -> DeadlineDecision:
    """The user's deadline if it is within the maximum, the maximum if it is above, else the default."""
    own, limit = given.spec_seconds, block.max
    if own is None:
        if not given.enforcing:
            return DeadlineDecision(DeadlineNote.WOULD_INJECT)
        told = (
            f"activeDeadlineSeconds set to {block.default.seconds}: it ends {block.default} after its start"
        )
        return _written(DeadlineNote.INJECTED, block.default.seconds, told)
    if own > limit.seconds:
        if not given.enforcing:
            return DeadlineDecision(DeadlineNote.WOULD_LOWER, effective=own)
        told = f"activeDeadlineSeconds lowered from {own} to {limit.seconds} ({limit}), the policy's maximum"
        return _written(DeadlineNote.LOWERED, limit.seconds, told)
    standing = {DeadlineNote.INJECTED, DeadlineNote.KEPT, DeadlineNote.LOWERED}
    value = given.existing if given.existing is not None and given.existing in standing else DeadlineNote.KEPT
    return DeadlineDecision(str(value), effective=own)


def _written(note: DeadlineNote, seconds: int, warning: str) -> DeadlineDecision:
    """A decision that writes."""
    return DeadlineDecision(note.value, seconds, warning, seconds)


def _kueue_seconds(label: str | None) -> int | None:
    """What Kueue reads from its label: a whole number from 1 to 2^31 - 1."""
    if label is None or not label.isascii() or not label.isdigit() or len(label) > 10:
        return None
    seconds = int(label)
    return seconds if 1 <= seconds <= POD_MAXIMUM else None


def _shown(seconds: int) -> str:
    """Seconds as a duration where one can say it."""
    return str(duration_of(seconds)) if seconds <= MAX_SECONDS else f"{seconds}s"
