"""The parts of Kubernetes objects that are read; ignores all other fields, and absent and null are None."""

from __future__ import annotations

from msgspec import Struct

Quantities = dict[str, str | int | float | None]
"""Resource names and quantities as written; see policy.quantities for their values."""


class OwnerReference(Struct, frozen=True, rename="camel"):
    """A reference to an object that owns this one."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""


class ObjectMeta(Struct, frozen=True, rename="camel"):
    """Metadata; times stay RFC 3339 texts."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The reference that says it controls the object; at most one may."""
        for reference in self.owner_references or ():
            if reference.controller:
                return reference
        return None


class ContainerClaim(Struct, frozen=True, rename="camel"):
    """A claim of the pod that a container uses; without `request` all of it."""

    name: str = ""
    request: str | None = None


class ResourceRequirements(Struct, frozen=True, rename="camel"):
    """What a container, or the pod as a whole, asks for."""

    limits: Quantities | None = None
    requests: Quantities | None = None
    claims: tuple[ContainerClaim, ...] | None = None


class Container(Struct, frozen=True, rename="camel"):
    """A container or an init container."""

    name: str = ""
    image: str | None = None
    restart_policy: str | None = None
    resources: ResourceRequirements | None = None


class ImageVolume(Struct, frozen=True, rename="camel"):
    """The image that a volume is made from."""

    reference: str | None = None


class Volume(Struct, frozen=True, rename="camel"):
    """A volume; of its sources only an image is read."""

    name: str = ""
    image: ImageVolume | None = None


class PodClaim(Struct, frozen=True, rename="camel"):
    """A resource claim of a pod: one made for it from a template, or one that exists."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Struct, frozen=True, rename="camel"):
    """A pod's specification."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    ephemeral_containers: tuple[Container, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    restart_policy: str | None = None
    active_deadline_seconds: int | None = None
    node_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    service_account_name: str | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    resource_claims: tuple[PodClaim, ...] | None = None


class ContainerRunning(Struct, frozen=True, rename="camel"):
    """The state of a container that runs."""

    started_at: str | None = None


class ContainerTerminated(Struct, frozen=True, rename="camel"):
    """How a container ended."""

    exit_code: int | None = None
    reason: str | None = None
    finished_at: str | None = None


class ContainerState(Struct, frozen=True, rename="camel"):
    """The state of a container; that of one that waits is not read."""

    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    """What the kubelet says of a container."""

    name: str = ""
    state: ContainerState | None = None
    restart_count: int | None = None
    ready: bool | None = None


class PodCondition(Struct, frozen=True):
    """One of the things that are true or false of a pod."""

    type: str = ""
    status: str = ""
    reason: str | None = None


class PodStatus(Struct, frozen=True, rename="camel"):
    """What the kubelet says of a pod."""

    phase: str | None = None
    reason: str | None = None
    conditions: tuple[PodCondition, ...] | None = None
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Struct, frozen=True, rename="camel"):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus | None = None
    api_version: str | None = None
    kind: str | None = None


class PodTemplate(Struct, frozen=True, rename="camel"):
    """What a workload's pods are made from."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class JobSpec(Struct, frozen=True, rename="camel"):
    """A Job's specification."""

    template: PodTemplate | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class Job(Struct, frozen=True, rename="camel"):
    """A Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    api_version: str | None = None
    kind: str | None = None


class JobTemplate(Struct, frozen=True, rename="camel"):
    """What a CronJob's Jobs are made from."""

    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class WorkloadSpec(Struct, frozen=True, rename="camel"):
    """The specification of anything that makes pods from a template."""

    template: PodTemplate | None = None
    job_template: JobTemplate | None = None
    replicas: int | None = None
    active_deadline_seconds: int | None = None


class Workload(Struct, frozen=True, rename="camel"):
    """Any object with a pod template: Deployment, StatefulSet, Job or CronJob."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec | None = None


class Namespace(Struct, frozen=True, rename="camel"):
    """A namespace."""

    metadata: ObjectMeta = ObjectMeta()
