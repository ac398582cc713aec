"""Decides what a created pod or workload gets, from request and caches: no clock, no API call.

The same functions answer the API server and `explain`.
"""

from __future__ import annotations

from collections.abc import Mapping

from policy.classes import ClassSettings, PodClass, controller_of
from policy.objects import JobSpec, ObjectMeta
from policy.workloads import WorkloadKind, workload_kind
from webhook.answers import Allowed, Answer, Patched
from webhook.decision import Decision, Outcome
from webhook.own import own_job
from webhook.parts import Part, parts_of
from webhook.patch import ANNOTATIONS_LIMIT_BYTES, annotations_bytes
from webhook.review import JOB, POD, Request, WorkloadRequest
from webhook.room import room_remarks
from webhook.scene import AdmissionSettings, World
from webhook.settle import SIGNATURE, Settled, settle_job
from webhook.subject import Memory, Subject, annotations_of, classify, find_subject, settled_pod
from webhook.warnings import fit_warning, fit_warnings
from webhook.workloads import Workload, class_of_part, settle_workload

AS_IT_IS = Allowed()
KEY_CHARACTERS = 317
"""The longest key of an annotation."""


def mutate(request: Request, world: World, settings: AdmissionSettings, memory: Memory) -> Decision:
    """Decides what a created pod or workload gets; anything else is admitted as it is."""
    if request.kind == POD:
        return mutate_pod(request, world, settings, memory)
    if request.kind == JOB:
        return mutate_job(request, world, settings, memory)
    kind = workload_kind(request.kind.group, request.kind.kind)
    if kind is not None and isinstance(request, WorkloadRequest):
        return mutate_workload(request, kind, world, settings, memory)
    return left_alone(Outcome.NOT_OURS)


def mutate_pod(request: Request, world: World, settings: AdmissionSettings, memory: Memory) -> Decision:
    """Decides what a pod gets."""
    if request.object is None:
        return left_alone(Outcome.NOT_GPU)
    annotations = annotations_of(request.object)
    subject = find_subject(request, request.object.spec, world, settings, memory, annotations)
    if isinstance(subject, Outcome):
        return left_alone(subject)
    pod = request.object.pod()
    decision = classify(subject, pod, settings)
    settled = settled_pod(subject, pod, decision, memory)
    fits = _fits(pod.metadata.annotations, settled.growth)
    return _decided(subject, settled, decision.pod_class, decision.reason, fits=fits)


def mutate_job(request: Request, world: World, settings: AdmissionSettings, memory: Memory) -> Decision:
    """Decides what a Job gets; its pods are decided about one by one when they are created."""
    if request.object is None:
        return left_alone(Outcome.NOT_GPU)
    job = request.object.job()
    template = job.spec.template
    spec = template.spec if template else None
    subject = find_subject(request, spec, world, settings, memory, annotations_of(template))
    if isinstance(subject, Outcome):
        return left_alone(subject)
    policy, scene = subject.selected.policy, subject.scene
    controller = controller_of(
        job.metadata,
        request.user_info.creator(),
        request.namespace,
        ClassSettings(settings.trusted_controllers, policy.classes.creators),
    )
    template_metadata = (template.metadata if template else None) or ObjectMeta()
    own = own_job(
        job,
        metadata_exists=request.object.metadata is not None,
        requester=subject.requester(template_metadata, job.metadata),
    )
    key = (own, controller.standing, controller.reference is None, scene)
    settled = memory.settled.get(key, (policy,), lambda: settle_job(own, controller, policy, scene), own.size)
    fits = _fits(job.metadata.annotations, settled.growth) and _fits(
        template_metadata.annotations, settled.template_growth
    )
    remarks = room_remarks([(subject.devices, _pods_at_once(job.spec))], world.quotas.rooms)
    return _decided(subject, settled, PodClass.BATCH, "", fits=fits, remarks=remarks)


