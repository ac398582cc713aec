"""What admission asks of the caches, as protocols; does not know who keeps them, or how."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from policy.claims import ClaimTemplate
from policy.objects import Namespace
from policy.resourcequota import NO_QUOTAS, NamespaceQuotas
from policy.scheduling import PriorityClasses
from policy.selection import PolicySet
from webhook.scene import no_template


class Known(Protocol):
    """What the webhook asks of the caches; runtime.catalog.Catalog has it."""

    @property
    def policies(self) -> PolicySet:
        """All policies."""
        ...

    @property
    def synced(self) -> bool:
        """Whether policies and namespaces have been read."""
        ...

    def namespace(self, name: str) -> Namespace | None:
        """A namespace, None if it is not known."""
        ...

    async def wait_namespace(self, name: str, timeout: float) -> Namespace | None:  # noqa: ASYNC109 - see runtime
        """A namespace, waiting at most `timeout` seconds for it."""
        ...


class Around(Protocol):
    """What else of the cluster counts; webhook.surroundings.Surroundings has it."""

    @property
    def priority_classes(self) -> PriorityClasses:
        """All PriorityClasses."""
        ...

    def quotas(self, namespace: str) -> NamespaceQuotas:
        """What the ResourceQuotas of a namespace mean."""
        ...

    def claim_template(self, namespace: str, name: str) -> ClaimTemplate | None:
        """A ResourceClaimTemplate, None if it is not known."""
        ...

    async def wait_claims(self, namespace: str, names: Collection[str], timeout: float) -> bool:  # noqa: ASYNC109 - see runtime
        """Waits for claim templates; returns whether all are known."""
        ...


class NothingAround:
    """No ResourceQuotas, PriorityClasses or claim templates."""

    priority_classes = PriorityClasses()

    def quotas(self, namespace: str) -> NamespaceQuotas:  # noqa: ARG002 - there are none anywhere
        """None in any namespace."""
        return NO_QUOTAS

    def claim_template(self, namespace: str, name: str) -> ClaimTemplate | None:
        """None in any namespace."""
        return no_template(namespace, name)

    async def wait_claims(self, namespace: str, names: Collection[str], timeout: float) -> bool:  # noqa: ARG002, ASYNC109 - nothing comes
        """Does not wait."""
        return False
