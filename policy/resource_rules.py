"""What one row of the table of GPU resources says, and how configuration writes one; knows no vendor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from policy.errors import FieldError, InvalidError

MAX_PATTERN: Final = 200
"""Longer patterns cost the API server too much per name."""

_SUBSET: Final = re.compile(
    r"(?:[A-Za-z0-9/_:-]|\\[.+-]|\.|\[[A-Za-z0-9._+-]+\]|\|"
    r"|(?:(?<=[A-Za-z0-9/_.\]:-])[*+?]|\{[0-9]{1,2}(?:,[0-9]{0,2})?\}|\((?:\?:)?|\)\??))+"
)
"""The part of regular expressions that Python and RE2 read alike, and that never takes exponential time."""

_WEIGHT: Final = re.compile(r"[0-9]{1,9}(?:/[1-9][0-9]{0,8})?")
_ONE: Final = Fraction(1)
_NONE: Final = Fraction(0)


class Unit(StrEnum):
    """What one unit of a resource is."""

    DEVICE = "device"
    SHARE = "share"
    SLICE = "slice"
    MEMORY = "memory"
    CORE = "core"
    COMPANION = "companion"
    NOTHING = "nothing"

    @property
    def counts(self) -> bool:
        """Whether a unit is something a pod holds, rather than a property of what it holds."""
        return self in {Unit.DEVICE, Unit.SHARE, Unit.SLICE}


class ResourceRule(Struct, frozen=True, kw_only=True):
    """Resource names that match `pattern` in full (a pattern that RE2 reads too).

    Attributes:
        pattern: A regular expression.
        vendor: Who makes the device, or shares it.
        unit: What one unit is. `nothing` takes names out that a later row would match.
        weight: The share of a card that one unit weighs; None is 1 for what is held, else 0.
        profiles: Patterns with weights of their own; the first that matches in full wins over `weight`.
        of: For companions, the device that they describe; may refer to groups of the pattern.
        each: Whether a companion's amount is meant per device.
        whole: How many units make one device, where they do not count devices one by one.
        examples: Names that match.
    """

    pattern: str
    vendor: str
    unit: Unit
    weight: Fraction | None = None
    profiles: tuple[tuple[str, Fraction], ...] = ()
    of: str = ""
    each: bool = True
    whole: int = 1
    examples: tuple[str, ...] = ()

    def weight_of(self, name: str) -> Fraction:
        """The share of a card that one unit of this name weighs."""
        for pattern, weight in self.profiles:
            if compiled(pattern).fullmatch(name):
                return weight
        if self.weight is not None:
            return self.weight
        return Fraction(1, self.whole) if self.unit.counts else _NONE


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern as it is matched; RE2's flag is `s`, and its classes are always ASCII.

    All are of the configuration. Looking each up in the library's own cache is most of the work for pods with
    thousands of names.
    """
    return re.compile(pattern, re.ASCII | re.DOTALL)


class _Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A row as configuration writes it."""

    pattern: str
    unit: Unit
    vendor: str = "other"
    weight: str | int | None = None
    of: str = ""
    each: bool = True
    whole: int = 1


def parse_rules(rows: Sequence[Mapping[str, Any]], path: str = "gpuResources") -> tuple[ResourceRule, ...]:
    """Reads rows of configuration: `{pattern, unit, vendor, weight: 1/4, of, each, whole}`.

    Raises:
        InvalidError: with everything that is wrong.
    """
    rules: list[ResourceRule] = []
    errors: list[FieldError] = []
    for index, raw in enumerate(rows):
        where = f"{path}[{index}]"
        try:
            row = msgspec.convert(raw, _Row)
        except msgspec.ValidationError as error:
            errors.append(FieldError(where, _worded(error)))
            continue
        found = list(_errors(row, where))
        errors += found
        if not found:
            weight = None if row.weight is None else Fraction(row.weight)
            rules.append(
                ResourceRule(
                    pattern=row.pattern,
                    vendor=row.vendor,
                    unit=row.unit,
                    weight=weight,
                    of=row.of,
                    each=row.each,
                    whole=row.whole,
                )
            )
    if errors:
        raise InvalidError(errors)
    return tuple(rules)


def _errors(row: _Row, where: str) -> list[FieldError]:
    """Everything that is wrong with the values of a row."""
    errors = []
    if not _is_pattern(row.pattern):
        message = rf"must be a plain regular expression such as example\.com/gpu-[a-z0-9]+ (is {row.pattern})"
        errors.append(FieldError(f"{where}.pattern", message))
    if row.weight is not None and not (
        _WEIGHT.fullmatch(str(row.weight)) and _NONE <= Fraction(row.weight) <= _ONE
    ):
        errors.append(
            FieldError(f"{where}.weight", f"must be a fraction from 0 to 1 such as 1/4 (is {row.weight})")
        )
    if row.whole < 1:
        errors.append(FieldError(f"{where}.whole", f"must be at least 1 (is {row.whole})"))
    if row.of and row.unit.counts:
        errors.append(FieldError(f"{where}.of", f"belongs to companions, and the unit is {row.unit}"))
    if row.of and re.search(r"\\", row.of):
        errors.append(FieldError(f"{where}.of", f"must be the name of a resource (is {row.of})"))
    return errors


def _is_pattern(pattern: str) -> bool:
    """Whether Python and the API server would match the same names by it."""
    if not 0 < len(pattern) <= MAX_PATTERN or _SUBSET.fullmatch(pattern) is None:
        return False
    try:
        compiled(pattern)
    except re.error:
        return False
    return True


def _worded(error: msgspec.ValidationError) -> str:
    """The library's message as a part of ours."""
    message, _, place = str(error).partition(" - at `$.")
    field = place.rstrip("`")
    return f"{field}: {message[:1].lower()}{message[1:]}" if field else f"{message[:1].lower()}{message[1:]}"
