"""Where a decision is made: settings of the installation, and what the cluster says at this moment."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from policy.claims import ClaimTemplate
from policy.classes import DEFAULT_TRUSTED_CONTROLLERS
from policy.keys import DEFAULT_EXCLUDED_NAMESPACES, Enforcement
from policy.objects import Namespace
from policy.profile import Profile
from policy.requester import RequesterSource
from policy.resourcequota import NO_QUOTAS, NamespaceQuotas
from policy.resources import BUILT_IN_TABLE, ResourceTable
from policy.scheduling import PriorityClasses
from policy.selection import PolicySet


class AdmissionSettings(msgspec.Struct, frozen=True):
    """What an administrator chose for all namespaces."""

    profile: Profile = Profile.OBSERVE
    excluded_namespaces: frozenset[str] = frozenset(DEFAULT_EXCLUDED_NAMESPACES)
    trusted_controllers: tuple[str, ...] = DEFAULT_TRUSTED_CONTROLLERS
    requester_sources: tuple[RequesterSource, ...] = ()
    table: ResourceTable = BUILT_IN_TABLE


def no_template(_: str, __: str) -> ClaimTemplate | None:
    """Knows no ResourceClaimTemplate."""
    return None


class World(msgspec.Struct, frozen=True):
    """What the caches hold about one request; `namespace` None was not seen in time.

    `claim_template` finds a ResourceClaimTemplate by namespace and name.
    """

    policies: PolicySet
    namespace: Namespace | None
    quotas: NamespaceQuotas = NO_QUOTAS
    priority_classes: PriorityClasses = PriorityClasses()
    claim_template: Callable[[str, str], ClaimTemplate | None] = no_template


class Scene(msgspec.Struct, frozen=True):
    """The part of settings and world that a single object's answer depends on; hashable.

    `scoped_quota`: a ResourceQuota of the namespace counts GPUs of terminating or not terminating pods only.
    `priority_class` is the policy's where such a class exists; `default_class` the one that pods get by
    themselves.
    """

    profile: Profile
    enforcement: Enforcement
    scoped_quota: bool = False
    priority_class: str | None = None
    default_class: str | None = None
