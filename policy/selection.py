"""Which policy applies to a namespace; never merges two, never falls from an invalid one to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from policy.errors import FieldError, InvalidError
from policy.gpupolicy import parse_policy, read_priority, read_selector
from policy.keys import BUILT_IN_NAME, NAMESPACE_NAME
from policy.spec import BUILT_IN, Expression, GPUPolicy, Operator, Selector


class InvalidPolicy(Struct, frozen=True):
    """A policy that cannot be used, with what can be read of where it would apply.

    `priority` None is unreadable and taken for the highest; an unreadable selector is None and selects
    everything: a policy that may have meant to apply yields the built-in one.
    """

    name: str
    errors: tuple[FieldError, ...]
    priority: int | None = 0
    namespace_selector: Selector | None = None


class PolicySet(Struct, frozen=True):
    """All policies of a cluster."""

    valid: tuple[GPUPolicy, ...] = ()
    invalid: dict[str, InvalidPolicy] = {}

    @classmethod
    def of(cls, objects: Iterable[Mapping[str, Any]]) -> PolicySet:
        """Reads GPUPolicy objects; those that are invalid are kept apart with their errors."""
        valid: dict[str, GPUPolicy] = {}
        invalid: dict[str, InvalidPolicy] = {}
        for obj in objects:
            try:
                policy = parse_policy(obj)
            except InvalidError as error:
                broken = _invalid(obj, error.errors)
                invalid[broken.name] = broken
            else:
                valid[policy.name] = policy
        return cls(tuple(valid[name] for name in sorted(valid)), dict(sorted(invalid.items())))

    def get(self, name: str) -> GPUPolicy | None:
        """The valid policy of a name; the built-in one answers to its own."""
        if name == BUILT_IN_NAME:
            return BUILT_IN
        return next((policy for policy in self.valid if policy.name == name), None)


class Selected(Struct, frozen=True):
    """The policy that applies, and why it is not the one that an administrator may expect."""

    policy: GPUPolicy
    problem: str | None = None


def select(policies: PolicySet, namespace_name: str, namespace_labels: Mapping[str, str] | None) -> Selected:
    """The policy of the highest priority that selects a namespace; ties go to the smallest name."""
    labels = selectable_labels(namespace_name, namespace_labels)
    known: tuple[GPUPolicy | InvalidPolicy, ...] = (*policies.valid, *policies.invalid.values())
    candidates = [policy for policy in known if selector_matches(policy.namespace_selector, labels)]
    if not candidates:
        return Selected(BUILT_IN)
    winner = min(candidates, key=_order)
    if isinstance(winner, GPUPolicy):
        return Selected(winner)
    first = str(winner.errors[0]) if winner.errors else "cannot be read"
    return Selected(BUILT_IN, f"GPUPolicy {winner.name} is invalid, so nothing is acted on: {first}")


def selectable_labels(namespace: str, labels: Mapping[str, str] | None) -> dict[str, str]:
    """The labels by which selectors know a namespace: its own, and its name also where nobody wrote it."""
    return {NAMESPACE_NAME: namespace, **(labels or {})}


def selector_matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; None and an empty one select everything."""
    if selector is None:
        return True
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _expression_matches(expression, labels) for expression in selector.match_expressions
    )


def _expression_matches(expression: Expression, labels: Mapping[str, str]) -> bool:
    """Whether one expression holds; an absent label is not in any set of values."""
    value = labels.get(expression.key)
    match expression.operator:
        case Operator.IN:
            return value is not None and value in expression.values
        case Operator.NOT_IN:
            return value is None or value not in expression.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None


def _order(policy: GPUPolicy | InvalidPolicy) -> tuple[bool, int, str]:
    """Sorts the winner first."""
    priority = policy.priority
    return priority is not None, -(priority or 0), policy.name


def _invalid(obj: Mapping[str, Any], errors: tuple[FieldError, ...]) -> InvalidPolicy:
    """What can be said of an object that is no valid policy."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return InvalidPolicy(
        name=name if isinstance(name, str) else "",
        errors=errors,
        priority=read_priority(obj),
        namespace_selector=read_selector(obj),
    )
