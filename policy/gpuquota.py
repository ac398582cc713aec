"""Reads GPUQuota objects and finds everything that is wrong with them; knows nothing of what is held."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct

from policy.document import Node
from policy.errors import FieldError, FormatError, InvalidError
from policy.keys import API_VERSION
from policy.policyparts import read_selector_node
from policy.quantities import parse_quantity
from policy.spec import Selector
from policy.syntax import is_qualified_name, is_subdomain

KIND: Final = "GPUQuota"
DEVICES: Final = "devices"
"""The key of `hard` that limits weighted devices; every other key is a resource name."""
NAME_LENGTH: Final = 63
MOST_LIMITS: Final = 16
MOST: Final = 2**53
SUBJECT_CHARACTERS: Final = 1024
"""What the schema of the ledger takes; anybody may write a longer requester on something."""
_SPEC: Final = ("namespaceSelector", "per", "together", "hard")


class Per(StrEnum):
    """Whom a quota's limits are for: all its namespaces in common, each of them, or each requester."""

    QUOTA = "quota"
    NAMESPACE = "namespace"
    REQUESTER = "requester"


class Together(StrEnum):
    """Requesters that share one limit instead of having one each."""

    UNKNOWN = "unknown"
    SERVICE_ACCOUNTS = "serviceAccounts"


class GPUQuota(Struct, frozen=True):
    """A quota. `hard` holds the limits: weighted devices under `devices`, counts under resource names.

    `namespace_selector` None and an empty one select every namespace that is not excluded.
    """

    name: str
    uid: str = ""
    generation: int = 0
    namespace_selector: Selector | None = None
    per: Per = Per.QUOTA
    together: frozenset[Together] = frozenset()
    hard: dict[str, Fraction] = {}


def parse_quota(obj: Mapping[str, Any]) -> GPUQuota:
    """Reads a GPUQuota as parsed from JSON or YAML.

    Raises:
        InvalidError: anything is wrong; it holds all errors, with paths.
    """
    errors: list[FieldError] = []
    root = Node(obj, "", errors).fields("apiVersion", "kind", "metadata", "spec", "status")
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if field in root and root[field].value != expected:
            root[field].fail(f"must be {expected}")
    metadata = obj.get("metadata")
    meta: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    fields = root.get("spec", Node({}, "spec", errors)).fields(*_SPEC)
    quota = GPUQuota(
        name=_read_name(Node(meta.get("name"), "metadata.name", errors)),
        uid=str(meta.get("uid") or ""),
        generation=int(meta.get("generation") or 0),
        namespace_selector=(
            read_selector_node(fields["namespaceSelector"]) if "namespaceSelector" in fields else None
        ),
        per=_read_per(fields["per"]) if "per" in fields else Per.QUOTA,
        together=_read_together(fields["together"]) if "together" in fields else frozenset(),
        hard=_read_hard(fields.get("hard", Node({}, "spec.hard", errors))),
    )
    if errors:
        raise InvalidError(errors)
    return quota


def subject_of(quota: GPUQuota, namespace: str, requester: str | None) -> str:
    """Whose limit a pod counts against: `*`, its namespace, or its requester.

    Pods of nobody known count per namespace (`unknown:NAMESPACE`), and every service account is one of its
    own, unless the quota puts them together.
    """
    match quota.per:
        case Per.QUOTA:
            return "*"
        case Per.NAMESPACE:
            return namespace
        case Per.REQUESTER:
            return _requester(quota.together, namespace, requester)


def _requester(together: frozenset[Together], namespace: str, requester: str | None) -> str:
    """The subject of a pod by who asked for it."""
    if not requester or requester == Together.UNKNOWN:
        return "unknown" if Together.UNKNOWN in together else f"unknown:{namespace}"
    if requester.startswith("system:serviceaccount:") and Together.SERVICE_ACCOUNTS in together:
        return "service accounts"
    return requester[:SUBJECT_CHARACTERS]


def _read_name(node: Node) -> str:
    """The name."""
    if not isinstance(node.value, str) or not is_subdomain(node.value, NAME_LENGTH):
        node.fail(f"must be lower-case letters, digits, - and ., at most {NAME_LENGTH} characters")
        return ""
    return node.value


def _read_per(node: Node) -> Per:
    """Whom the limits are for."""
    return node.parsed_text(_parse_per) or Per.QUOTA


def _parse_per(text: str) -> Per:
    """One of the three."""
    try:
        return Per(text)
    except ValueError as error:
        raise FormatError(f"must be one of {', '.join(Per)}") from error


def _read_together(node: Node) -> frozenset[Together]:
    """Requesters that share a limit."""
    found = [item.parsed_text(_parse_together) for item in node.items()]
    return frozenset(one for one in found if one is not None)


def _parse_together(text: str) -> Together:
    """One of the two."""
    try:
        return Together(text)
    except ValueError as error:
        raise FormatError(f"must be one of {', '.join(Together)}") from error


def _read_hard(node: Node) -> dict[str, Fraction]:
    """The limits; at least one."""
    if not isinstance(node.value, Mapping) or not node.value:
        node.fail(f"must name at least one limit: {DEVICES}, or a resource name")
        return {}
    if len(node.value) > MOST_LIMITS:
        node.fail(f"must have at most {MOST_LIMITS} limits")
    hard: dict[str, Fraction] = {}
    for key, value in node.value.items():
        child = Node(value, f"{node.path}[{key}]", node.errors)
        if not isinstance(key, str) or (key != DEVICES and ("/" not in key or not is_qualified_name(key))):
            child.fail(f"must be {DEVICES} or a resource name such as nvidia.com/gpu")
            continue
        amount = child.parsed(_parse_devices if key == DEVICES else _parse_count)
        if amount is not None:
            hard[key] = amount
    return hard


def _parse_devices(value: Any) -> Fraction:  # noqa: ANN401 - a value as parsed from JSON
    """A number of weighted devices, which may have a fraction."""
    amount = parse_quantity(value) if value is not None else Fraction(-1)
    if not 0 <= amount <= MOST:
        raise FormatError("must be a number of devices such as 8 or 2.5, not negative")
    return amount


def _parse_count(value: Any) -> Fraction:  # noqa: ANN401 - as above
    """A whole number of units of a resource."""
    amount = parse_quantity(value) if value is not None else Fraction(-1)
    if not 0 <= amount <= MOST or amount.denominator != 1:
        raise FormatError("must be a whole number, not negative")
    return amount
