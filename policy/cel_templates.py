"""Where the pods of a workload get their annotations from, as CEL, from the table of kinds; knows no chart.

An object is `OBJECT` in the expressions. Kinds of the same places share one branch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from policy.workloads import WorkloadKind

OBJECT: Final = "OBJECT"
_MAPPINGS: Final = "ReplicaSpecs"
"""How the names of fields end whose `*` are the keys of a mapping; all others are lists."""


def inherited(kinds: Iterable[WorkloadKind]) -> str:
    """A list of what carries, as its `metadata`, annotations that pods inherit; an absent part is empty.

    Whatever is not of one of these kinds is itself what its annotations are for, as a pod is.
    """
    branches: dict[str, list[str]] = {}
    for kind in kinds:
        branches.setdefault(_places(kind), []).append(f"{kind.group}/{kind.resource}")
    resource = '(request.resource.group + "/" + request.resource.resource)'
    lines = [f"{resource} in {json.dumps(names)} ? {places} :\n" for places, names in branches.items()]
    return f"{''.join(lines)}[dyn({OBJECT})]"


def _places(kind: WorkloadKind) -> str:
    """All carriers of one kind, as a list."""
    if kind.mark:
        own = [kind.mark, *kind.also]
    else:
        own = [*(f"{template.path}.metadata" for template in kind.templates), *kind.also]
    return " + ".join(_carriers(path.removesuffix("metadata").rstrip("."), path) for path in own)


def _carriers(owner: str, path: str) -> str:
    """The carriers at one path, which ends with their metadata, or with a name of its own for them."""
    if not path.endswith(".metadata") and path != "metadata":
        return f'[dyn({{"metadata": {_selected(f"dyn({OBJECT})", path)}.orValue({{}})}})]'
    if "*" not in owner:
        carrier = _selected(f"dyn({OBJECT})", owner) + ".orValue({})" if owner else OBJECT
        return f"[dyn({carrier})]"
    before, _, after = owner.partition(".*")
    many = _selected(f"dyn({OBJECT})", before)
    rest = after.removeprefix(".")
    if before.endswith(_MAPPINGS):
        item = _selected(f"{many}[?item]", rest)
        return f"{many}.orValue({{}}).map(item, dyn({item}.orValue({{}})))"
    item = f"{_selected('item', rest)}.orValue({{}})" if rest else "item"
    return f"{many}.orValue([]).map(item, dyn({item}))"


def _selected(expression: str, path: str) -> str:
    """An optional selection of a path; nothing is selected by an empty one."""
    return expression + "".join(f".?{key}" for key in path.split(".")) if path else expression
