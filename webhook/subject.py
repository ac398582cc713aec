"""Finds out whether a review is about a GPU object of ours, and which policy applies; pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from policy.claims import Claimed, claimed_by
from policy.classes import ClassDecision, ClassSettings, class_of
from policy.devices import Devices, devices_of
from policy.keys import Annotation, Enforcement, enforcement_of
from policy.objects import Container, Namespace, ObjectMeta, Pod, PodSpec, PodTemplate
from policy.requester import Said, new_requester
from policy.resources import ResourceTable
from policy.selection import Selected, select
from policy.spec import GPUPolicy
from policy.vendors import KAI_READ
from webhook.decision import Outcome
from webhook.memo import Memo
from webhook.own import own_pod
from webhook.review import Request, ReviewedObject
from webhook.scene import AdmissionSettings, Scene, World
from webhook.scheduling import own_scheduling
from webhook.settle import Settled, settle_pod

CREATE, UPDATE = "CREATE", "UPDATE"
_REQUESTED_BY = str(Annotation.REQUESTED_BY)
REMEMBERED_CHARACTERS = 4 * 1024 * 1024
"""Of what devices are counted by, in all: one pod may have as many as the API server takes."""


class Memory:
    """What one process remembers between requests; without effect on any answer."""

    def __init__(self) -> None:
        self.devices: Memo[Devices] = Memo(REMEMBERED_CHARACTERS)
        self.selected: Memo[Selected] = Memo(8192)
        self.settled: Memo[Settled] = Memo(512)


class Subject(msgspec.Struct, frozen=True):
    """A GPU object that a decision is made about, and the policy that applies to it."""

    request: Request
    devices: Devices
    selected: Selected
    scene: Scene
    settings: AdmissionSettings
    namespace: Namespace

    @property
    def metadata(self) -> ObjectMeta | None:
        """The object's metadata, None where it has none."""
        return self.request.object.metadata if self.request.object is not None else None

    def requester(self, metadata: ObjectMeta, owner: ObjectMeta | None = None) -> str | None:
        """Who asked for what carries this metadata, or whose owner does; None leaves it unknown."""
        sources = self.settings.requester_sources
        labels, annotations = metadata.labels, metadata.annotations
        if sources and owner is not None:
            labels = {**(owner.labels or {}), **(labels or {})}
            outer = {key: text for key, text in (owner.annotations or {}).items() if key != _REQUESTED_BY}
            annotations = {**outer, **(annotations or {})}
        said = Said(labels, annotations, self.namespace.metadata.annotations)
        username = self.request.user_info.username
        return new_requester(username, said, self.settings.trusted_controllers, sources)


def find_subject(
    request: Request,
    spec: PodSpec | None,
    world: World,
    settings: AdmissionSettings,
    memory: Memory,
    annotations: Mapping[str, str] | None = None,
) -> Subject | Outcome:
    """The subject of a review whose pods have this specification and annotations, or why there is none."""
    if request.operation != CREATE or request.sub_resource:
        return Outcome.NOT_CREATE
    return subject_of(request, spec, world, settings, memory, annotations)


def annotations_of(carrier: ReviewedObject | PodTemplate | None) -> Mapping[str, str] | None:
    """The annotations of a pod, or of the pods that a template makes."""
    metadata = carrier.metadata if carrier is not None else None
    return metadata.annotations if metadata is not None else None


def subject_of(
    request: Request,
    spec: PodSpec | None,
    world: World,
    settings: AdmissionSettings,
    memory: Memory,
    annotations: Mapping[str, str] | None = None,
) -> Subject | Outcome:
    """The same, whatever the request does with the object."""
    if request.namespace in settings.excluded_namespaces:
        return Outcome.EXCLUDED
    if spec is None:
        return Outcome.NOT_GPU
    claimed = claimed_in(request.namespace, spec, world, settings) if spec.resource_claims else None
    devices = _devices(spec, annotations, claimed, settings.table, memory)
    if not devices.is_gpu:
        return Outcome.CLAIMS_UNRESOLVED if devices.unresolved else Outcome.NOT_GPU
    if world.namespace is None:
        return Outcome.NAMESPACE_UNKNOWN
    labels = world.namespace.metadata.labels
    enforcement = enforcement_of(labels)
    if enforcement is Enforcement.DISABLED:
        return Outcome.OPTED_OUT
    selected = _selected(request.namespace, labels, world, memory)
    scene = _scene(selected.policy, enforcement, world, settings)
    return Subject(request, devices, selected, scene, settings, world.namespace)


