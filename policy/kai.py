"""The part of a card that a pod asks KAI for by annotations; knows no containers' resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from msgspec import Struct

from policy.errors import FieldError
from policy.objects import PodSpec
from policy.resources import IMPLIED, ResourceTable
from policy.vendors import KAI_CONTAINER, KAI_DEVICES, KAI_FRACTION, KAI_MEMORY, KAI_PREFIX

_FRACTION: Final = re.compile(r"[0-9]{0,3}(?:\.[0-9]{0,9})?", re.ASCII)
_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_MILLI: Final = 1000


class Part(Struct, frozen=True):
    """A part of one or several cards.

    Attributes:
        counts: Thousandths of a card under `kai.scheduler/gpu-fraction`, mebibytes under
            `kai.scheduler/gpu-memory`; for all cards.
        spread: By how many the cards exceed the sum of their parts, rounded up.
        container: Who holds it, empty if the pod has no container.
    """

    counts: dict[str, int]
    spread: int
    container: str


def part_of(
    annotations: Mapping[str, str], spec: PodSpec, table: ResourceTable, problems: list[FieldError]
) -> Part | None:
    """What the annotations ask for, None if nothing; what cannot be read is added to `problems`."""
    fraction, memory = (_asked(annotations, key, table) for key in (KAI_FRACTION, KAI_MEMORY))
    if fraction is None and memory is None:
        return None
    devices = _number(annotations.get(KAI_DEVICES, "1"), KAI_DEVICES, problems) or 1
    counts: dict[str, int] = {}
    spread = 0
    if fraction is not None:
        milli = _thousandths(fraction, problems) * devices
        if milli:
            counts[f"{KAI_PREFIX}{KAI_FRACTION}"] = milli
            spread = max(0, devices - -(-milli // _MILLI))
    if memory is not None:
        mebibytes = _number(memory, KAI_MEMORY, problems) * devices
        if mebibytes:
            counts |= {} if counts else {IMPLIED: devices}
            counts[f"{KAI_PREFIX}{KAI_MEMORY}"] = mebibytes
    first = next((container.name for container in spec.containers or ()), "")
    return Part(counts, spread, annotations.get(KAI_CONTAINER) or first if counts else "")


def _asked(annotations: Mapping[str, str], key: str, table: ResourceTable) -> str | None:
    """The value of an annotation, None if it is absent or the table takes its name out."""
    value = annotations.get(key)
    return value if value is not None and table.known(f"{KAI_PREFIX}{key}") is not None else None


def _thousandths(text: str, problems: list[FieldError]) -> int:
    """A fraction of a card in thousandths, rounded up; 0 with a problem if it is none."""
    if _FRACTION.fullmatch(text) and text.strip("."):
        fraction = Fraction(text)
        if fraction <= 1:
            return -(-fraction.numerator * _MILLI // fraction.denominator)
    problems.append(_problem(KAI_FRACTION, "must be a fraction of a card such as 0.5", text))
    return 0


def _number(text: str, key: str, problems: list[FieldError]) -> int:
    """A whole number; 0 with a problem if it is none."""
    if _WHOLE.fullmatch(text):
        return int(text)
    problems.append(_problem(key, "must be a whole number", text))
    return 0


def _problem(key: str, message: str, text: str) -> FieldError:
    return FieldError(f"metadata.annotations[{key}]", f"{message} (is {text[:40]})")
