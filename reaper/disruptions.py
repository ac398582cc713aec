"""Reads PodDisruptionBudgets, and says whether they let several pods go together; evicts nothing.

An eviction that is only tried uses up no budget: each of ten pods would be let go where one may.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Struct

from policy.document import Node
from policy.errors import FieldError
from policy.policyparts import read_selector_node
from policy.selection import selector_matches
from policy.spec import Selector
from reaper.pods import GpuPod
from runtime.kube import KubePort
from runtime.listing import Reader, read_list

PAGE = 500


class Budget(Struct, frozen=True):
    """A PodDisruptionBudget.

    Attributes:
        name: Of the object.
        selector: Which pods it protects; None protects none, an empty one all of its namespace.
        allowed: How many pods may be disrupted now; None if its status is not of its present form.
    """

    name: str
    selector: Selector | None
    allowed: int | None

    def covers(self, pod: GpuPod) -> bool:
        """True if it protects a pod of its namespace."""
        return self.selector is not None and selector_matches(self.selector, pod.labels)


class Short(Struct, frozen=True):
    """Why pods may not go together.

    Attributes:
        pod: One that a budget keeps; the first if nobody knows.
        sentence: Why.
        stale: True if the budget's own numbers are out of date: nothing is known yet.
    """

    pod: GpuPod
    sentence: str
    stale: bool = False


class UnreadableBudgetError(Exception):
    """A budget is of a form that is not known: it may protect any pod of its namespace."""


def parse_budget(raw: msgspec.Raw | bytes) -> Budget:
    """Reads a PodDisruptionBudget.

    Raises:
        ValueError: it is not one in shape (msgspec.DecodeError: or not JSON of that form).
    """
    found = msgspec.json.decode(raw, type=_Object)
    errors: list[FieldError] = []
    written = found.spec.selector
    selector = None if written is None else read_selector_node(Node(written, "spec.selector", errors))
    if errors:
        raise ValueError(str(errors[0]))
    status = found.status or _Status()
    known = status.observed_generation >= found.metadata.generation
    return Budget(found.metadata.name, selector, status.disruptions_allowed if known else None)


async def read_budgets(client: KubePort, namespace: str) -> tuple[Budget, ...]:
    """Reads all budgets of a namespace; raises UnreadableBudgetError, ApiError and ApiUnreachable."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    reader = Reader(path, parse_budget)
    _, entries = await read_list(client, reader, {}, PAGE)
    if reader.unreadable:
        (_, name), why = min(reader.unreadable.items())
        raise UnreadableBudgetError(f"The disruption budget {name} cannot be read: {why}")
    return tuple(entry.value for entry in entries.values())


def short_of(budgets: Collection[Budget], pods: Collection[GpuPod]) -> Short | None:
    """Gives why these pods of one namespace may not all go together; None if every budget lets them."""
    for budget in sorted(budgets, key=lambda one: one.name):
        covered = [pod for pod in pods if budget.covers(pod)]
        if not covered:
            continue
        if budget.allowed is None:
            sentence = f"The status of the disruption budget {budget.name} is out of date"
            return Short(covered[0], sentence, stale=True)
        if budget.allowed < len(covered):
            sentence = (
                f"The disruption budget {budget.name} lets {budget.allowed} go now, "
                f"and {len(covered)} of the pods that go together are under it"
            )
            return Short(covered[0], sentence)
    return None


class _Metadata(Struct, frozen=True):
    name: str = ""
    generation: int = 0


class _Spec(Struct, frozen=True):
    selector: Any = None


class _Status(Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    disruptions_allowed: int | None = None


class _Object(Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status | None = None
