from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.errors import InvalidError
from policy.resource_rules import ResourceRule, Unit, parse_rules
from policy.resources import (
    BUILT_IN_TABLE,
    IMPLIED,
    MEMORY_LIMIT,
    TABLE,
    is_gpu,
    parse_table,
    rule_of,
    weight_of,
)

MIG = "nvidia.com/mig-"


@pytest.mark.parametrize(
    ("name", "vendor", "unit"),
    [
        pytest.param("nvidia.com/gpu", "nvidia", Unit.DEVICE, id="an NVIDIA device"),
        pytest.param("nvidia.com/gpu.shared", "nvidia", Unit.SHARE, id="a time-slice"),
        pytest.param("nvidia.com/mig-1g.5gb", "nvidia", Unit.SLICE, id="a MIG instance"),
        pytest.param(
            "nvidia.com/mig-1g.10gb.me", "nvidia", Unit.SLICE, id="a MIG instance with media engines"
        ),
        pytest.param("nvidia.com/gpumem", "hami", Unit.MEMORY, id="HAMi's memory"),
        pytest.param("nvidia.com/gpumem-percentage", "hami", Unit.MEMORY, id="HAMi's memory as a percentage"),
        pytest.param("nvidia.com/gpucores", "hami", Unit.CORE, id="HAMi's cores"),
        pytest.param("alpha.kubernetes.io/nvidia-gpu", "nvidia", Unit.DEVICE, id="the name of old"),
        pytest.param("amd.com/gpu", "amd", Unit.DEVICE, id="an AMD device"),
        pytest.param("amd.com/cpx_nps4", "amd", Unit.SLICE, id="an AMD partition"),
        pytest.param("gpu.intel.com/i915", "intel", Unit.DEVICE, id="an Intel device"),
        pytest.param("gpu.intel.com/xe", "intel", Unit.DEVICE, id="an Intel device of the newer driver"),
        pytest.param("habana.ai/gaudi", "gaudi", Unit.DEVICE, id="a Gaudi"),
        pytest.param("aws.amazon.com/neuron", "aws", Unit.DEVICE, id="a Neuron device"),
        pytest.param(
            "aws.amazon.com/neurondevice", "aws", Unit.DEVICE, id="a Neuron device by its other name"
        ),
        pytest.param("aws.amazon.com/neuroncore", "aws", Unit.SLICE, id="a Neuron core"),
        pytest.param("google.com/tpu", "google", Unit.DEVICE, id="a TPU"),
        pytest.param("huawei.com/Ascend910B3", "huawei", Unit.DEVICE, id="an Ascend"),
        pytest.param("huawei.com/Ascend310P-4c.3cpu", "huawei", Unit.SLICE, id="a part of an Ascend"),
        pytest.param("huawei.com/Ascend910B-memory", "huawei", Unit.MEMORY, id="the memory of an Ascend"),
        pytest.param("cambricon.com/mlu370", "cambricon", Unit.DEVICE, id="an MLU"),
        pytest.param("cambricon.com/vmlu", "cambricon", Unit.SHARE, id="a share of an MLU"),
        pytest.param(
            "cambricon.com/mlu370.smlu.vmemory", "cambricon", Unit.MEMORY, id="the memory of an MLU"
        ),
        pytest.param("hygon.com/dcunum", "hygon", Unit.SHARE, id="a DCU"),
        pytest.param("metax-tech.com/gpu", "metax", Unit.DEVICE, id="a MetaX device"),
        pytest.param("metax-tech.com/sgpu", "metax", Unit.SHARE, id="a share of a MetaX device"),
        pytest.param("enflame.com/gcu", "enflame", Unit.DEVICE, id="a GCU"),
        pytest.param("mthreads.com/vgpu", "mthreads", Unit.SHARE, id="a share of a Moore Threads device"),
        pytest.param("iluvatar.ai/gpu", "iluvatar", Unit.DEVICE, id="an Iluvatar device"),
        pytest.param("koordinator.sh/gpu-core", "koordinator", Unit.CORE, id="Koordinator's cores"),
        pytest.param("koordinator.sh/gpu-memory-ratio", "koordinator", Unit.SHARE, id="Koordinator's memory"),
        pytest.param(
            "mig.nvidia.com.deviceclass.resource.k8s.io/devices", "nvidia", Unit.SLICE, id="a class"
        ),
        pytest.param(
            "deviceclass.resource.kubernetes.io/tpu.google.com", "google", Unit.DEVICE, id="a TPU class"
        ),
    ],
)
def test_gpu_names(name: str, vendor: str, unit: Unit) -> None:
    """Each name of the table is a GPU's."""
    rule = rule_of(name)
    assert rule is not None
    assert (rule.vendor, rule.unit) == (vendor, unit)
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
        "gpu.intel.com/i915_monitoring",
        "gpu.intel.com/xe_monitoring",
        "cambricon.com/mlu_monitoring",
        "huawei.com/Ascend",
        "deviceclass.resource.kubernetes.io/nic.example.com",
        "gpu-fraction",
        "",
    ],
)
def test_other_names(name: str) -> None:
    """A name counts only if all of it matches, and names of monitoring never do."""
    assert not is_gpu(name)
    assert weight_of(name) == 0


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        pytest.param("nvidia.com/gpu", "1", id="a device is one card"),
        pytest.param(f"{MIG}1g.5gb", "1/7", id="a seventh of an A100"),
        pytest.param(f"{MIG}1g.10gb", "1/7", id="the same of the larger one"),
        pytest.param(f"{MIG}2g.10gb", "2/7", id="two sevenths"),
        pytest.param(f"{MIG}3g.40gb", "3/7", id="three sevenths"),
        pytest.param(f"{MIG}4g.40gb", "4/7", id="four sevenths"),
        pytest.param(f"{MIG}7g.80gb", "1", id="all of it"),
        pytest.param(f"{MIG}1g.5gb.me", "1/7", id="media engines weigh nothing more"),
        pytest.param(f"{MIG}1g.6gb", "1/4", id="a fourth of an A30"),
        pytest.param(f"{MIG}1g.6gb.me", "1/4", id="a fourth of an A30 with media engines"),
        pytest.param(f"{MIG}2g.12gb", "1/2", id="half an A30"),
        pytest.param(f"{MIG}4g.24gb", "1", id="all of an A30"),
        pytest.param(f"{MIG}2g.48gb", "1/2", id="half an RTX PRO 6000"),
        pytest.param(f"{MIG}1c.3g.20gb", "1", id="a profile that nobody knows weighs a card"),
        pytest.param("amd.com/dpx_nps2", "1/2", id="half an AMD card"),
        pytest.param("amd.com/cpx_nps4", "1/8", id="an eighth of an AMD card"),
        pytest.param("aws.amazon.com/neuroncore", "1/2", id="one of two cores"),
        pytest.param("huawei.com/Ascend910-8c", "1/4", id="8 of 32 cores"),
        pytest.param("huawei.com/Ascend310P-4c.3cpu", "1/2", id="4 of 8 cores"),
        pytest.param("koordinator.sh/gpu-memory-ratio", "1/100", id="a percent"),
        pytest.param("nvidia.com/gpumem", "0", id="memory weighs nothing"),
        pytest.param("huawei.com/Ascend910B-memory", "0", id="nor does an Ascend's"),
        pytest.param(IMPLIED, "1", id="an implied device is one"),
    ],
)
def test_weights(name: str, weight: str) -> None:
    """Weights are exact fractions of a card."""
    assert weight_of(name) == Fraction(weight)


