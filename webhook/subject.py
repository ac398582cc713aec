"""Finds out whether a review is about a GPU object of ours, and which policy applies; pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from policy.classes import ClassDecision, ClassSettings, class_of
from policy.devices import Devices, devices_of
from policy.keys import Enforcement, enforcement_of
from policy.objects import Container, ObjectMeta, Pod, PodSpec
from policy.selection import Selected, select
from webhook.decision import Outcome
from webhook.memo import Memo
from webhook.own import own_pod
from webhook.review import Request
from webhook.scene import AdmissionSettings, Scene, World
from webhook.settle import Settled, settle_pod

CREATE = "CREATE"


class Memory:
    """What one process remembers between requests; without effect on any answer."""

    def __init__(self) -> None:
        self.devices: Memo[Devices] = Memo(1024)
        self.selected: Memo[Selected] = Memo(16384)
        self.settled: Memo[Settled] = Memo(1024)


class Subject(msgspec.Struct, frozen=True):
    """A GPU object that a decision is made about, and the policy that applies to it."""

    request: Request
    devices: Devices
    selected: Selected
    scene: Scene

    @property
    def metadata(self) -> ObjectMeta | None:
        """The object's metadata, None where it has none."""
        return self.request.object.metadata if self.request.object is not None else None


def find_subject(
    request: Request, spec: PodSpec | None, world: World, settings: AdmissionSettings, memory: Memory
) -> Subject | Outcome:
    """The subject of a review whose pods have the given specification, or why there is none."""
    if request.operation != CREATE or request.sub_resource:
        return Outcome.NOT_CREATE
    if request.namespace in settings.excluded_namespaces:
        return Outcome.EXCLUDED
    devices = _devices(spec, memory) if spec is not None else None
    if devices is None or not devices.is_gpu:
        return Outcome.NOT_GPU
    if world.namespace is None:
        return Outcome.NAMESPACE_UNKNOWN
    labels = world.namespace.metadata.labels
    enforcement = enforcement_of(labels)
    if enforcement is Enforcement.DISABLED:
        return Outcome.OPTED_OUT
    scene = Scene(settings.profile, enforcement, world.scoped_quota)
    return Subject(request, devices, _selected(request.namespace, labels, world, memory), scene)


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
    own = own_pod(pod, metadata_exists=subject.metadata is not None)
    policy, scene = subject.selected.policy, subject.scene
    # Names and UIDs of controllers do not matter; with them hardly two pods would look alike.
    key = (own, decision.pod_class, decision.standing, decision.controller is None, decision.is_job, scene)
    return memory.settled.get(key, (policy,), lambda: settle_pod(own, decision, policy, scene))


def _devices(spec: PodSpec, memory: Memory) -> Devices:
    """What the pods hold, remembered by what their containers ask for."""
    key = (_resources(spec.init_containers), _resources(spec.containers))
    return memory.devices.get(key, (), lambda: devices_of(spec))


def _resources(containers: tuple[Container, ...] | None) -> tuple[object, ...]:
    """All that counting devices looks at, hashable."""
    return tuple(
        [
            (container.name, container.restart_policy)
            if container.resources is None
            else (
                container.name,
                container.restart_policy,
                _pairs(container.resources.limits),
                _pairs(container.resources.requests),
            )
            for container in containers or ()
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
