"""Reads manifests as a person has them: YAML or JSON, several documents, lists; knows no kind of object.

Whatever the text is, the answer is a list of plain values or a list of errors: bombs of aliases, endless
nesting and binary files are refused before they are expanded.
"""

from __future__ import annotations

import json
from typing import Any

import yaml
from msgspec import Struct

from policy.errors import FieldError, InvalidError

LIMIT_BYTES = 32 * 1024 * 1024
LIMIT_NODES = 1_000_000
LIMIT_DEPTH = 100
_TOO_DEEP = f"is nested more than {LIMIT_DEPTH} levels deep"
_UNFINISHED = (0, 0)
EXAMPLE = "for example `kubectl get pod NAME -o yaml`"


class Document(Struct, frozen=True):
    """One object of a file; `where` names it in errors, as `pods.yaml, document 2`."""

    where: str
    content: dict[str, Any]


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: times stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_documents(source: str, raw: bytes) -> list[Document]:
    """Reads all objects of a file, lists taken apart.

    Raises:
        InvalidError: the file, or any document of it, cannot be read.
    """
    if len(raw) > LIMIT_BYTES:
        raise InvalidError([FieldError(source, f"is larger than {LIMIT_BYTES // 1024 // 1024} MiB")])
    values = _values(source, _text(source, raw))
    documents: list[Document] = []
    errors: list[FieldError] = []
    for index, value in enumerate(values, 1):
        where = f"{source}, document {index}" if len(values) > 1 else source
        _take_apart(where, value, documents, errors)
    if not documents and not errors:
        errors.append(FieldError(source, f"holds no object; expected YAML or JSON, {EXAMPLE}"))
    if errors:
        raise InvalidError(errors)
    return documents


def _take_apart(where: str, value: object, documents: list[Document], errors: list[FieldError]) -> None:
    """Adds the objects of one document."""
    if value is None:  # an empty document between two separators
        return
    if not isinstance(value, dict):
        what = "a list" if isinstance(value, list) else "a single value"
        errors.append(FieldError(where, f"is {what}; expected a Kubernetes object with apiVersion and kind"))
        return
    kind, items = value.get("kind"), value.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            _take_apart(f"{where}, items[{index}]", item, documents, errors)
        return
    if not isinstance(kind, str) or not kind:
        errors.append(FieldError(f"{where}: kind", "is missing; expected a kind, such as Pod"))
        return
    documents.append(Document(where, value))


def _text(source: str, raw: bytes) -> str:
    """Decodes the file."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"is not text (byte {error.start}); expected YAML or JSON in UTF-8, {EXAMPLE}"
        raise InvalidError([FieldError(source, message)]) from error


def _values(source: str, text: str) -> list[object]:
    """Parses JSON, which is quick and what large lists are written in, else YAML."""
    try:
        values = _json_values(text)
        return _yaml_values(text) if values is None else values
    except yaml.YAMLError as error:
        message = f"is neither YAML nor JSON: {_yaml_problem(error)}"
        raise InvalidError([FieldError(source, message)]) from error
    except RecursionError as error:
        raise InvalidError([FieldError(source, _TOO_DEEP)]) from error
    except (_TooMuchError, ValueError, OverflowError) as error:
        raise InvalidError([FieldError(source, str(error))]) from error


def _json_values(text: str) -> list[object] | None:
    """The one value of a JSON text; None if it is none: YAML may begin alike, and says more."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    _check_depth(value)
    if "\\u" in text:
        _check_characters(value)
    return [value]


def _yaml_values(text: str) -> list[object]:
    """The values of a YAML text, expanded only after they are known to be of a sane size."""
    _check_nesting(text)
    sizes: dict[int, tuple[int, int]] = {}
    nodes = list(yaml.compose_all(text, Loader=_Loader))
    if sum(_measure(node, sizes)[0] for node in nodes) > LIMIT_NODES:
        raise _TooMuchError(f"stands for more than {LIMIT_NODES} values after its aliases are followed")
    return list(yaml.load_all(text, Loader=_Loader))


class _TooMuchError(Exception):
    """The text stands for more than anybody writes."""


def _check_depth(value: object) -> None:
    """Refuses endless nesting of plain values."""
    level: list[object] = [value]
    for _ in range(LIMIT_DEPTH):
        level = [part for item in level for part in _parts(item)]
        if not level:
            return
    raise _TooMuchError(_TOO_DEEP)


def _check_characters(value: object) -> None:
    """Refuses what JSON can escape and no text can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("holds half of a character: a \\ud800 to \\udfff without its partner") from error


def _parts(value: object) -> list[object]:
    """What a list or mapping holds."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _check_nesting(text: str) -> None:
    """Walks the events, which needs no stack, and refuses endless nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > LIMIT_DEPTH:
                raise _TooMuchError(_TOO_DEEP)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _measure(node: yaml.Node, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Number of values and depth of a node after its aliases are followed; each node is visited once."""
    known = sizes.get(id(node))
    if known == _UNFINISHED:
        raise _TooMuchError("contains itself by an alias")
    if known is not None:
        return known
    sizes[id(node)] = _UNFINISHED
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    measured = [_measure(part, sizes) for part in parts]
    size = 1 + sum(count for count, _ in measured)
    depth = 1 + max((below for _, below in measured), default=0)
    if depth > LIMIT_DEPTH:
        raise _TooMuchError(_TOO_DEEP)
    sizes[id(node)] = (size, depth)
    return size, depth


def _yaml_problem(error: yaml.YAMLError) -> str:
    """The problem in one line, with its place."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else problem
