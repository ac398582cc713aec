"""What is said to make Unknown pods visible."""

from __future__ import annotations

import pytest

from policy.devices import Devices
from policy.verdicts import Reason
from reaper.advice import ADVICE, advise
from reaper.judge import PRECEDENCE
from reaper.pods import GpuPod
from tests.reaper.judging.past import gpu

HAMI = gpu("h", devices=Devices({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1}, ("main",)))
MIG = gpu("m", resource="nvidia.com/mig-1g.5gb")


@pytest.mark.parametrize(
    ("pod", "metrics", "said"),
    [
        pytest.param(gpu("p"), set(), "install it", id="no exporter at all"),
        pytest.param(
            gpu("p"), {"DCGM_FI_DEV_GPU_UTIL"}, "DCGM_EXPORTER_KUBERNETES", id="an exporter without pods"
        ),
        pytest.param(
            MIG, {"DCGM_FI_DEV_FB_USED"}, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", id="MIG without profiling"
        ),
        pytest.param(
            MIG, {"DCGM_FI_PROF_GR_ENGINE_ACTIVE"}, "DCGM_EXPORTER_KUBERNETES", id="MIG with it, without pods"
        ),
        pytest.param(HAMI, {"DCGM_FI_DEV_GPU_UTIL"}, "scrape HAMi's monitor", id="HAMi without its monitor"),
        pytest.param(HAMI, {"HostCoreUtilization"}, "first CUDA call", id="HAMi before the first call"),
        pytest.param(gpu("a", resource="amd.com/gpu"), set(), "scrape AMD's", id="AMD without its exporter"),
        pytest.param(
            gpu("a", resource="amd.com/gpu"),
            {"gpu_gfx_activity"},
            "must name pods",
            id="AMD's exporter without pods",
        ),
        pytest.param(
            gpu("n", resource="huawei.com/Ascend910"),
            set(),
            "scrape Ascend's",
            id="Ascend without its exporter",
        ),
        pytest.param(
            gpu("m", resource="cambricon.com/mlu"),
            {"mlu_utilization"},
            "podresources",
            id="Cambricon without pods",
        ),
        pytest.param(
            gpu("x", resource="gpu.intel.com/xe"),
            {"hw_gpu_utilization_ratio"},
            "docs/sources.md",
            id="Intel's pods",
        ),
        pytest.param(
            gpu("v", resource="volcano.sh/vgpu-number"), set(), "port 9394", id="Volcano without its monitor"
        ),
    ],
)
def test_unseen_pods(pod: GpuPod, metrics: set[str], said: str) -> None:
    """Each kind of unseen pod needs another exporter, or another setting of it."""
    ((reason, sentence),) = advise({Reason.NO_SERIES}, [pod], metrics)
    assert reason is Reason.NO_SERIES
    assert said in sentence


def test_the_same_advice_is_given_once() -> None:
    """Many unseen pods of a kind need one sentence."""
    assert len(advise({Reason.NO_SERIES}, [gpu("a"), gpu("b"), MIG], set())) == 2


def test_reasons_that_nothing_helps_against_are_silent() -> None:
    """A pod that has not started needs no exporter."""
    assert advise({Reason.NOT_STARTED}, [], set()) == []


def test_every_unknown_of_a_device_has_advice() -> None:
    """Whatever makes a device Unknown has a sentence that helps."""
    activity = {Reason.ABOVE_THRESHOLD, Reason.RECENT_KERNEL, Reason.MEMORY_HELD}
    assert set(PRECEDENCE) - activity <= set(ADVICE)
