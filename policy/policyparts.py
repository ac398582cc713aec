"""Reads the parts of a GPUPolicy beside its terms: selector, scheduling, images, window; decides nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import time
from typing import Final

from policy.document import Node
from policy.errors import FormatError
from policy.images import parse_allowed
from policy.spec import (
    WEEKDAYS,
    ActWindow,
    Contact,
    Expression,
    Images,
    Operator,
    Selector,
)
from policy.syntax import is_label_value, is_qualified_name

_TIME_OF_DAY: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
_URL: Final = re.compile(r"https?://\S+")
ALLOWED_IMAGE_LENGTH: Final = 512


def read_selector_node(node: Node) -> Selector:
    """A label selector."""
    fields = node.fields("matchLabels", "matchExpressions")
    labels = read_labels(fields["matchLabels"]) if "matchLabels" in fields else {}
    items = fields["matchExpressions"].items() if "matchExpressions" in fields else []
    expressions = [_read_expression(item) for item in items]
    return Selector(labels, tuple(expression for expression in expressions if expression is not None))


def read_labels(node: Node) -> dict[str, str]:
    """A map of labels, keys and values valid."""
    if not isinstance(node.value, Mapping):
        node.fail("must be an object")
        return {}
    labels: dict[str, str] = {}
    for key, value in node.value.items():
        child = Node(value, f"{node.path}[{key}]", node.errors)
        if not isinstance(key, str) or not is_qualified_name(key):
            child.fail("must be a valid label key")
        elif not isinstance(value, str) or not is_label_value(value):
            child.fail("must be a valid label value, in quotes if it looks like a number")
        else:
            labels[key] = value
    return labels


def _read_expression(node: Node) -> Expression | None:
    """One expression of a selector."""
    fields = node.fields("key", "operator", "values")
    for required in ("key", "operator"):
        if required not in fields:
            node.fail(f"{required} is required")
    key = fields["key"].parsed_text(_parse_key) if "key" in fields else None
    operator = fields["operator"].parsed_text(_parse_operator) if "operator" in fields else None
    items = fields["values"].items() if "values" in fields else []
    values = tuple(_label_value(item) for item in items)
    if operator in {Operator.IN, Operator.NOT_IN} and not values:
        node.fail(f"values are required for {operator}")
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST} and values:
        node.fail(f"values must be empty for {operator}")
    return None if key is None or operator is None else Expression(key, operator, values)


def _label_value(node: Node) -> str:
    """A value of a label, which may be empty; a wrong one is an error and reads as empty."""
    if isinstance(node.value, str) and is_label_value(node.value):
        return node.value
    node.fail("must be a valid label value, in quotes if it looks like a number")
    return ""


def _parse_key(text: str) -> str:
    """A label key."""
    if not is_qualified_name(text):
        raise FormatError("must be a valid label key")
    return text


def _parse_operator(text: str) -> Operator:
    """An operator of a selector."""
    try:
        return Operator(text)
    except ValueError as error:
        raise FormatError(f"must be one of {', '.join(Operator)}") from error


def read_images(node: Node | None) -> Images:
    """The image references that are allowed."""
    fields = node.fields("allowed") if node else {}
    if "allowed" not in fields:
        return Images()
    texts = tuple(item.parsed_text(_parse_allowed_image) for item in fields["allowed"].items())
    return Images(tuple(text for text in texts if text is not None))


def _parse_allowed_image(text: str) -> str:
    """An entry of the list, checked and kept as written."""
    if len(text) > ALLOWED_IMAGE_LENGTH:
        raise FormatError(f"must have at most {ALLOWED_IMAGE_LENGTH} characters")
    parse_allowed(text)
    return text


def read_act_window(node: Node | None) -> ActWindow | None:
    """When the reaper may act; left out are all days, from 00:00, to 24:00, UTC."""
    if node is None:
        return None
    fields = node.fields("days", "from", "to", "timeZone")
    days = frozenset(range(7))
    if "days" in fields:
        days = frozenset(_day(item) for item in fields["days"].items())
        if not days:
            fields["days"].fail("must name at least one day")
    start = fields["from"].parsed_text(_parse_time_of_day) if "from" in fields else time(0)
    end = fields["to"].parsed_text(_parse_end) if "to" in fields else time(0)
    if "from" in fields and "to" in fields and fields["from"].value == fields["to"].value:
        fields["to"].fail("must differ from from")
    zone = fields["timeZone"].parsed_text(_parse_zone) if "timeZone" in fields else "UTC"
    return ActWindow(days, start or time(0), end or time(0), zone or "UTC")


def _day(node: Node) -> int:
    """The number of a day, Monday is 0; a wrong one is an error and reads as Monday."""
    if node.value not in WEEKDAYS:
        node.fail(f"must be one of {', '.join(WEEKDAYS)}")
        return 0
    return WEEKDAYS.index(str(node.value))


def _parse_time_of_day(text: str) -> time:
    """A time of day in minutes."""
    match = _TIME_OF_DAY.fullmatch(text)
    if match is None:
        raise FormatError("must be a time of day such as '08:30', in quotes")
    return time(int(match[1]), int(match[2]))


def _parse_end(text: str) -> time:
    """A time of day, or the end of the day."""
    return time(0) if text == "24:00" else _parse_time_of_day(text)


def _parse_zone(text: str) -> str:
    """The name of a time zone; whether the zone exists is only known where zones are installed."""
    if not _ZONE.fullmatch(text):
        raise FormatError("must be a time zone such as Europe/Berlin")
    return text


def read_contact(node: Node | None) -> Contact:
    """Whom users may ask; it must fit into messages."""
    fields = node.fields("text", "url") if node else {}
    text = fields["text"].text(200) if "text" in fields else None
    url = fields["url"].text(200) if "url" in fields else None
    if text is not None and not text.isprintable():
        fields["text"].fail("must be one line")
    if url is not None and not _URL.fullmatch(url):
        fields["url"].fail("must begin with https:// or http://")
    return Contact(text or "", url or "")