def mutate_workload(
    request: WorkloadRequest, kind: WorkloadKind, world: World, settings: AdmissionSettings, memory: Memory
) -> Decision:
    """Decides what a workload of another kind gets."""
    asked: list[tuple[Part, Subject]] = []
    outcomes: list[Outcome] = []
    for part in parts_of(kind, request.tree):
        found = find_subject(request, part.spec, world, settings, memory, part.metadata.annotations)
        if isinstance(found, Outcome):
            outcomes.append(found)
        else:
            asked.append((part, found))
    if not asked:
        return left_alone(next((one for one in outcomes if one is not Outcome.NOT_GPU), Outcome.NOT_GPU))
    subject = asked[0][1]
    workload = Workload(kind, request.tree, tuple(part for part, _ in asked), subject)
    decision = class_of_part(workload, workload.parts[0])
    remarks = room_remarks([(one.devices, part.pods) for part, one in asked], world.quotas.rooms)
    settled = settle_workload(workload)
    why = f"{decision.reason}, which makes the pods"
    return _decided(subject, settled, decision.pod_class, why, fits=True, remarks=remarks)


def _pods_at_once(spec: JobSpec) -> int:
    """How many pods a Job runs at once."""
    parallelism = 1 if spec.parallelism is None else max(spec.parallelism, 0)
    return parallelism if spec.completions is None else min(parallelism, max(spec.completions, 0))


def left_alone(outcome: Outcome) -> Decision:
    """Admits an object as it is."""
    return Decision(outcome=outcome, answer=AS_IT_IS)


def _decided(
    subject: Subject,
    settled: Settled,
    pod_class: PodClass,
    why: str,
    *,
    fits: bool,
    remarks: tuple[str, ...] = (),
) -> Decision:
    """Puts a decision together; `remarks` are warnings that hold for this moment only."""
    unfit = settled.unfit if fits else f"annotations would exceed {ANNOTATIONS_LIMIT_BYTES} bytes"
    sends = bool(settled.patch) and unfit is None
    return Decision(
        outcome=_outcome(sends=sends, unfit=unfit),
        answer=_answer(settled, unfit, remarks),
        devices=subject.devices,
        pod_class=pod_class,
        policy=subject.selected.policy.name,
        terms=settled.terms,
        deadline=settled.deadline,
        replaced=settled.replaced,
        reasons=_reasons(subject, settled, f"class {pod_class}: {why}" if why else "", unfit, remarks),
    )


def _reasons(
    subject: Subject, settled: Settled, first: str, unfit: str | None, remarks: tuple[str, ...]
) -> tuple[str, ...]:
    """What explains a decision; mostly nothing but class and terms."""
    problem, unresolved = subject.selected.problem, subject.devices.unresolved
    if first and not (problem or unresolved or remarks or unfit):
        return (first, *settled.reasons)
    return (
        *((first,) if first else ()),
        *((problem,) if problem else ()),
        *settled.reasons,
        *map(str, unresolved),
        *remarks,
        *((f"not patched: {unfit}",) if unfit else ()),
    )


def _outcome(*, sends: bool, unfit: str | None) -> Outcome:
    """What became of the object."""
    if unfit is not None:
        return Outcome.PATCH_UNFIT
    return Outcome.PATCHED if sends else Outcome.UNCHANGED


def _answer(settled: Settled, unfit: str | None, remarks: tuple[str, ...]) -> Answer:
    """The answer: a patch that was proven, or none."""
    if unfit is not None:
        return Allowed((fit_warning(f"{SIGNATURE}no terms were written: {unfit}"),))
    warnings = settled.warnings
    if remarks:
        warnings = fit_warnings((*(SIGNATURE + remark for remark in remarks), *warnings))
    if settled.patch:
        return Patched(settled.patch, warnings)
    return Allowed(warnings) if warnings else AS_IT_IS


def _fits(annotations: Mapping[str, str] | None, growth: int) -> bool:
    """Whether annotations stay within the API server's limit when they gain `growth` bytes."""
    if not annotations:
        return True
    # A character has at most four bytes: most objects need no exact count.
    at_most = 4 * (sum(map(len, annotations.values())) + KEY_CHARACTERS * len(annotations))
    return (
        at_most + growth <= ANNOTATIONS_LIMIT_BYTES
        or annotations_bytes(annotations) + growth <= ANNOTATIONS_LIMIT_BYTES
    )
