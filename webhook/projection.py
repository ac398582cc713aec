"""Projects single values of an object, wherever they lie, for a patch; knows neither kinds nor keys of ours.

Lists become mappings by index: what is written lies inside their items, and the paths are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policy.workloads import Path

Writes = Mapping[Path, str | int | None]
"""The value to be found at each path; None for none."""


def project(tree: object, writes: Writes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The object reduced to what is written: as it is, and as it shall be.

    What lies behind something of another form than a mapping or list is left alone.
    """
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for path, value in writes.items():
        if not _is_reachable(tree, path):
            continue
        present = value_at(tree, path)
        if present is not None:
            _place(before, path)[path[-1]] = present
        else:
            _place_existing(before, tree, path)
        if value is not None:
            _place(after, path)[path[-1]] = value
        else:
            _place_existing(after, tree, path)
    return before, after


def value_at(tree: object, path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a path, None where there is none."""
    node: Any = tree
    for key in path:
        node = _child(node, key)
    return node


def _child(node: object, key: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a key of a mapping or an index of a list, None where there is none."""
    if isinstance(node, Mapping):
        return node.get(key)
    if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
        return node[int(key)]
    return None


def _is_reachable(tree: object, path: Path) -> bool:
    """Whether every parent that exists can hold what comes next; adding to a list would shift its items."""
    node = tree
    for key in path[:-1]:
        parent, node = node, _child(node, key)
        if node is None:
            return isinstance(parent, Mapping)
    return isinstance(node, Mapping)


def _place(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """Makes all parents of a path; returns the innermost."""
    for key in path[:-1]:
        document = document.setdefault(key, {})
    return document


def _place_existing(document: dict[str, Any], tree: object, path: Path) -> None:
    """Makes those parents of a path that exist."""
    node = tree
    for key in path[:-1]:
        node = _child(node, key)
        if node is None:
            return
        document = document.setdefault(key, {})