def _scene(policy: GPUPolicy, enforcement: Enforcement, world: World, settings: AdmissionSettings) -> Scene:
    """What of settings and world an answer depends on."""
    wanted, classes = policy.scheduling.priority_class_name, world.priority_classes
    if wanted is None or wanted not in classes.names:
        return Scene(settings.profile, enforcement, world.quotas.scoped)
    return Scene(settings.profile, enforcement, world.quotas.scoped, wanted, classes.global_default)


def classify(subject: Subject, pod: Pod, settings: AdmissionSettings) -> ClassDecision:
    """The class of the subject, which is a pod."""
    creators = subject.selected.policy.classes.creators
    return class_of(
        pod,
        subject.request.user_info.creator(),
        subject.request.namespace,
        ClassSettings(settings.trusted_controllers, creators),
    )


def settled_pod(subject: Subject, pod: Pod, decision: ClassDecision, memory: Memory) -> Settled:
    """What follows for the subject, which is a pod."""
    policy, scene = subject.selected.policy, subject.scene
    own = own_pod(
        pod,
        metadata_exists=subject.metadata is not None,
        requester=subject.requester(pod.metadata),
        scheduling=None if policy.scheduling.is_empty else own_scheduling(pod, decision),
    )
    # Names and UIDs of controllers do not matter; with them hardly two pods would look alike.
    key = (own, decision.pod_class, decision.standing, decision.controller is None, decision.is_job, scene)
    return memory.settled.get(key, (policy,), lambda: settle_pod(own, decision, policy, scene), own.size)


def claimed_in(namespace: str, spec: PodSpec, world: World, settings: AdmissionSettings) -> Claimed:
    """What the claims of a pod in a namespace hold, as far as the cluster's templates tell."""
    return claimed_by(
        spec.resource_claims, lambda name: world.claim_template(namespace, name), settings.table
    )


def claim_templates_of(request: Request) -> tuple[str, ...]:
    """The names of the ResourceClaimTemplates of a pod, or of a Job's pods."""
    spec = request.object.spec if request.object is not None else None
    if spec is None:
        return ()
    of_template = spec.template.spec if spec.template is not None else None
    claims = (*(spec.resource_claims or ()), *((of_template and of_template.resource_claims) or ()))
    return tuple(claim.resource_claim_template_name for claim in claims if claim.resource_claim_template_name)


def _devices(
    spec: PodSpec,
    annotations: Mapping[str, str] | None,
    claimed: Claimed | None,
    table: ResourceTable,
    memory: Memory,
) -> Devices:
    """What the pods hold, remembered by all that counting looks at."""
    key = (
        _resources(spec.init_containers),
        _resources(spec.containers),
        _pairs(spec.overhead),
        spec.resources and (_pairs(spec.resources.limits), _pairs(spec.resources.requests)),
        claimed,
        tuple([annotations.get(name) for name in KAI_READ]) if annotations else None,
    )
    count = partial(devices_of, spec, annotations, table, claimed)
    return memory.devices.get(key, (table,), count, partial(_size, spec))


def _size(spec: PodSpec) -> int:
    """How many characters there are to remember, roughly: an amount counts as at least 40."""
    some = [spec.overhead]
    if spec.resources is not None:
        some += [spec.resources.limits, spec.resources.requests]
    size = 100 * len(spec.resource_claims or ())
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        size += 40 + len(container.name)
        if container.resources is not None:
            some += [container.resources.limits, container.resources.requests]
    for amounts in some:
        for name, amount in amounts.items() if amounts else ():
            size += 40 + len(name) + (len(amount) if isinstance(amount, str) else 0)
    return size


def _resources(containers: tuple[Container, ...] | None) -> tuple[object, ...]:
    """All that counting devices looks at, hashable."""
    if not containers:
        return ()
    return tuple(
        [
            (container.name, container.restart_policy)
            if (asked := container.resources) is None
            else (
                container.name,
                container.restart_policy,
                # As _pairs does, without two calls for every container of every pod.
                tuple(asked.limits.items()) if asked.limits else (),
                tuple(asked.requests.items()) if asked.requests else (),
                asked.claims,
            )
            for container in containers
        ]
    )


def _pairs(quantities: Mapping[str, object] | None) -> tuple[object, ...]:
    """Names and quantities; their types too, since 1 and True are equal."""
    return tuple(quantities.items()) if quantities else ()


def _selected(name: str, labels: Mapping[str, str] | None, world: World, memory: Memory) -> Selected:
    """The policy of the namespace, remembered while neither policies nor namespace change."""
    return memory.selected.get(
        name, (world.policies, world.namespace), lambda: select(world.policies, name, labels)
    )
