"""Makes a JSON patch over small projections of an object and proves it before it is sent.

A projection is the object reduced to what we may write: whether its maps exist, our own keys in them, and
its deadline. Knows no policy. A patch that does not apply would refuse the pod even under Ignore.

Which operations there are depends on the keys alone. So they are made, and proven, once for each set of keys
and then filled with values.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import Any

import jsonpatch
import msgspec

from policy.syntax import is_label_value
from webhook.answers import PatchOperation

ANNOTATIONS_LIMIT_BYTES = 256 * 1024
"""Keys and values of all annotations of one object together."""

Document = Mapping[str, Any]


class UnfitPatchError(ValueError):
    """A patch that must not be sent; the message says why."""


def make_patch(before: Document, after: Document) -> tuple[PatchOperation, ...]:
    """Gives the operations that turn one projection into the other, removals first, and proves that they do.

    Raises:
        UnfitPatchError: they do not, or a label or annotation would be invalid.
    """
    _check_metadata(after, before)
    return tuple(
        {"op": step.op, "path": step.path}
        if step.keys is None
        else {"op": step.op, "path": step.path, "value": _value_at(after, step.keys)}
        for step in _steps(_outline(before, after))
    )


REMEMBERED_KEYS = 100
"""Of an outline: a workload with thousands of templates has one that no other has, and is as large."""


class _Fate(Enum):
    """What becomes of one key of a projection."""

    REMOVED = auto()
    KEPT = auto()
    CHANGED = auto()
    ADDED = auto()


_STAGES: dict[_Fate, tuple[str | None, str | None, str | None]] = {
    _Fate.REMOVED: ("old", None, None),
    _Fate.KEPT: ("old", "old", "old"),
    _Fate.CHANGED: ("old", "old", "new"),
    _Fate.ADDED: (None, None, "new"),
}

_Outline = tuple[tuple[str, Any], ...]
"""The keys of two projections, each with its fate or, where both have a map, with the outline of that."""


class _Step(msgspec.Struct, frozen=True):
    """One operation without its value, which is found at `keys`; None removes."""

    op: str
    path: str
    keys: tuple[str, ...] | None


def _outline(before: Document, after: Document) -> _Outline:
    """Compares two projections: all that the operations depend on but their values."""
    parts: list[tuple[str, Any]] = []
    for key, value in before.items():
        if key not in after:
            parts.append((key, _Fate.REMOVED))
            continue
        other = after[key]
        if isinstance(value, dict) and isinstance(other, dict):
            parts.append((key, _outline(value, other)))
        else:
            parts.append((key, _Fate.KEPT if value == other else _Fate.CHANGED))
    parts += [(key, _Fate.ADDED) for key in after if key not in before]
    return tuple(parts)


def _steps(outline: _Outline) -> tuple[_Step, ...]:
    """The operations for all projections of an outline, remembered if it is small, as nearly all are."""
    return _known_steps(outline) if _size(outline) <= REMEMBERED_KEYS else _proven_steps(outline)


def _size(outline: _Outline) -> int:
    """How many keys an outline has."""
    return sum(1 if isinstance(fate, _Fate) else 1 + _size(fate) for _, fate in outline)


def _proven_steps(outline: _Outline) -> tuple[_Step, ...]:
    """Makes and proves the operations for all projections of an outline, on an example of it."""
    before, kept, after = _example(outline, 0), _example(outline, 1), _example(outline, 2)
    # In two steps, since a removal and an addition of equal values would become a `move`.
    operations = [*_difference(before, kept), *_difference(kept, after)]
    try:
        patched = jsonpatch.apply_patch(before, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        msg = f"the patch does not apply: {error}"
        raise UnfitPatchError(msg) from error
    if patched != after:
        msg = "the patch does not lead to what was decided"
        raise UnfitPatchError(msg)
    return tuple(
        _Step(one["op"], one["path"], _keys(one["path"]) if "value" in one else None) for one in operations
    )


_known_steps = lru_cache(maxsize=256)(_proven_steps)


def _example(outline: _Outline, stage: int) -> dict[str, Any]:
    """An example of the projection before (0), after the removals (1), and at the end (2)."""
    example: dict[str, Any] = {}
    for key, fate in outline:
        if isinstance(fate, tuple):
            example[key] = _example(fate, stage)
        else:
            value = _STAGES[fate][stage]
            if value is not None:
                example[key] = value
    return example


def _difference(before: Document, after: Document) -> list[PatchOperation]:
    """The operations of one step; no two of them touch the same place, so they may be put in order."""
    return sorted(jsonpatch.make_patch(before, after), key=lambda operation: str(operation["path"]))


def _keys(path: str) -> tuple[str, ...]:
    """The keys of a JSON pointer."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def _value_at(document: Document, keys: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON value
    """The value at some keys."""
    value: Any = document
    for key in keys:
        value = value[key]
    return value


def apply(document: Document, operations: tuple[PatchOperation, ...]) -> Any:  # noqa: ANN401 - any JSON document
    """Applies operations to a copy of a document."""
    return jsonpatch.apply_patch(document, list(operations))


def encode_patch(operations: tuple[PatchOperation, ...]) -> bytes:
    """Writes the operations as they go into an answer."""
    return msgspec.json.encode(operations)


def read_patch(encoded: bytes) -> tuple[PatchOperation, ...]:
    """Reads operations back as they went into an answer."""
    return tuple(msgspec.json.decode(encoded))


def annotations_bytes(annotations: Mapping[str, str] | None) -> int:
    """Counts annotations as the API server does: the bytes of keys and values."""
    if not annotations:
        return 0
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def _check_metadata(document: Document, before: Document) -> None:
    """Refuses label values, and sizes of annotations, that the API server would refuse, at any depth.

    Labels that are as they were are their sender's affair.
    """
    for key, value in document.items():
        if not isinstance(value, Mapping):
            continue
        old = before.get(key)
        old = old if isinstance(old, Mapping) else {}
        if key == "labels":
            _check_labels({label: text for label, text in value.items() if old.get(label) != text})
        elif key == "annotations" and annotations_bytes(value) > ANNOTATIONS_LIMIT_BYTES:
            msg = f"annotations would exceed {ANNOTATIONS_LIMIT_BYTES} bytes"
            raise UnfitPatchError(msg)
        else:
            _check_metadata(value, old)


def _check_labels(labels: Mapping[str, Any]) -> None:
    """Refuses a label value that is too long or holds other characters than labels may."""
    for label, value in labels.items():
        if not isinstance(value, str) or not is_label_value(value):
            msg = f"{label} would be no valid label value"
            raise UnfitPatchError(msg)
