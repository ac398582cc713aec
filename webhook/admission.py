"""Decides what a created pod or Job gets, from the request and what the caches hold: no clock, no API call.

The same functions answer the API server and `explain`.
"""

from __future__ import annotations

from collections.abc import Mapping

from policy.classes import ClassSettings, PodClass, controller_of
from policy.objects import ObjectMeta
from webhook.answers import Allowed, Answer, Patched
from webhook.decision import Decision, Outcome
from webhook.own import own_job
from webhook.patch import ANNOTATIONS_LIMIT_BYTES, annotations_bytes
from webhook.review import JOB, POD, Request
from webhook.scene import AdmissionSettings, World
from webhook.settle import SIGNATURE, Settled, settle_job
from webhook.subject import Memory, Subject, annotations_of, classify, find_subject, settled_pod
from webhook.warnings import fit_warning

AS_IT_IS = Allowed()
KEY_CHARACTERS = 317
"""The longest key of an annotation."""


def mutate(request: Request, world: World, settings: AdmissionSettings, memory: Memory) -> Decision:
    """Decides what a created pod or Job gets; anything else is admitted as it is."""
    if request.kind == POD:
        return mutate_pod(request, world, settings, memory)
    if request.kind == JOB:
        return mutate_job(request, world, settings, memory)
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
        requester=subject.requester(
            template_metadata.labels or job.metadata.labels, template_metadata.annotations
        ),
    )
    key = (own, controller.standing, controller.reference is None, scene)
    settled = memory.settled.get(key, (policy,), lambda: settle_job(own, controller, policy, scene))
    fits = _fits(job.metadata.annotations, settled.growth) and _fits(
        template_metadata.annotations, settled.template_growth
    )
    return _decided(subject, settled, PodClass.BATCH, "", fits=fits)


def left_alone(outcome: Outcome) -> Decision:
    """Admits an object as it is."""
    return Decision(outcome=outcome, answer=AS_IT_IS)


def _decided(subject: Subject, settled: Settled, pod_class: PodClass, why: str, *, fits: bool) -> Decision:
    """Puts a decision together."""
    unfit = settled.unfit if fits else f"annotations would exceed {ANNOTATIONS_LIMIT_BYTES} bytes"
    sends = bool(settled.patch) and unfit is None
    problem = subject.selected.problem
    return Decision(
        outcome=_outcome(sends=sends, unfit=unfit),
        answer=_answer(settled, unfit),
        devices=subject.devices,
        pod_class=pod_class,
        policy=subject.selected.policy.name,
        terms=settled.terms,
        deadline=settled.deadline,
        replaced=settled.replaced,
        reasons=(
            *((f"class {pod_class}: {why}",) if why else ()),
            *((problem,) if problem else ()),
            *settled.reasons,
            *((f"not patched: {unfit}",) if unfit else ()),
        ),
    )


def _outcome(*, sends: bool, unfit: str | None) -> Outcome:
    """What became of the object."""
    if unfit is not None:
        return Outcome.PATCH_UNFIT
    return Outcome.PATCHED if sends else Outcome.UNCHANGED


def _answer(settled: Settled, unfit: str | None) -> Answer:
    """The answer: a patch that was proven, or none."""
    if unfit is not None:
        return Allowed((fit_warning(f"{SIGNATURE}no terms were written: {unfit}"),))
    if settled.patch:
        return Patched(settled.patch, settled.warnings)
    return AS_IT_IS


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
