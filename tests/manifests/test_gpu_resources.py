"""Further names of GPU resources: one value of the chart that conditions and components read alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from policy.errors import InvalidError
from policy.resources import parse_table

Render = Callable[..., list[dict[str, Any]]]
ROWS = [
    {"pattern": r"example\.com/npu-[a-z0-9]+", "unit": "device", "vendor": "example", "weight": "1/2"},
    {"pattern": r"cambricon\.com/toolbox", "unit": "nothing"},
]


def variables(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows that each component is given, by the name of its variable."""
    return {
        one["name"]: json.loads(one["value"])
        for obj in objects
        if obj["kind"] == "Deployment"
        for container in obj["spec"]["template"]["spec"]["containers"]
        for one in container.get("env", [])
        if one["name"].endswith("_GPU_RESOURCES")
    }


def conditions(objects: list[dict[str, Any]]) -> list[str]:
    """All match conditions of webhooks."""
    return [
        one["expression"]
        for obj in objects
        for webhook in obj.get("webhooks", [])
        for one in webhook["matchConditions"]
    ]


@pytest.mark.parametrize("rows", [[], ROWS], ids=["none", "two"])
def test_components_get_the_rows_as_they_are(render: Render, rows: list[dict[str, Any]]) -> None:
    """Every Deployment that counts devices."""
    found = variables(render({"gpuResources": rows, "quota": {"enabled": True}}))
    components = ("QUOTA", "REAPER", "WEBHOOK")
    assert found == {f"GPU_TENURE_{name}_GPU_RESOURCES": rows for name in components}


def test_every_condition_that_names_gpus_has_the_rows(render: Render) -> None:
    """Before the built-in names, a row that takes names out around all that follow."""
    found = [one for one in conditions(render({"gpuResources": ROWS})) if '"nvidia.com/gpu"' in one]
    assert found
    for expression in found:
        own = expression.index(r"name.matches(r'^(?s:example\.com/npu-[a-z0-9]+)$') ||")
        out = expression.index('!(name.startsWith("cambricon.com/toolbox") && ')
        assert own < out < expression.index('"nvidia.com/gpu"')


@pytest.mark.parametrize(
    ("pattern", "begin"),
    [
        (r"example\.com/npu-[a-z0-9]+", "example.com/npu-"),
        (r"example\.com/bc*", "example.com/b"),
        (r"example\.com/b\.?", "example.com/b"),
        (r"example\.com/b{0,2}", "example.com/"),
        (r"(a|b)\.com/x", ""),
        (r"a\.com/x|b\.com/y", ""),
        (r".*/gpu", ""),
    ],
)
def test_patterns_are_guarded_by_their_beginnings(render: Render, pattern: str, begin: str) -> None:
    """Never by more than all that match have in common."""
    rendered = conditions(render({"gpuResources": [{"pattern": pattern, "unit": "device"}]}))
    test = f"name.matches(r'^(?s:{pattern})$') ||"
    guard = f'name.startsWith("{begin}") && ' if begin else "(\n"
    assert any(f"{guard}{test}" in "\n".join(map(str.strip, one.splitlines())) for one in rendered)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"pattern": "a'b", "unit": "device"}, id="a quote"),
        pytest.param({"pattern": "", "unit": "device"}, id="no text"),
        pytest.param({"pattern": "a\nb", "unit": "device"}, id="two lines"),
        pytest.param({"pattern": "x" * 201, "unit": "device"}, id="too long"),
        pytest.param({"pattern": "^a$", "unit": "device"}, id="anchors"),
        pytest.param({"pattern": "a", "unit": "card"}, id="an unknown unit"),
        pytest.param({"pattern": "a"}, id="no unit"),
        pytest.param({"unit": "device"}, id="no pattern"),
        pytest.param({"pattern": "a", "unit": "device", "wieght": "1/2"}, id="an unknown field"),
        pytest.param({"pattern": "a", "unit": "device", "weight": "half"}, id="a weight in words"),
        pytest.param({"pattern": "a", "unit": "device", "weight": 2}, id="two cards"),
        pytest.param({"pattern": "a", "unit": "device", "whole": 0}, id="none of it"),
    ],
)
def test_wrong_rows_are_refused(render: Render, row: dict[str, Any]) -> None:
    """By the chart, and by the components if they get there another way."""
    with pytest.raises(ValueError, match="/gpuResources/0"):
        render({"gpuResources": [row]})
    with pytest.raises(InvalidError):
        parse_table([row])
