"""Sources of the settings are read strictly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policy.errors import InvalidError
from reaper.criteria import JudgeSettings
from reaper.exporters import AMD, GPU_IDLE, SOURCES
from reaper.settings import ENV_PREFIX, ReaperSettings
from reaper.source_rows import parse_sources
from reaper.sources import MIXED
from runtime.settings import load

PAGE = Path(__file__).parents[3] / "docs" / "sources.md"
ACTIVITY = {"name": "lab_busy", "role": "activity", "principal": True}
LAB: dict[str, Any] = {
    "name": "lab",
    "vendors": ["nvidia"],
    "labels": {},
    "device": ["uuid"],
    "metrics": [ACTIVITY],
}


def example() -> list[dict[str, Any]]:
    """The example of the documentation."""
    block = PAGE.read_text().split("```yaml\n")[1].split("```")[0]
    rows: list[dict[str, Any]] = yaml.safe_load(block)["sources"]
    return rows


def test_the_example_of_the_documentation_is_read() -> None:
    """As a setting, in a file and as a variable, and by the tables alone."""
    sources = {one.name: one for one in parse_sources(example())}
    lab = sources["lab-exporter"]
    assert MIXED in lab.forms
    assert [(one.role.value, one.scale, one.highest) for one in lab.metrics] == [
        ("activity", 100.0, pytest.approx(1.05)),
        ("memory", 1.0, 1e14),
    ]
    assert {one.name for one in sources["amd"].metrics} == {f"lab_{one.name}" for one in AMD.metrics}
    assert sources["amd"].rests
    assert GPU_IDLE.name not in sources
    settings = load(ReaperSettings, {"prometheus_url": "http://p:9090", "sources": example()}, environ={})
    assert settings.judging().sources == tuple(sources.values())


def test_without_rows_nothing_changes() -> None:
    """The built-in tables are the default."""
    assert parse_sources([]) is SOURCES
    assert JudgeSettings().sources is SOURCES


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        pytest.param(["x"], "sources[0]: ", id="no map"),
        pytest.param([{}], "sources[0]: object missing required field `name`", id="no name"),
        pytest.param([{**LAB, "nmae": "x"}], "unknown field `nmae`", id="a field that is none"),
        pytest.param([{**LAB, "name": "My Lab"}], "sources[0].name: must be a name", id="an odd name"),
        pytest.param([LAB, LAB], "sources[1].name: must be given once", id="the same name twice"),
        pytest.param(
            [{**LAB, "like": "nvml"}], "sources[0].like: must be a built-in source", id="like nothing"
        ),
        pytest.param(
            [{"name": "nvml", "enabled": False}],
            "sources[0].name: must be a built-in source",
            id="nothing to stop",
        ),
        pytest.param([{**LAB, "vendors": []}], "sources[0].vendors: must be a list", id="nobody's devices"),
        pytest.param([{**LAB, "device": []}], "sources[0].device: must be a list", id="no device"),
        pytest.param(
            [{**LAB, "device": ["a-b"]}],
            "sources[0].device[0]: must be the name of a label",
            id="an odd label",
        ),
        pytest.param(
            [{**LAB, "instance": 'x"'}], "sources[0].instance: must be the name", id="an odd instance"
        ),
        pytest.param(
            [{**LAB, "labels": {"pod": "a b"}}], "sources[0].labels.pod: must be", id="an odd label of pods"
        ),
        pytest.param([{**LAB, "metrics": []}], "sources[0].metrics: must be a list", id="no metrics"),
        pytest.param(
            [{**LAB, "metricPrefix": "9"}], "sources[0].metricPrefix: must begin", id="an odd prefix"
        ),
        pytest.param(
            [{**LAB, "sharing": "slice"}],
            "sources[0].sharing: must be one of device, share",
            id="odd sharing",
        ),
        pytest.param(
            [{**LAB, "labels": None, "sharing": "share"}],
            "sources[0].labels: must say",
            id="shares of nobody",
        ),
        pytest.param(
            [{**LAB, "labels": None, "metrics": [{"name": "x", "role": "holder"}]}],
            "sources[0].labels: must say",
            id="holders of no name",
        ),
        pytest.param(
            [{**LAB, "metrics": [ACTIVITY, {**ACTIVITY, "name": "x{}"}]}],
            "sources[0].metrics[1].name: must be the name of a metric",
            id="an odd metric",
        ),
        pytest.param(
            [{**LAB, "metrics": [{**ACTIVITY, "role": "busy"}]}],
            "sources[0].metrics[0].role: must be one of activity, host",
            id="an odd role",
        ),
        pytest.param(
            [{**LAB, "metrics": [{**ACTIVITY, "scale": 0}]}],
            "sources[0].metrics[0].scale: must be above 0",
            id="no scale",
        ),
        pytest.param(
            [{**LAB, "metrics": [{**ACTIVITY, "highest": -1}]}],
            "sources[0].metrics[0].highest: must be above 0",
            id="no possible value",
        ),
        pytest.param(
            [{**LAB, "metrics": [{"name": "x", "role": "memory", "principal": True}]}],
            "sources[0].metrics[0].principal: only activity and host",
            id="memory proves nothing",
        ),
        pytest.param(
            [{**LAB, "metrics": [{**ACTIVITY, "where": {"a b": "c"}}]}],
            "sources[0].metrics[0].where: must map names",
            id="an odd condition",
        ),
        pytest.param(
            [{**LAB, "metrics": [{**ACTIVITY, "name": "DCGM_FI_DEV_GPU_UTIL"}]}],
            "DCGM_FI_DEV_GPU_UTIL belongs to dcgm",
            id="a metric of another",
        ),
        pytest.param(
            [{**LAB, "metrics": [{**ACTIVITY, "name": f"x{n}"} for n in range(33)]}],
            "sources[0].metrics: must be at most 32",
            id="too many metrics",
        ),
        pytest.param([LAB] * 17, "sources: must be at most 16", id="too many sources"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(rows: Sequence[Any], said: str) -> None:
    """Each error names the path, and what was expected."""
    with pytest.raises(InvalidError) as caught:
        parse_sources(rows)
    assert said in str(caught.value)


def test_a_container_need_not_be_named() -> None:
    """Some exporters know the pod alone."""
    *_, lab = parse_sources([{**LAB, "labels": {"container": ""}}])
    assert {form.container for form in lab.forms} == {""}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "x", "activity", "holder", "share"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "role", "scale", "pod", "where", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted([*LAB, "like", "sharing", "instance", "devicePrefix"])), JSON))
def test_anything_is_read_or_refused(changes: dict[str, Any]) -> None:
    """Whatever a row holds, it is refused with its place, or a source that can be asked for comes of it."""
    try:
        sources = parse_sources([{**LAB, **changes}])
    except InvalidError:
        return
    assert sources[-1].device
    assert all(metric.highest > 0 for metric in sources[-1].metrics)
    JudgeSettings(sources=sources)


def test_everything_wrong_is_said_at_once() -> None:
    """Not only the first."""
    rows = [{**LAB, "name": "A", "device": []}, {**LAB, "name": "b", "vendors": []}]
    with pytest.raises(InvalidError) as caught:
        parse_sources(rows)
    assert {error.path for error in caught.value.errors} >= {
        "sources[0].name",
        "sources[0].device",
        "sources[1].vendors",
    }


def test_the_setting_names_itself() -> None:
    """An error in the rows is one of the setting."""
    flags = {"prometheus_url": "http://p:9090", "sources": '[{"name": "amd"}]'}
    with pytest.raises(InvalidError, match=r"--sources: sources\[0\].vendors"):
        load(ReaperSettings, flags, env_prefix=ENV_PREFIX, environ={})
