"""Turns what pydantic found into sentences for whoever set the value. Knows nothing of where it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from msgspec import Struct
from pydantic import SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from policy.durations import duration_of, parse_duration
from policy.errors import FieldError, FormatError, InvalidError
from runtime.log import escape

LONGEST_SHOWN = 80


class Origin(Struct, frozen=True):
    """Where values come from: flags and keys of `file` by field name, variables by their own."""

    env_prefix: str = ""
    flags: Mapping[str, object] = {}
    variables: Mapping[str, object] = {}
    keys: Mapping[str, object] = {}
    file: str = ""

    def flag(self, name: str) -> str:
        """The flag of a field."""
        return f"--{name.replace('_', '-')}"

    def variable(self, name: str) -> str:
        """The environment variable of a field."""
        return f"{self.env_prefix}{name.upper()}"

    def decided(self, name: str) -> tuple[str, object] | None:
        """The place that decided the field and the value as it was written there; None for its default."""
        variable = self.variable(name)
        if name in self.flags:
            return self.flag(name), self.flags[name]
        if variable in self.variables:
            return variable, self.variables[variable]
        return (f"{name} in {self.file}", self.keys[name]) if name in self.keys else None

    def ways(self, name: str) -> str:
        """All ways to set the field."""
        return f"{self.flag(name)}, {self.variable(name)} or {name} in the settings file"


def explain(error: ValidationError, fields: Mapping[str, FieldInfo], origin: Origin) -> Iterator[FieldError]:
    """Yields one error per finding, with the flag as its path."""
    for found in error.errors(include_url=False):
        name = str(found["loc"][0]) if found["loc"] else ""
        inner = found.get("ctx", {}).get("error")
        if not name and isinstance(inner, InvalidError):
            yield from inner.errors
        elif name not in fields:
            yield FieldError(name, _form(found))
        else:
            yield FieldError(origin.flag(name), _sentence(name, fields[name], found, origin))


def _sentence(name: str, field: FieldInfo, found: Mapping[str, Any], origin: Origin) -> str:
    example = str(field.examples[0]) if field.examples else ""
    form = _form(found, example)
    told = not example or "such as" in form or "one of" in form
    such_as = "" if told else f", such as {example}"
    if found["type"] == "missing":
        return f"is required: set {origin.ways(name)}{such_as}"
    inside = ".".join(str(part) for part in found["loc"][1:])
    at = f"{inside}: " if inside else ""
    source, value = origin.decided(name) or ("the default", found["input"])
    got = _shown(field, found["input"] if inside else value)
    return f"{at}{form}{such_as}; got {got} (set by {source}); set {origin.ways(name)}"


def _shown(field: FieldInfo, value: object) -> str:
    if _is_secret(field.annotation):
        return "a value that is not shown"
    text = escape(str(value))
    return repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…")


def _is_secret(annotation: object) -> bool:
    return annotation in (SecretStr, SecretBytes) or any(_is_secret(part) for part in get_args(annotation))


def _form(found: Mapping[str, Any], example: str = "") -> str:
    """Says what form the value must have; bounds are durations where the example is one."""
    context = dict(found.get("ctx", {}))
    for bound in {"ge", "gt", "le", "lt"} & context.keys():
        context[bound] = _span(context[bound], example)
    if found["type"] in _FORMS:
        return _FORMS[found["type"]].format_map(context)
    message = str(found["msg"])
    return message[:1].lower() + message[1:]


def _span(bound: object, example: str) -> str:
    try:
        parse_duration(example)
    except FormatError:
        return str(bound)
    return duration_of(int(str(bound))).text


_FORMS = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "value_error": "{error}",
    "extra_forbidden": "there is no such setting",
}
