"""The parts of webhook configurations and guards that the checks look at; judges nothing."""

from __future__ import annotations

from msgspec import Struct, field

from policy.objects import ObjectMeta


class ServiceReference(Struct, frozen=True):
    """The Service that a webhook is reached by."""

    name: str = ""
    namespace: str = ""


class ClientConfig(Struct, frozen=True, rename="camel"):
    """How the API server reaches a webhook."""

    ca_bundle: str = ""
    url: str | None = None
    service: ServiceReference | None = None


class Webhook(Struct, frozen=True, rename="camel"):
    """One webhook of a configuration."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()
    failure_policy: str = ""


class Configuration(Struct, frozen=True):
    """A webhook configuration."""

    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[Webhook, ...] | None = None


class Endpoint(Struct, frozen=True):
    """What stands behind a Service."""

    addresses: tuple[str, ...] = ()
    conditions: dict[str, bool | None] = field(default_factory=dict)


class EndpointSlice(Struct, frozen=True):
    """Some of what stands behind a Service."""

    endpoints: tuple[Endpoint, ...] | None = None

    @property
    def ready(self) -> int:
        """How many of them take requests; what says nothing is ready."""
        return sum(one.conditions.get("ready") is not False for one in self.endpoints or ())


class ExpressionWarning(Struct, frozen=True, rename="camel"):
    """Where an expression of a guard does not fit the types."""

    field_ref: str = ""
    warning: str = ""


class TypeChecking(Struct, frozen=True, rename="camel"):
    """What the API server found when it checked the types."""

    expression_warnings: tuple[ExpressionWarning, ...] | None = None


class GuardStatus(Struct, frozen=True, rename="camel"):
    """How it is with a guard."""

    type_checking: TypeChecking | None = None


class Guard(Struct, frozen=True):
    """A ValidatingAdmissionPolicy."""

    metadata: ObjectMeta = ObjectMeta()
    status: GuardStatus = GuardStatus()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where its expressions do not fit the types."""
        found = self.status.type_checking.expression_warnings if self.status.type_checking else None
        return tuple(f"{one.field_ref}: {' '.join(one.warning.split())}" for one in found or ())


class BindingSpec(Struct, frozen=True, rename="camel"):
    """What a binding puts in force, and how."""

    policy_name: str = ""
    validation_actions: tuple[str, ...] | None = None


class Binding(Struct, frozen=True):
    """A ValidatingAdmissionPolicyBinding."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BindingSpec = BindingSpec()
