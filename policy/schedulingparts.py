"""Reads the scheduling defaults of a GPUPolicy, as strictly as the API server reads a pod's; decides nothing.

What a pod gets of them is in the pod when the API server checks it: whatever is wrong here would refuse every
GPU pod of the policy, which no mutating webhook may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from policy.document import Node
from policy.policyparts import read_labels
from policy.scheduling import PREFERRED, REQUIRED, TERMS
from policy.spec import Scheduling
from policy.syntax import is_label_value, is_qualified_name, is_subdomain

_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")
_OPERATORS: Final = ("Equal", "Exists")
"""Those that every cluster knows; comparing ones are refused where their feature is off."""
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NUMBERS: Final = (-(2**63), 2**63 - 1)
_FIELD: Final = "metadata.name"


def read_scheduling(node: Node | None) -> Scheduling:
    """Scheduling fields, kept as written."""
    fields = node.fields("priorityClassName", "tolerations", "nodeSelector", "nodeAffinity") if node else {}
    return Scheduling(
        priority_class_name=_class_name(fields.get("priorityClassName")),
        tolerations=_tolerations(fields["tolerations"]) if "tolerations" in fields else (),
        node_selector=read_labels(fields["nodeSelector"]) if "nodeSelector" in fields else {},
        node_affinity=_affinity(fields.get("nodeAffinity")),
    )


def _class_name(node: Node | None) -> str | None:
    """The name of a PriorityClass."""
    name = node.text() if node is not None else None
    if node is not None and name is not None and not is_subdomain(name):
        node.fail("must be the name of a PriorityClass")
    return name


def _tolerations(node: Node) -> tuple[Mapping[str, Any], ...]:
    """Tolerations that the API server takes."""
    found: list[Mapping[str, Any]] = []
    for item in node.items():
        _check_toleration(item)
        if isinstance(item.value, Mapping):
            found.append(dict(item.value))
    return tuple(found)


def _check_toleration(node: Node) -> None:
    """Notes what is wrong with one toleration."""
    fields = node.fields(*_TOLERATION)
    operator = _choice(fields.get("operator"), _OPERATORS) or "Equal"
    effect = _choice(fields.get("effect"), _EFFECTS)
    key = _text(fields.get("key"))
    if key and not is_qualified_name(key):
        fields["key"].fail("must be the key of a taint")
    if not key and operator != "Exists":
        node.fail("key is required, unless operator is Exists")
    value = _text(fields.get("value"))
    if operator == "Exists" and value:
        fields["value"].fail("must be empty where operator is Exists")
    elif not is_label_value(value):
        fields["value"].fail("must be the value of a taint")
    if "tolerationSeconds" in fields:
        fields["tolerationSeconds"].integer(*_NUMBERS)
        if effect != "NoExecute":
            fields["tolerationSeconds"].fail("needs the effect NoExecute")


def _affinity(node: Node | None) -> Mapping[str, Any] | None:
    """A node affinity that the API server takes."""
    if node is None:
        return None
    _check_affinity(node)
    return node.value if isinstance(node.value, Mapping) else None


def _check_affinity(node: Node) -> None:
    """Notes what is wrong with a node affinity."""
    fields = node.fields(REQUIRED, PREFERRED)
    if REQUIRED in fields:
        required = fields[REQUIRED].fields(TERMS)
        terms = required[TERMS].items() if TERMS in required else []
        if not terms:
            fields[REQUIRED].fail(f"{TERMS} must hold at least one term")
        for term in terms:
            _check_term(term)
    for item in fields[PREFERRED].items() if PREFERRED in fields else []:
        preference = item.fields("weight", "preference")
        for name in ("weight", "preference"):
            if name not in preference:
                item.fail(f"{name} is required")
        if "weight" in preference:
            preference["weight"].integer(1, 100)
        if "preference" in preference:
            _check_term(preference["preference"])


def _check_term(node: Node) -> None:
    """Notes what is wrong with a term; one without expressions selects nothing, and so is wrong too."""
    fields = node.fields("matchExpressions", "matchFields")
    expressions = fields["matchExpressions"].items() if "matchExpressions" in fields else []
    others = fields["matchFields"].items() if "matchFields" in fields else []
    if isinstance(node.value, Mapping) and not expressions and not others:
        node.fail("must hold an expression: without any it selects no node")
    for expression in expressions:
        _check_expression(expression, is_field=False)
    for expression in others:
        _check_expression(expression, is_field=True)


def _check_expression(node: Node, *, is_field: bool) -> None:
    """Notes what is wrong with one expression over a node's labels, or over its only field."""
    fields = node.fields("key", "operator", "values")
    key = _text(fields.get("key"))
    if is_field and key != _FIELD:
        node.fail(f"key must be {_FIELD}")
    elif not is_field and not is_qualified_name(key):
        node.fail("key must be a valid label key")
    known = ("In", "NotIn") if is_field else ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    operator = _choice(fields.get("operator"), known)
    if "operator" not in fields:
        node.fail(f"operator must be one of {', '.join(known)}")
    values = [_text(item) for item in fields["values"].items()] if "values" in fields else []
    if is_field and not all(map(is_subdomain, values)):
        fields["values"].fail("must be the name of a node")
    elif not is_field and not all(map(is_label_value, values)):
        fields["values"].fail("must be valid label values")
    wrong = _wrong_number(operator, len(values), is_field=is_field)
    if wrong is not None:
        node.fail(wrong)
    elif operator in {"Gt", "Lt"} and not _is_number(values[0]):
        fields["values"].fail("must be a whole number in quotes")


def _wrong_number(operator: str | None, count: int, *, is_field: bool) -> str | None:
    """What is wrong with the number of values, None if nothing is."""
    if operator in {"Exists", "DoesNotExist"}:
        return f"values must be empty for {operator}" if count else None
    if operator in {"Gt", "Lt"} or is_field:
        return None if count == 1 else f"values must hold exactly one for {operator or 'a field'}"
    return None if count or operator is None else f"values are required for {operator}"


def _choice(node: Node | None, known: tuple[str, ...]) -> str | None:
    """A text out of a few, None where it is absent or wrong."""
    if node is None:
        return None
    if node.value in known:
        return str(node.value)
    node.fail(f"must be one of {', '.join(known)}")
    return None


def _text(node: Node | None) -> str:
    """A text, empty where it is absent; anything else is an error."""
    if node is None:
        return ""
    if isinstance(node.value, str):
        return node.value
    node.fail("must be a text, in quotes if it looks like a number")
    return ""


def _is_number(text: str) -> bool:
    """Whether a text is a whole number of 64 bits, as the API server writes one."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= 19 and str(int(text)) == text
