"""Reads GPUPolicy objects and finds everything that is wrong with them; decides nothing for any pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from policy import defaults
from policy.document import Node
from policy.durations import Duration, parse_duration, readable_time
from policy.errors import FieldError, FormatError, InvalidError
from policy.keys import API_VERSION, BUILT_IN_NAME
from policy.memory import parse_memory
from policy.policyparts import read_act_window, read_contact, read_images, read_selector_node
from policy.schedulingparts import read_scheduling
from policy.spec import (
    BUILT_IN,
    Bounds,
    Classes,
    Deadline,
    Exemption,
    GPUPolicy,
    Idle,
    JobDeadlines,
    Selector,
)
from policy.syntax import is_subdomain
from policy.terms import parse_action, parse_reference, parse_span, parse_statistic

__all__ = ["BUILT_IN", "GPUPolicy", "parse_policy", "read_priority", "read_selector"]

_Value = TypeVar("_Value")
KIND: Final = "GPUPolicy"
NAME_LENGTH: Final = 63
_PRIORITIES: Final = (-(2**31), 2**31 - 1)
_IDLE: Final = (
    "action",
    "after",
    "utilization",
    "statistic",
    "memory",
    "grace",
    "warmUp",
    "of",
    "neverTouched",
)
_SPEC: Final = (
    "priority",
    "namespaceSelector",
    "idle",
    "deadline",
    "classes",
    "bounds",
    "scheduling",
    "images",
    "actWindow",
    "contact",
    "requireTerms",
    "requireUse",
)


def parse_policy(obj: Mapping[str, Any]) -> GPUPolicy:
    """Reads a GPUPolicy as parsed from JSON or YAML.

    Raises:
        InvalidError: anything is wrong; it holds all errors, with paths.
    """
    errors: list[FieldError] = []
    root = Node(obj, "", errors).fields("apiVersion", "kind", "metadata", "spec", "status")
    _check_type(root)
    metadata = obj.get("metadata")
    meta: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    policy = _read_spec(root.get("spec", Node({}, "spec", errors)), _read_name(meta, errors), meta)
    if errors:
        raise InvalidError(errors)
    return policy


def read_priority(obj: Mapping[str, Any]) -> int | None:
    """The priority of a policy that may be invalid elsewhere; None if it cannot be read."""
    spec = obj.get("spec")
    value = spec.get("priority") if isinstance(spec, Mapping) else None
    return 0 if value is None else Node(value, "", []).integer(*_PRIORITIES)


def read_selector(obj: Mapping[str, Any]) -> Selector | None:
    """The selector of a policy that may be invalid elsewhere; None, which is all, if it cannot be read."""
    spec = obj.get("spec")
    value = spec.get("namespaceSelector") if isinstance(spec, Mapping) else None
    errors: list[FieldError] = []
    selector = None if value is None else read_selector_node(Node(value, "", errors))
    return None if errors else selector


def _check_type(root: dict[str, Node]) -> None:
    """Items of lists may come without their type; a wrong one is an error."""
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if field in root and root[field].value != expected:
            root[field].fail(f"must be {expected}")


def _read_name(meta: Mapping[str, Any], errors: list[FieldError]) -> str:
    """The name, which is also a label's value and so must be short."""
    name = meta.get("name")
    node = Node(name, "metadata.name", errors)
    if not isinstance(name, str) or not is_subdomain(name, NAME_LENGTH):
        node.fail(f"must be lower-case letters, digits, - and ., at most {NAME_LENGTH} characters")
        return ""
    if name == BUILT_IN_NAME:
        node.fail(f"{BUILT_IN_NAME} is reserved")
    return name


def _read_spec(node: Node, name: str, meta: Mapping[str, Any]) -> GPUPolicy:
    """The policy that a specification describes."""
    fields = node.fields(*_SPEC)
    top, batch = fields.get("deadline"), None
    classes = Classes()
    if "classes" in fields:
        classes, batch = _read_classes(fields["classes"])
    priority = fields["priority"].integer(*_PRIORITIES) if "priority" in fields else 0
    return GPUPolicy(
        name=name,
        priority=priority or 0,
        namespace_selector=_read_selector(fields),
        idle=_read_idle(fields["idle"]) if "idle" in fields else Idle(),
        deadline=_read_deadline(top, None),
        batch_deadline=_read_deadline(batch, top),
        classes=classes,
        bounds=_read_bounds(fields["bounds"]) if "bounds" in fields else Bounds(),
        scheduling=read_scheduling(fields.get("scheduling")),
        images=read_images(fields.get("images")),
        act_window=read_act_window(fields.get("actWindow")),
        contact=read_contact(fields.get("contact")),
        require_terms=fields["requireTerms"].boolean() if "requireTerms" in fields else False,
        require_use=fields["requireUse"].boolean() if "requireUse" in fields else False,
        uid=_text(meta.get("uid")),
        generation=meta["generation"] if isinstance(meta.get("generation"), int) else 0,
        created=readable_time(_text(meta.get("creationTimestamp"))),
    )


