"""How PromQL is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reaper.criteria import JudgeSettings
from reaper.exporters import DCGM, HAMI, SOURCES
from reaper.queries import Series, expected_steps, matchers_of, maximum
from reaper.sources import EXPORTED, PLAIN, WHOLE


def test_exporter_labels_are_not_kept() -> None:
    """What changes when an exporter restarts is not among the labels of the result."""
    text = maximum(Series(DCGM, DCGM.metrics[0], EXPORTED), 3600)
    assert text == (
        "max by (exported_namespace, exported_pod, exported_container, UUID, GPU_I_ID, vgpu, pod_uid, UID)"
        ' (max_over_time(DCGM_FI_DEV_GPU_UTIL{exported_namespace!="",exported_pod!=""}[3600000ms]))'
    )


def test_plain_series_leave_out_those_with_a_prefix() -> None:
    """A series that names the workload in another way is never read by its exporter's labels."""
    assert Series(DCGM, DCGM.metrics[0], PLAIN).selector == (
        'DCGM_FI_DEV_GPU_UTIL{exported_pod="",exported_namespace="",pod_namespace="",pod!=""}'
    )


def test_whole_devices_leave_out_virtual_values() -> None:
    """The activity of a device is not that of one sharer."""
    assert Series(DCGM, DCGM.metrics[0], WHOLE).selector == 'DCGM_FI_DEV_GPU_UTIL{vgpu=""}'
    assert Series(HAMI, HAMI.metrics[1], WHOLE).selector == "hami_host_gpu_utilization_ratio"


def test_matchers_are_quoted() -> None:
    """A value of the settings cannot leave its quotes."""
    assert matchers_of({"cluster": 'a"} or up{x="\\\n'}) == 'cluster="a\\"} or up{x=\\"\\\\\\n"'


def test_metric_names_are_unique() -> None:
    """A metric belongs to one exporter, so that one query per name is enough."""
    names = [metric.name for source in SOURCES for metric in source.metrics]
    assert len(names) == len(set(names))


@given(at=st.integers(0, 10**9), window=st.integers(60, 86_400), step=st.integers(1, 60))
def test_expected_steps_are_those_of_a_subquery(at: int, window: int, step: int) -> None:
    """Steps are the multiples of the step within the left-open window."""
    assert expected_steps(at, window, step) == max(
        1, sum(1 for _ in range(at // step, (at - window) // step, -1))
    )


@pytest.mark.parametrize(
    "given_settings",
    [
        pytest.param({"coverage": 0.1}, id="a coverage that proves nothing"),
        pytest.param({"intervals": {"dcgm": 0}}, id="an interval of nothing"),
        pytest.param({"intervals": {"dcgm": 301}}, id="an interval beyond the lookback"),
        pytest.param({"intervals": {"nvidia": 15}}, id="an unknown exporter"),
        pytest.param({"matchers": {'x"': "1"}}, id="a label that is none"),
    ],
)
def test_impossible_settings(given_settings: dict[str, object]) -> None:
    """Settings that could make a busy pod look idle are refused."""
    with pytest.raises(ValueError, match=":"):
        JudgeSettings(**given_settings)  # type: ignore[arg-type]
