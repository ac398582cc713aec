"""Makes a JSON patch over small projections of an object and proves it before it is sent.

A projection is the object reduced to what we may write: whether its maps exist, our own keys in them, and
its deadline. Knows no policy. A patch that does not apply would refuse the pod even under Ignore.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec

from webhook.answers import PatchOperation

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
"""Label values as the API server takes them: at most 63 characters."""

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
    _check_metadata(after)
    # In two steps, since a removal and an addition of equal values would become a `move`.
    kept = _without_removed(before, after)
    operations = (*_difference(before, kept), *_difference(kept, after))
    try:
        patched = jsonpatch.apply_patch(before, list(operations))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        msg = f"the patch does not apply: {error}"
        raise UnfitPatchError(msg) from error
    if patched != after:
        msg = "the patch does not lead to what was decided"
        raise UnfitPatchError(msg)
    return operations


def _difference(before: Document, after: Document) -> list[PatchOperation]:
    """The operations of one step; no two of them touch the same place, so they may be put in order."""
    return sorted(jsonpatch.make_patch(before, after), key=lambda operation: str(operation["path"]))


def apply(document: Document, operations: tuple[PatchOperation, ...]) -> Any:  # noqa: ANN401 - any JSON document
    """Applies operations to a copy of a document."""
    return jsonpatch.apply_patch(document, list(operations))


def encode_patch(operations: tuple[PatchOperation, ...]) -> bytes:
    """Writes the operations as they go into an answer."""
    return msgspec.json.encode(operations)


def annotations_bytes(annotations: Mapping[str, str] | None) -> int:
    """Counts annotations as the API server does: the bytes of keys and values."""
    if not annotations:
        return 0
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def _without_removed(before: Document, after: Document) -> dict[str, Any]:
    """Drops from `before` every key that `after` lacks, at any depth."""
    kept: dict[str, Any] = {}
    for key, value in before.items():
        if key not in after:
            continue
        other = after[key]
        nested = isinstance(value, Mapping) and isinstance(other, Mapping)
        kept[key] = _without_removed(value, other) if nested else value
    return kept


def _check_metadata(document: Document) -> None:
    """Refuses label values, and sizes of annotations, that the API server would refuse, at any depth."""
    for key, value in document.items():
        if not isinstance(value, Mapping):
            continue
        if key == "labels":
            _check_labels(value)
        elif key == "annotations" and annotations_bytes(value) > ANNOTATIONS_LIMIT_BYTES:
            msg = f"annotations would exceed {ANNOTATIONS_LIMIT_BYTES} bytes"
            raise UnfitPatchError(msg)
        else:
            _check_metadata(value)


def _check_labels(labels: Mapping[str, Any]) -> None:
    """Refuses a label value that is too long or holds other characters than labels may."""
    for label, value in labels.items():
        if not isinstance(value, str) or LABEL_VALUE.fullmatch(value) is None:
            msg = f"{label} would be no valid label value"
            raise UnfitPatchError(msg)
