"""Checks a new workload of GPU pods for who sent it: the right to use the policy, and a look ahead at images.

Its pods come from a controller later and are checked one by one then; but a controller acts for whoever made
the workload, and nobody reads a controller's warnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from policy.objects import PodSpec
from policy.workloads import workload_kind
from webhook.admission import left_alone
from webhook.answers import Denied
from webhook.decision import Decision, Outcome
from webhook.images import image_refusal
from webhook.parts import parts_of
from webhook.review import JOB, Request, WorkloadRequest
from webhook.rights_stage import RightsPort, check_right
from webhook.scene import AdmissionSettings, World
from webhook.stages import Finding, conclude
from webhook.subject import Memory, Subject, annotations_of, find_subject

Shape = tuple[PodSpec, Subject | Outcome]
"""The specification of pods that a workload makes, and what they are to admission."""


def shapes_of(
    request: Request, world: World, settings: AdmissionSettings, memory: Memory
) -> tuple[Shape, ...]:
    """The pods that a workload makes, one of each shape."""
    return tuple(
        (spec, find_subject(request, spec, world, settings, memory, annotations))
        for spec, annotations in _pods_of(request)
    )


async def validate_workload(
    request: Request, found: Sequence[Shape], settings: AdmissionSettings, rights: RightsPort
) -> Decision:
    """Decides about a created workload by its shapes; one that makes no GPU pods is admitted as it is."""
    asking = [(spec, subject) for spec, subject in found if isinstance(subject, Subject)]
    if not asking:
        outcomes = [outcome for _, outcome in found if isinstance(outcome, Outcome)]
        return left_alone(next((one for one in outcomes if one is not Outcome.NOT_GPU), _nothing(request)))
    subject = asking[0][1]
    # Other webhooks may still change the images of the pods themselves: nothing is refused for them yet.
    sentences = [image_refusal(spec, subject.selected.policy) for spec, _ in asking]
    remarks = tuple(f"its pods would not pass: {sentence}" for sentence in sentences if sentence is not None)
    finding = await check_right(subject, rights, settings)
    answer = conclude((Finding(remarks=remarks), finding), subject.scene)
    refused = isinstance(answer, Denied)
    return Decision(
        outcome=Outcome.REFUSED if refused else Outcome.CHECKED,
        answer=answer,
        devices=subject.devices,
        policy=subject.selected.policy.name,
        reasons=(answer.message,) if isinstance(answer, Denied) else (),
    )


def _pods_of(request: Request) -> Iterator[tuple[PodSpec, Mapping[str, str] | None]]:
    """The specifications and annotations of the workload's pods."""
    if request.kind == JOB:
        template = request.object.job().spec.template if request.object is not None else None
        if template is not None and template.spec is not None:
            yield template.spec, annotations_of(template)
        return
    kind = workload_kind(request.kind.group, request.kind.kind)
    if kind is not None and isinstance(request, WorkloadRequest):
        for part in parts_of(kind, request.tree):
            yield part.spec, part.metadata.annotations


def _nothing(request: Request) -> Outcome:
    """Why there is nothing to check: no GPU pods, or a kind that makes none that we know of."""
    known = request.kind == JOB or workload_kind(request.kind.group, request.kind.kind) is not None
    return Outcome.NOT_GPU if known else Outcome.NOT_OURS