@pytest.mark.parametrize(
    "parts",
    [
        ["1g.5gb"] * 7,
        ["3g.20gb", "4g.20gb"],
        ["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb.me"],
        ["1g.6gb"] * 4,
        ["2g.12gb", "1g.6gb", "1g.6gb"],
        ["1g.24gb", "1g.24gb", "2g.48gb"],
    ],
)
def test_slices_that_fill_a_card_weigh_a_card(parts: list[str]) -> None:
    """Without any rounding."""
    counts = {f"{MIG}{part}": parts.count(part) for part in parts}
    assert BUILT_IN_TABLE.weigh(counts) == 1


def test_rows_come_from_the_first_that_matches() -> None:
    """Every example belongs to its own row, and every row has one."""
    for rule in TABLE:
        assert rule.examples
        for name in rule.examples:
            first = next(one for one in TABLE if re.fullmatch(one.pattern, name))
            assert first is rule


def test_companions_name_the_device_that_they_describe() -> None:
    """A name may be made from that of the companion."""
    known = BUILT_IN_TABLE.known("huawei.com/Ascend310P-memory")
    assert known is not None
    assert known.of == "huawei.com/Ascend310P"
    for rule in TABLE:
        assert not rule.of or not rule.unit.counts


ROWS = [
    {"pattern": r"example\.com/npu-[a-z0-9]+", "unit": "device", "weight": "1/2", "vendor": "example"},
    {"pattern": r"example\.com/npu-mem", "unit": "memory", "of": "example.com/npu-a"},
    {"pattern": r"nvidia\.com/gpu\.shared", "unit": "share", "vendor": "nvidia", "weight": "1/4"},
    {"pattern": r"cambricon\.com/toolbox", "unit": "nothing"},
    {"pattern": r"example\.com/percent", "unit": "share", "whole": 100},
]


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        ("example.com/npu-a1", "1/2"),
        ("example.com/npu-mem", "1/2"),
        ("nvidia.com/gpu.shared", "1/4"),
        ("cambricon.com/toolbox", "0"),
        ("cambricon.com/mlu", "1"),
        ("nvidia.com/gpu", "1"),
        ("example.com/percent", "1/100"),
        ("example.com/npu", "0"),
    ],
)
def test_rows_of_configuration_are_tried_first(name: str, weight: str) -> None:
    """They add names, change weights and take names out, and the first that matches holds."""
    table = parse_table(ROWS)
    assert table.weight_of(name) == Fraction(weight)
    assert (table.known(name) is None) is (weight == "0")


