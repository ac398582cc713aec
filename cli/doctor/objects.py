"""The parts of Kubernetes objects that the checks look at; ignores all other fields and judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from policy.objects import ObjectMeta, Quantities

VERSION_LABEL: Final = "app.kubernetes.io/version"


class Variable(Struct, frozen=True):
    """A variable of a container; one that comes from elsewhere has no value here."""

    name: str = ""
    value: str = ""


class Container(Struct, frozen=True):
    """A container of a component."""

    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None


class SecretVolume(Struct, frozen=True, rename="camel"):
    """The Secret that a volume is made from."""

    secret_name: str = ""


class Volume(Struct, frozen=True):
    """A volume."""

    name: str = ""
    secret: SecretVolume | None = None


class PodSpec(Struct, frozen=True):
    """What a component's pods are."""

    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] | None = None


class Template(Struct, frozen=True):
    """A pod template."""

    spec: PodSpec = PodSpec()


class JobSpec(Struct, frozen=True):
    """What a CronJob's Jobs are."""

    template: Template = Template()


class JobTemplate(Struct, frozen=True):
    """The template of a CronJob's Jobs."""

    spec: JobSpec = JobSpec()


class ComponentSpec(Struct, frozen=True, rename="camel"):
    """The specification of a Deployment, or of a CronJob."""

    replicas: int = 1
    template: Template | None = None
    job_template: JobTemplate | None = None
    suspend: bool | None = None


class ComponentStatus(Struct, frozen=True, rename="camel"):
    """How it is with a Deployment."""

    ready_replicas: int = 0


class Component(Struct, frozen=True):
    """A Deployment or a CronJob of ours."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ComponentSpec = ComponentSpec()
    status: ComponentStatus = ComponentStatus()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name or ""

    @property
    def version(self) -> str:
        """The version that its labels name; empty if they name none."""
        return (self.metadata.labels or {}).get(VERSION_LABEL, "")

    @property
    def pod(self) -> PodSpec:
        """What its pods are."""
        if self.spec.job_template is not None:
            return self.spec.job_template.spec.template.spec
        return self.spec.template.spec if self.spec.template is not None else PodSpec()

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of its first container."""
        containers = self.pod.containers
        return {one.name: one.value for one in (containers[0].env or ())} if containers else {}

    def secret(self, volume: str) -> str:
        """The Secret of a volume; empty if there is none."""
        found = (
            one.secret.secret_name for one in self.pod.volumes or () if one.name == volume and one.secret
        )
        return next(found, "")


class Named(Struct, frozen=True):
    """Any object, of which the name and the labels are enough."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name or ""


class Condition(Struct, frozen=True):
    """Something that is true or false of an object."""

    type: str = ""
    status: str = ""


class DefinitionStatus(Struct, frozen=True):
    """How it is with a definition."""

    conditions: tuple[Condition, ...] | None = None


class ServedVersion(Struct, frozen=True):
    """A version of a kind."""

    name: str = ""
    served: bool = False


class DefinitionSpec(Struct, frozen=True):
    """What a definition defines."""

    group: str = ""
    versions: tuple[ServedVersion, ...] = ()


class Definition(Struct, frozen=True):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()

    @property
    def established(self) -> bool:
        """Whether its objects can be used."""
        return Condition("Established", "True") in (self.status.conditions or ())


class LeaseSpec(Struct, frozen=True, rename="camel"):
    """Who holds a Lease, since when and for how long."""

    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class Lease(Struct, frozen=True):
    """A Lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class Taint(Struct, frozen=True):
    """What keeps pods off a node."""

    key: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    """What a node takes."""

    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class NodeStatus(Struct, frozen=True):
    """What a node has."""

    allocatable: Quantities | None = None


class Node(Struct, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Secret(Struct, frozen=True):
    """The keys of a Secret; its values are dropped as soon as they are read."""

    data: dict[str, object] | None = None