def _read_selector(fields: dict[str, Node]) -> Selector | None:
    """The namespaces that the policy selects, None for all."""
    return read_selector_node(fields["namespaceSelector"]) if "namespaceSelector" in fields else None


def _read_idle(node: Node) -> Idle:
    """An idle block, which may name any part of the terms."""
    fields = node.fields(*_IDLE)
    return Idle(
        action=_parsed(fields, "action", parse_action),
        after=_parsed(fields, "after", parse_span),
        utilization=fields["utilization"].integer(1, 100) if "utilization" in fields else None,
        statistic=_parsed(fields, "statistic", parse_statistic),
        memory=fields["memory"].parsed(parse_memory) if "memory" in fields else None,
        grace=_parsed(fields, "grace", parse_duration),
        warm_up=_parsed(fields, "warmUp", parse_duration),
        of=_parsed(fields, "of", parse_reference),
        never_touched=fields["neverTouched"].boolean() if "neverTouched" in fields else None,
    )


def _read_classes(node: Node) -> tuple[Classes, Node | None]:
    """The classes block, and the deadline block of batch where there is one."""
    fields = node.fields("interactive", "batch", "serving")
    known = {"interactive": ("creators", "idle"), "batch": ("idle", "deadline"), "serving": ("idle",)}
    creators: tuple[str, ...] = ()
    deadline: Node | None = None
    idles: dict[str, Idle] = {}
    for name, field in fields.items():
        blocks = field.fields("deadline", *known[name])
        if "deadline" in blocks and name != "batch":
            blocks["deadline"].fail("only batch may have a deadline of its own")
        if "idle" in blocks:
            idles[name] = _read_idle(blocks["idle"])
        if "creators" in blocks:
            creators = blocks["creators"].texts()
        if name == "batch":
            deadline = blocks.get("deadline")
    return Classes(creators=creators, **idles), deadline


def _read_deadline(node: Node | None, base: Node | None) -> Deadline | None:
    """A deadline block; what it leaves out comes from `base`, then from the defaults table.

    A default of the table gives way to the other value where that one is written; two written values must
    agree.
    """
    if node is None:
        # Errors of the base are reported where it is read for itself.
        return None if base is None else _read_deadline(Node(base.value, base.path, []), None)
    below = {} if base is None else Node(base.value, base.path, []).fields("default", "max", "jobs")
    fields = {**below, **node.fields("default", "max", "jobs")}
    default, longest = _parsed(fields, "default", parse_span), _parsed(fields, "max", parse_span)
    jobs = _parsed(fields, "jobs", _parse_jobs) or JobDeadlines.JOB
    if default is not None and longest is not None and default > longest:
        node.fail(f"default ({default}) must not be longer than max ({longest})")
    if longest is None:
        longest = max(parse_duration(defaults.DEADLINE_MAX), default or Duration("", 0))
    return Deadline(default or min(parse_duration(defaults.DEADLINE), longest), longest, jobs)


def _parse_jobs(text: str) -> JobDeadlines:
    """Where a Job's deadline is set."""
    try:
        return JobDeadlines(text)
    except ValueError as error:
        raise FormatError(f"must be one of {', '.join(JobDeadlines)}") from error


def _read_bounds(node: Node) -> Bounds:
    """What users may ask for."""
    fields = node.fields("after", "grace", "keepUntil", "exemption")
    after = fields["after"].fields("min", "max") if "after" in fields else {}
    low, high = _parsed(after, "min", parse_span), _parsed(after, "max", parse_span)
    if low is not None and high is not None and low > high:
        fields["after"].fail(f"min ({low}) must not be longer than max ({high})")
    return Bounds(
        after_min=low,
        after_max=high,
        grace=_parsed(fields, "grace", parse_duration),
        keep_until=_parsed(fields, "keepUntil", parse_span),
        exemption=_parsed(fields, "exemption", _parse_exemption) or Exemption(),
    )


def _parse_exemption(text: str) -> Exemption:
    """`never`, or for how long after its creation a pod may be exempt."""
    if text == "never":
        return Exemption()
    try:
        return Exemption(parse_span(text))
    except FormatError as error:
        raise FormatError("must be never, or a duration such as 14d") from error


def _parsed(fields: dict[str, Node], name: str, parse: Callable[[str], _Value]) -> _Value | None:
    """What a field's text reads as, None where the field is absent or wrong."""
    return fields[name].parsed_text(parse) if name in fields else None


def _text(value: object) -> str:
    """A text of the metadata, which the API server has checked."""
    return value if isinstance(value, str) else ""