def test_no_rows_are_the_built_in_table() -> None:
    """The very same one, with all that it remembers."""
    assert parse_table([]) is BUILT_IN_TABLE


@pytest.mark.parametrize(
    ("row", "path"),
    [
        pytest.param({"unit": "device"}, "gpuResources[0]", id="no pattern"),
        pytest.param({"pattern": "a"}, "gpuResources[0]", id="no unit"),
        pytest.param({"pattern": "a", "unit": "card"}, "gpuResources[0]", id="an unknown unit"),
        pytest.param(
            {"pattern": "a", "unit": "device", "wieght": 1}, "gpuResources[0]", id="an unknown field"
        ),
        *(
            pytest.param(
                {"pattern": pattern, "unit": "device"}, "gpuResources[0].pattern", id=f"pattern {pattern!r}"
            )
            for pattern in [
                "",
                "(",
                "a)",
                "(a+)+",
                "(?=a)",
                r"a\d",
                r"(a)\1",
                "a'b",
                "a++",
                "^a$",
                "[^a]",
                "a b",
                "a\n",
                "x" * 201,
            ]
        ),
        pytest.param(
            {"pattern": "a", "unit": "device", "weight": "2"}, "gpuResources[0].weight", id="two cards"
        ),
        pytest.param(
            {"pattern": "a", "unit": "device", "weight": "1/0"}, "gpuResources[0].weight", id="by zero"
        ),
        pytest.param(
            {"pattern": "a", "unit": "device", "weight": "0.5"}, "gpuResources[0].weight", id="decimals"
        ),
        pytest.param(
            {"pattern": "a", "unit": "device", "whole": 0}, "gpuResources[0].whole", id="none of it"
        ),
        pytest.param(
            {"pattern": "a", "unit": "device", "of": "b"}, "gpuResources[0].of", id="a device of another"
        ),
        pytest.param({"pattern": "a", "unit": "core", "of": r"\1"}, "gpuResources[0].of", id="a group"),
    ],
)
def test_wrong_rows_are_refused(row: dict[str, object], path: str) -> None:
    """With the path of what is wrong, all at once."""
    with pytest.raises(InvalidError) as error:
        parse_rules([row, row])
    paths = [one.path for one in error.value.errors]
    assert paths == [path, path.replace("[0]", "[1]")]


def test_lookups_are_remembered_within_bounds() -> None:
    """However many names are sent, memory is bounded, and answers stay the same."""
    table = parse_table(ROWS)
    for number in range(MEMORY_LIMIT + 10):
        assert table.known(f"example.com/npu-{number}") is not None
    assert len(table._known) <= MEMORY_LIMIT


def test_names_without_end_are_not_remembered() -> None:
    """Admission sees names before anybody has said how long they may be."""
    table = parse_table(ROWS)
    name = "example.com/npu-" + "1" * 1_000_000
    assert table.known(name) is not None
    assert table.known(name + "/") is None
    assert not table._known


def test_new_names_compile_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod may have twenty thousand names, and its review waits for all of them."""
    assert BUILT_IN_TABLE.known(f"{MIG}8g.80gb") is not None

    def compile_again(*_: object) -> None:
        pytest.fail("patterns are compiled once")

    monkeypatch.setattr(re, "compile", compile_again)
    assert BUILT_IN_TABLE.known(f"{MIG}123456g.5gb") is not None


@given(st.lists(st.sampled_from(["a", "b", "-", ".", "/", "1"]), max_size=12).map("".join))
def test_patterns_match_as_python_says(name: str) -> None:
    """A table is its patterns: nothing but the order and the memory is added."""
    rules = parse_rules([{"pattern": r"a[a-b.-]*/b{1,2}1?", "unit": "device"}])
    expected = re.fullmatch(r"a[a-b.-]*/b{1,2}1?", name) is not None
    table = parse_table([{"pattern": rules[0].pattern, "unit": "device"}])
    assert (table.known(name) is not None) is expected


def test_rules_are_values() -> None:
    """Two equal rows are one."""
    row = {"pattern": "a", "unit": "device"}
    assert parse_rules([row]) == (ResourceRule(pattern="a", vendor="other", unit=Unit.DEVICE),)
