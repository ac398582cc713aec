"""What a ResourceQuota means for GPU pods: whether a scope counts them, what it leaves; changes nothing."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from policy.errors import FormatError
from policy.objects import ObjectMeta, Quantities
from policy.quantities import parse_quantity
from policy.resources import BUILT_IN_TABLE, ResourceTable

KIND: Final = "ResourceQuota"
DEADLINE_SCOPES: Final = frozenset({"Terminating", "NotTerminating"})
"""Scopes that a pod enters or leaves with its `activeDeadlineSeconds`."""
_REQUESTS: Final = "requests."


class ScopeTerm(Struct, frozen=True, rename="camel"):
    """One expression of a scope selector."""

    scope_name: str = ""


class ScopeSelector(Struct, frozen=True, rename="camel"):
    """The scopes of a quota, in their longer form."""

    match_expressions: tuple[ScopeTerm, ...] | None = None


class ResourceQuotaSpec(Struct, frozen=True, rename="camel"):
    """What a quota allows."""

    hard: Quantities | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct, frozen=True):
    """What the API server has counted."""

    hard: Quantities | None = None
    used: Quantities | None = None


class ResourceQuota(Struct, frozen=True):
    """A ResourceQuota."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()

    @property
    def scopes(self) -> frozenset[str]:
        """The names of all scopes, in whichever form they are written."""
        selector = self.spec.scope_selector
        terms = (selector.match_expressions if selector is not None else None) or ()
        return frozenset((*(self.spec.scopes or ()), *(term.scope_name for term in terms)))


class Room(Struct, frozen=True):
    """What one quota leaves of one resource; `kind` and `name` say which quota it is."""

    kind: str
    name: str
    resource: str
    hard: int
    used: int

    @property
    def left(self) -> int:
        """How many may still be asked for, never below none."""
        return max(self.hard - self.used, 0)


class NamespaceQuotas(Struct, frozen=True):
    """What the quotas of a namespace mean for its GPU pods.

    `scoped`: a Terminating or NotTerminating quota counts GPUs, so that a deadline would move a pod from the
    one to the other.
    """

    scoped: bool = False
    rooms: tuple[Room, ...] = ()


NO_QUOTAS: Final = NamespaceQuotas()


def namespace_quotas(
    quotas: tuple[ResourceQuota, ...], table: ResourceTable = BUILT_IN_TABLE
) -> NamespaceQuotas:
    """Puts the quotas of one namespace together."""
    rooms = tuple(room for quota in quotas for room in rooms_of(quota, table))
    return NamespaceQuotas(any(is_scoped(quota, table) for quota in quotas), rooms)


def is_scoped(quota: ResourceQuota, table: ResourceTable = BUILT_IN_TABLE) -> bool:
    """Whether the quota counts GPUs of terminating, or of not terminating, pods only."""
    return not DEADLINE_SCOPES.isdisjoint(quota.scopes) and any(
        gpu_resource(key, table) for key in quota.spec.hard or {}
    )


def rooms_of(quota: ResourceQuota, table: ResourceTable = BUILT_IN_TABLE) -> tuple[Room, ...]:
    """What a quota without scopes leaves; what has not been counted yet, or cannot be read, is left out."""
    if quota.scopes:
        return ()
    rooms: list[Room] = []
    used = quota.status.used or {}
    for key, hard in (quota.status.hard or {}).items():
        resource = gpu_resource(key, table)
        if resource is None or key not in used:
            continue
        try:
            # Whatever is left of a device is no device.
            limit, taken = int(parse_quantity(hard)), int(parse_quantity(used[key]))
        except FormatError:
            continue
        rooms.append(Room(KIND, quota.metadata.name or "", resource, limit, taken))
    return tuple(rooms)


def gpu_resource(key: str, table: ResourceTable = BUILT_IN_TABLE) -> str | None:
    """The GPU resource that a key of a quota counts, None for others; extended ones count as requests."""
    resource = key.removeprefix(_REQUESTS)
    return resource if resource != key and table.rule_of(resource) is not None else None
