"""The table of GPU resources: which names make a GPU pod, and what each weighs; knows nothing of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct

from policy.resource_rules import ResourceRule, Unit, compiled, parse_rules
from policy.vendors import BUILT_IN

__all__ = [
    "BUILT_IN_TABLE",
    "IMPLIED",
    "TABLE",
    "Known",
    "ResourceRule",
    "ResourceTable",
    "Unit",
    "is_gpu",
    "parse_table",
    "rule_of",
    "weight_of",
]

MEMORY_LIMIT: Final = 32_768
"""Names that a table remembers; users can send any number of them."""

LONGEST_NAME: Final = 317
"""Characters of a name that is valid: admission sees others too, as long as a request may be."""

IMPLIED: Final = "gpu-tenure.io/implied-device"
"""Stands for a device that a scheduler gives to a container which names only its memory or cores."""

TABLE: Final[tuple[ResourceRule, ...]] = BUILT_IN
"""Every built-in row."""


class Known(Struct, frozen=True):
    """What the table says of one name; `of` is the device that a companion describes, empty for others."""

    rule: ResourceRule
    weight: Fraction
    of: str = ""


class ResourceTable:
    """Rows in the order in which they are tried, with what was looked up remembered."""

    def __init__(self, rules: Sequence[ResourceRule]) -> None:
        self.rules = tuple(rules)
        self._compiled = tuple((compiled(rule.pattern), rule) for rule in self.rules)
        self._known: dict[str, Known | None] = {}

    def known(self, name: str) -> Known | None:
        """What the first row that matches the whole name says; None for a name that is no GPU's."""
        try:
            return self._known[name]
        except KeyError:
            found = self._look_up(name)
            if len(name) > LONGEST_NAME:
                return found
            if len(self._known) >= MEMORY_LIMIT:
                self._known.clear()
            self._known[name] = found
            return found

    def rule_of(self, name: str) -> ResourceRule | None:
        """The row that holds for a name, or None."""
        known = self.known(name)
        return known.rule if known is not None else None

    def weight_of(self, name: str) -> Fraction:
        """The share of a card that one unit weighs: exact, 0 for companions and unknown names."""
        if name == IMPLIED:
            return Fraction(1)
        known = self.known(name)
        return known.weight if known is not None else Fraction(0)

    def weigh(self, counts: Mapping[str, int]) -> Fraction:
        """How many cards the counts amount to, exactly."""
        return sum((self.weight_of(name) * count for name, count in counts.items()), Fraction(0))

    def _look_up(self, name: str) -> Known | None:
        """Tries the rows; a name without a domain is Kubernetes' own, and no device's."""
        if "/" not in name:
            return None
        for pattern, rule in self._compiled:
            match = pattern.fullmatch(name)
            if match is not None:
                if rule.unit is Unit.NOTHING:
                    return None
                return Known(rule, rule.weight_of(name), match.expand(rule.of) if rule.of else "")
        return None


BUILT_IN_TABLE: Final = ResourceTable(TABLE)
"""The table without any configuration."""


def parse_table(rows: Sequence[Mapping[str, Any]], path: str = "gpuResources") -> ResourceTable:
    """The table with rows of configuration tried before the built-in ones.

    Raises:
        InvalidError: a row is not valid.
    """
    return ResourceTable((*parse_rules(rows, path), *TABLE)) if rows else BUILT_IN_TABLE


def rule_of(name: str) -> ResourceRule | None:
    """The built-in row that holds for a name, or None for a name that is no GPU's."""
    return BUILT_IN_TABLE.rule_of(name)


def weight_of(name: str) -> Fraction:
    """The built-in weight of one unit of a name, as a share of a card."""
    return BUILT_IN_TABLE.weight_of(name)


def is_gpu(name: str) -> bool:
    """Whether a resource of this name makes its pod a GPU pod by the built-in table."""
    return BUILT_IN_TABLE.known(name) is not None
