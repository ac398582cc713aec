"""The table of GPU resources as CEL, so that the API server knows the same names; knows no chart.

The API server counts what an expression costs while it runs and ends one that costs too much with an error.
So plain names come first, in one list, and a pattern is tried only on names that begin like it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from policy.resource_rules import ResourceRule, Unit

_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9/_-]|\\\.)*")
_ANYTHING: Final = ".*"


def name_test(rules: Sequence[ResourceRule], variable: str = "name") -> str:
    """Whether a variable with a `/`, as all names of devices have, is one of the table; a CEL expression.

    Rows hold in their order: what a row takes out, no later row brings back.
    """
    expression = ""
    for takes_out, group in reversed(_runs(rules)):
        tests = " ||\n".join(_tests(group, variable))
        if takes_out:
            expression = f"!({tests}) && (\n{expression or 'false'})"
        else:
            expression = f"{tests} ||\n{expression}" if expression else tests
    return expression


def _runs(rules: Iterable[ResourceRule]) -> list[tuple[bool, list[ResourceRule]]]:
    """Neighbouring rows that all take names in, or all take them out."""
    runs: list[tuple[bool, list[ResourceRule]]] = []
    for rule in rules:
        takes_out = rule.unit is Unit.NOTHING
        if not runs or runs[-1][0] is not takes_out:
            runs.append((takes_out, []))
        runs[-1][1].append(rule)
    return runs


def _tests(rules: Iterable[ResourceRule], variable: str) -> list[str]:
    """One test for all plain names, and one for each pattern."""
    patterns = list(dict.fromkeys(rule.pattern for rule in rules))
    plain = [name for pattern in patterns if (name := plain_name(pattern)) is not None]
    tests = [f"{variable} in {json.dumps(plain)}"] if plain else []
    return tests + [_test(pattern, variable) for pattern in patterns if plain_name(pattern) is None]


def _test(pattern: str, variable: str) -> str:
    """The test for one pattern."""
    if pattern.startswith(_ANYTHING):
        end = plain_name(pattern.removeprefix(_ANYTHING))
        if end is not None:
            return f"{variable}.endsWith({json.dumps(end)})"
    whole = f"{variable}.matches(r'^(?s:{pattern})$')"
    begin = beginning(pattern)
    return f"{variable}.startsWith({json.dumps(begin)}) && {whole}" if begin else whole


def plain_name(pattern: str) -> str | None:
    """The one name that a pattern matches, None if there may be several."""
    return _unescaped(pattern) if _LITERAL.fullmatch(pattern) else None


def beginning(pattern: str) -> str:
    """The text with which every name that matches begins, as far as that is easy to tell."""
    if "|" in re.sub(r"\([^()]*\)", "", pattern):
        return ""
    bare = pattern.removeprefix("(") if re.match(r"\([^()|]*\)[^?*+{]", pattern) else pattern
    match = _LITERAL.match(bare)
    text = match[0] if match is not None else ""
    rest = bare[len(text) :]
    if rest[:1] in {"?", "*", "{"}:
        text = re.sub(r"(?:\\)?.$", "", text)
    return _unescaped(text)


def _unescaped(text: str) -> str:
    return text.replace("\\.", ".")
