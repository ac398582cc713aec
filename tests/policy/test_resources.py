from __future__ import annotations

import re

import pytest

from policy.resources import TABLE, Unit, is_gpu, rule_of


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        pytest.param("nvidia.com/gpu", Unit.DEVICE, id="an NVIDIA device"),
        pytest.param("nvidia.com/gpu.shared", Unit.SHARE, id="a time-slice"),
        pytest.param("nvidia.com/mig-1g.5gb", Unit.SLICE, id="a MIG instance"),
        pytest.param("nvidia.com/mig-1g.10gb.me", Unit.SLICE, id="a MIG instance with media engines"),
        pytest.param("nvidia.com/gpumem", Unit.MEMORY, id="HAMi's memory"),
        pytest.param("nvidia.com/gpumem-percentage", Unit.MEMORY, id="HAMi's memory as a percentage"),
        pytest.param("nvidia.com/gpucores", Unit.CORE, id="HAMi's cores"),
        pytest.param("amd.com/gpu", Unit.DEVICE, id="an AMD device"),
    ],
)
def test_gpu_names(name: str, unit: Unit) -> None:
    """Each name of the table is a GPU's."""
    rule = rule_of(name)
    assert rule is not None
    assert rule.unit is unit
    assert is_gpu(name)


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "memory",
        "nvidia.com/gpux",
        "xnvidia.com/gpu",
        "nvidia_com/gpu",
        "nvidia.com/mig-",
        "nvidia.com/gpu\n",
        "",
    ],
)
def test_other_names(name: str) -> None:
    """A name counts only if all of it matches."""
    assert not is_gpu(name)


def test_patterns_match_one_rule_each() -> None:
    """No name of the table's own examples matches two rules, so that the order does not matter."""
    names = [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/gpumem",
        "amd.com/gpu",
    ]
    for name in names:
        assert sum(re.fullmatch(rule.pattern, name) is not None for rule in TABLE) == 1
