"""Sources of the settings, judged like the built-in ones on a real Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic

import pytest

from policy.verdicts import Reason
from reaper.criteria import JudgeSettings
from reaper.judge import judge
from reaper.observation import Observation, observe
from reaper.prometheus import HttpPrometheus, PrometheusOptions
from reaper.source_rows import parse_sources
from reaper.sources import Sharing
from tests.reaper.judging.cases import SMALL_MEMORY, Case
from tests.reaper.judging.past import (
    BUSY,
    HOUR,
    IDLE,
    NOW,
    Line,
    Value,
    dcgm,
    gpu,
    prometheus_of,
    scraped,
    steady,
    workload,
)
from tests.reaper.judging.test_source_rows import ACTIVITY, example

SHARES = {
    "name": "lab-shares",
    "vendors": ["nvidia"],
    "sharing": Sharing.SHARE.value,
    "labels": {"namespace": "ns", "pod": "workload", "container": "ctr"},
    "device": ["uuid"],
    "metrics": [{**ACTIVITY, "name": "lab_share_busy"}],
}


def lab(pod: str, value: Value) -> list[Line]:
    """What the exporter of the example says."""
    labels = scraped("lab", workload(pod), gpu_uuid=f"GPU-{pod}")
    return [Line("lab_gpu_busy_ratio", labels, value)]


def xpu(pod: str, value: Value) -> list[Line]:
    """What xpumd says, and who holds the device by the example's second source."""
    holder = scraped("lab", workload(pod), hw_id=f"xpu-{pod}")
    return [
        Line("lab_xpu_holder", holder, steady(1.0)),
        Line(
            "hw_gpu_utilization_ratio", {"job": "xpumd", "hw_id": f"xpu-{pod}", "hw_gpu_task": "all"}, value
        ),
    ]


def xpu_memory(pod: str, used: float) -> list[Line]:
    """Memory of the card, and of the host, which is another."""
    labels = {"job": "xpumd", "hw_id": f"xpu-{pod}", "hw_memory_location": "device"}
    return [
        Line("hw_memory_usage_bytes", labels, steady(used)),
        Line("hw_memory_size_bytes", labels, steady(2.5e10)),
        Line("hw_memory_usage_bytes", {**labels, "hw_memory_location": "host"}, steady(2e10)),
    ]


def amd(pod: str, value: Value) -> list[Line]:
    """AMD's exporter with the prefix of the example."""
    labels = scraped("amd", workload(pod), hostname=f"node-{pod}", gpu_id="0", gpu_partition_id="0")
    return [Line("lab_gpu_gfx_activity", labels, value), Line("lab_gpu_package_power", labels, steady(100.0))]


def cases() -> Iterator[Case]:
    """What the example's sources tell."""
    idle, busy = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD
    yield Case("an exporter of one's own: idle", gpu("lab-idle"), lab("lab-idle", IDLE), idle)
    yield Case("and busy", gpu("lab-busy"), lab("lab-busy", steady(0.9)), busy)
    other = gpu("lab-other", resource="habana.ai/gaudi")
    yield Case("of no other vendor's devices", other, lab("lab-other", IDLE), Reason.UNSUPPORTED_SOURCE)
    resource = "gpu.intel.com/xe"
    yield Case(
        "an Intel device that is attributed: idle", gpu("xe", resource=resource), xpu("xe", IDLE), idle
    )
    lines = [*xpu("xe-full", IDLE), *xpu_memory("xe-full", used=9e9)]
    held = Reason.MEMORY_HELD
    yield Case("and full", gpu("xe-full", resource=resource), lines, held, SMALL_MEMORY)
    lines = [*xpu("xe-empty", IDLE), *xpu_memory("xe-empty", used=9e7)]
    yield Case("and empty", gpu("xe-empty", resource=resource), lines, idle, SMALL_MEMORY)
    lines = xpu("xe-busy", steady(0.5))
    yield Case("and busy on any of its engines", gpu("xe-busy", resource=resource), lines, busy)
    yield Case("another prefix: idle", gpu("pre", resource="amd.com/gpu"), amd("pre", IDLE), idle)
    yield Case("and with one: busy", gpu("pre-busy", resource="amd.com/gpu"), amd("pre-busy", BUSY), busy)
    labels = {"job": "gpu-idle", "gpu": "0", "uuid": "GPU-off"}
    lines = [*dcgm("off", uuid="GPU-off"), Line("gpu_idle_device_utilization_percent", labels, BUSY)]
    yield Case("a source that is switched off says nothing", gpu("off"), lines, idle)
    share = {"ns": "team", "workload": "share", "ctr": "main", "uuid": "GPU-share", "job": "lab"}
    pod = gpu("share", resource="nvidia.com/gpu.shared")
    lines = [Line("lab_share_busy", share, IDLE)]
    yield Case("shares need a last kernel and the card, too", pod, lines, Reason.NO_SERIES)


CASES = list(cases())


@pytest.fixture(scope="module")
def settings() -> JudgeSettings:
    """The example's sources and one of shares."""
    return JudgeSettings(sources=parse_sources([*example(), SHARES]))


@pytest.fixture(scope="module")
def observation(tmp_path_factory: pytest.TempPathFactory, settings: JudgeSettings) -> Observation:
    """What a real Prometheus tells of all cases."""
    lines = [line for case in CASES for line in case.lines]
    with prometheus_of(lines, tmp_path_factory.mktemp("lab")) as url:
        adapter = HttpPrometheus(PrometheusOptions(url), monotonic)
        try:
            return asyncio.run(observe(adapter, [HOUR], NOW, settings))
        finally:
            adapter.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_sources_of_the_settings(case: Case, observation: Observation, settings: JudgeSettings) -> None:
    """They are judged like the built-in ones."""
    assert observation.problems == ()
    found = judge(case.pod, case.terms, observation, NOW, settings)
    assert (found.kind, found.reason) == (case.kind, case.reason), found
