"""Where a decision is made: settings of the installation, and what the cluster says at this moment."""

from __future__ import annotations

import msgspec

from policy.classes import DEFAULT_TRUSTED_CONTROLLERS
from policy.keys import DEFAULT_EXCLUDED_NAMESPACES, Enforcement
from policy.objects import Namespace
from policy.profile import Profile
from policy.selection import PolicySet


class AdmissionSettings(msgspec.Struct, frozen=True):
    """What an administrator chose for all namespaces."""

    profile: Profile = Profile.OBSERVE
    excluded_namespaces: frozenset[str] = frozenset(DEFAULT_EXCLUDED_NAMESPACES)
    trusted_controllers: tuple[str, ...] = DEFAULT_TRUSTED_CONTROLLERS


class World(msgspec.Struct, frozen=True):
    """What the caches hold about one request; `namespace` None was not seen in time.

    `scoped_quota`: a ResourceQuota of the namespace counts GPUs of terminating or not terminating pods only.
    """

    policies: PolicySet
    namespace: Namespace | None
    scoped_quota: bool = False


class Scene(msgspec.Struct, frozen=True):
    """The part of settings and world that a single object's answer depends on; hashable."""

    profile: Profile
    enforcement: Enforcement
    scoped_quota: bool = False
