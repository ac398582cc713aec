"""The names of GPU resources, as data; knows nothing of pods."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct


class Unit(StrEnum):
    """What one unit of a resource is."""

    DEVICE = "device"
    SHARE = "share"
    SLICE = "slice"
    MEMORY = "memory"
    CORE = "core"

    @property
    def counts(self) -> bool:
        """Whether a unit is something a pod holds, rather than a property of what it holds."""
        return self in {Unit.DEVICE, Unit.SHARE, Unit.SLICE}


class ResourceRule(Struct, frozen=True):
    """Resource names that match `pattern` in full (a pattern that RE2 reads too)."""

    pattern: str
    vendor: str
    unit: Unit


TABLE: Final[tuple[ResourceRule, ...]] = (
    ResourceRule(r"nvidia\.com/gpu", "nvidia", Unit.DEVICE),
    ResourceRule(r"nvidia\.com/gpu\.shared", "nvidia", Unit.SHARE),
    ResourceRule(r"nvidia\.com/mig-[a-z0-9.+-]+", "nvidia", Unit.SLICE),
    ResourceRule(r"nvidia\.com/gpumem", "hami", Unit.MEMORY),
    ResourceRule(r"nvidia\.com/gpumem-percentage", "hami", Unit.MEMORY),
    ResourceRule(r"nvidia\.com/gpucores", "hami", Unit.CORE),
    ResourceRule(r"amd\.com/gpu", "amd", Unit.DEVICE),
)
"""Every name that makes a pod a GPU pod; HAMi's companions are per device."""

_COMPILED: Final = tuple((re.compile(rule.pattern), rule) for rule in TABLE)


@lru_cache(maxsize=1024)
def rule_of(name: str) -> ResourceRule | None:
    """The first rule whose pattern matches the whole name, or None for a name that is no GPU's."""
    for pattern, rule in _COMPILED:
        if pattern.fullmatch(name):
            return rule
    return None


def is_gpu(name: str) -> bool:
    """Whether a resource of this name makes its pod a GPU pod."""
    return rule_of(name) is not None
