"""The table as CEL says the same as the table: evaluated here by rules of the few functions that it uses."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.cel import beginning, name_test, plain_name
from policy.resource_rules import ResourceRule, Unit
from policy.resources import BUILT_IN_TABLE, TABLE, ResourceTable

PATTERNS = [
    r"a\.com/gpu",
    r"a\.com/gpu-[a-z]+",
    r"a\.com/.*",
    r".*monitoring",
    r"(a\.com/x[a-z]*)-memory",
    r"(a|b)\.com/gpu",
    r"b\.com/gp?u",
]
NAMES = [
    "a.com/gpu",
    "a.com/gpu-a",
    "a.com/gpu-monitoring",
    "a.com/xy-memory",
    "a.com/x-memory",
    "b.com/gpu",
    "b.com/gu",
    "b.com/monitoring",
    "acom/gpu",
    "a.com/GPU",
]


class Name(str):
    """A text with the functions that CEL has."""

    __slots__ = ()

    def startsWith(self, text: str) -> bool:  # noqa: N802 - CEL's name
        """CEL's function."""
        return self.startswith(text)

    def endsWith(self, text: str) -> bool:  # noqa: N802 - CEL's name
        """CEL's function."""
        return self.endswith(text)

    def matches(self, pattern: str) -> bool:
        """CEL's function: anywhere in the text, unless anchored."""
        return re.search(pattern, self) is not None


def says(expression: str, name: str) -> bool:
    """The value of an expression: CEL's operators have Python's precedence under other names."""
    python = re.sub(r"!\(", "not (", expression).replace("||", "or").replace("&&", "and")
    return bool(eval(f"({python})", {"__builtins__": {}}, {"name": Name(name), "false": False}))  # noqa: S307 - made by the code under test


@given(
    rows=st.lists(
        st.tuples(st.sampled_from(PATTERNS), st.sampled_from([Unit.DEVICE, Unit.NOTHING])), min_size=1
    ),
    name=st.sampled_from(NAMES),
)
def test_any_order_of_rows(rows: list[tuple[str, Unit]], name: str) -> None:
    """The first row that matches decides, whether it takes names in or out."""
    rules = [ResourceRule(pattern=pattern, vendor="x", unit=unit) for pattern, unit in rows]
    assert says(name_test(rules), name) is (ResourceTable(rules).known(name) is not None)


@pytest.mark.parametrize(
    "name",
    [
        *(name for rule in TABLE for name in rule.examples),
        "nvidia.com/mig-",
        "nvidia.com/gpus",
        "huawei.com/Ascend910-x",
        "cambricon.com/mlu_monitoring",
        "amd.com/cpx_nps3",
        "example.com/gpu",
    ],
)
def test_the_built_in_table(name: str) -> None:
    """Name by name."""
    assert says(name_test(TABLE), name) is (BUILT_IN_TABLE.known(name) is not None)


def test_plain_names_are_looked_up_and_patterns_guarded() -> None:
    """The API server's cost is what it looks at: no pattern is tried on every name."""
    expression = name_test(TABLE)
    for rule in TABLE:
        plain = plain_name(rule.pattern)
        if plain is not None:
            assert f'"{plain}"' in expression
        elif rule.unit is not Unit.NOTHING:
            begin = beginning(rule.pattern)
            assert begin
            assert f"name.startsWith(\"{begin}\") && name.matches(r'^(?s:{rule.pattern})$')" in expression


@pytest.mark.parametrize(
    ("pattern", "begin"),
    [
        (r"nvidia\.com/mig-[a-z]+", "nvidia.com/mig-"),
        (r"(huawei\.com/Ascend[A-Z]+)-memory", "huawei.com/Ascend"),
        (r"a\.com/b?c", "a.com/"),
        (r"a\.com/bc*", "a.com/b"),
        (r"a\.com/b|c\.com/d", ""),
        (r"(a|b)\.com/c", ""),
        (r"(a\.com/b)?c", ""),
        (r"a\.?com/b", "a"),
        (r".*/gpu", ""),
        (r"a\.com/b{0,2}", "a.com/"),
    ],
)
def test_beginnings_of_patterns(pattern: str, begin: str) -> None:
    """A guard is never narrower than its pattern."""
    assert beginning(pattern) == begin


@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: rule.pattern)
def test_every_example_begins_as_its_guard_says(rule: ResourceRule) -> None:
    """And has the slash that all names must have."""
    for name in rule.examples:
        assert "/" in name
        assert name.startswith(beginning(rule.pattern))
