"""Every trap of GPU metrics, as a made-up past in one real Prometheus, judged by the real queries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from time import monotonic

import pytest

from policy.verdicts import Reason, VerdictKind
from reaper.criteria import JudgeSettings
from reaper.evidence import Verdict
from reaper.judge import judge
from reaper.observation import Observation, observe
from reaper.pods import GpuPod
from reaper.prometheus import HttpPrometheus, PrometheusOptions
from tests.reaper.judging import (
    cases,
    cases_of_choices,
    cases_of_dcgm,
    cases_of_metrics,
    cases_of_nvidia,
    cases_of_pods,
    cases_of_vendors,
)
from tests.reaper.judging.cases import TERMS, Case, once
from tests.reaper.judging.past import HOUR, IDLE, NOW, Line, dcgm, gpu, prometheus_of


def every_case() -> Iterator[Case]:
    """All cases, each with a pod of its own."""
    yield from cases.of_activity()
    yield from cases.of_samples()
    yield from cases.of_faults()
    yield from cases_of_pods.of_labels()
    yield from cases_of_pods.of_devices()
    yield from cases_of_pods.of_shares()
    yield from cases_of_pods.of_memory()
    yield from cases_of_pods.of_hami_shares()
    yield from cases_of_pods.of_hami_cards()
    yield from cases_of_pods.of_amd()
    yield from cases_of_dcgm.of_dcgm_labels()
    yield from cases_of_dcgm.of_slices()
    yield from cases_of_dcgm.of_time_slices()
    yield from cases_of_dcgm.of_claims()
    yield from cases_of_nvidia.of_hami_hosts()
    yield from cases_of_nvidia.of_volcano()
    yield from cases_of_nvidia.of_device_exporters()
    yield from cases_of_vendors.of_amd_modes()
    yield from cases_of_vendors.of_ascend()
    yield from cases_of_vendors.of_cambricon()
    yield from cases_of_vendors.of_intel()
    yield from cases_of_choices.of_never_touched()
    yield from cases_of_choices.of_stopped_clocks()
    yield from cases_of_choices.of_given_cores()
    yield from cases_of_choices.of_last_faults()
    yield from cases_of_metrics.of_dcgm_1x()
    yield from cases_of_metrics.of_nvidia_smi()
    yield from cases_of_metrics.of_amd()
    yield from cases_of_metrics.of_ascend()
    yield from cases_of_metrics.of_others()


CASES = list(every_case())
LATELY = gpu("lately", started=30 * HOUR)
LONG = gpu("long", started=30 * HOUR)
BROKEN = gpu("broken", started=30 * HOUR)
LONG_PAST = Line("", {}, IDLE, since=26 * HOUR, every=60)
MORE = [
    *dcgm("lately", util=once(5 * HOUR, 90, lasting=60), base=LONG_PAST),
    *dcgm("long", base=LONG_PAST),
    *dcgm("broken", util=lambda ago: None if 3 * HOUR < ago < 8 * HOUR else 0.0, base=LONG_PAST),
]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that holds the past of all cases."""
    lines = [line for case in CASES for line in case.lines]
    with prometheus_of([*lines, *MORE], tmp_path_factory.mktemp("past")) as url:
        yield url


@pytest.fixture(scope="module")
def observation(prometheus: str) -> Observation:
    """One observation of everything."""
    adapter = HttpPrometheus(PrometheusOptions(prometheus), monotonic)
    try:
        return asyncio.run(observe(adapter, [HOUR, 2 * HOUR], NOW, JudgeSettings()))
    finally:
        adapter.close()


def judged(case: Case, observation: Observation) -> Verdict:
    """The verdict of a case."""
    return judge(case.pod, case.terms, observation, NOW, JudgeSettings())


def test_every_query_is_answered_in_full(observation: Observation) -> None:
    """The real Prometheus accepts every query."""
    assert observation.problems == ()
    assert observation.complete


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_trap(case: Case, observation: Observation) -> None:
    """Each trap leads to its reason, and only a proven idle pod is Idle."""
    verdict = judged(case, observation)
    assert (verdict.kind, verdict.reason) == (case.kind, case.reason), verdict
    assert (verdict.idle_since is not None) == (verdict.kind is VerdictKind.IDLE)


def case_of(name: str) -> Case:
    """The case of a pod."""
    return next(case for case in CASES if case.pod.name == name)


def test_an_idle_pod_tells_its_samples(observation: Observation) -> None:
    """The sentence counts what was seen of what was expected."""
    verdict = judged(case_of("idle"), observation)
    assert verdict.sentence == "240 of 240 samples below 5 %"
    assert {signal.name for signal in verdict.evidence.signals} >= {"utilization", "engine", "memory"}


def test_garbage_is_counted(observation: Observation) -> None:
    """What was thrown away is in the evidence."""
    signals = {signal.name: signal for signal in judged(case_of("some"), observation).evidence.signals}
    assert signals["utilization"].discarded == 6
    assert signals["utilization"].maximum == 0


def test_a_partly_idle_pod_is_reported(observation: Observation) -> None:
    """One idle device of two shows in the evidence of an active pod."""
    evidence = judged(case_of("half"), observation).evidence
    assert (evidence.devices_expected, evidence.devices_seen, evidence.devices_idle) == (2, 2, 1)


@pytest.mark.parametrize(
    ("pod", "processes"),
    [
        pytest.param("hold-doubt", 4e8, id="a process that was there"),
        pytest.param("hold-parked", 20e9, id="a process that is there"),
        pytest.param("hold-agrees", 0.0, id="no process at all"),
        pytest.param("idle", None, id="no source that tells"),
    ],
)
def test_processes_are_found_by_the_number_of_the_device(
    pod: str, processes: float | None, observation: Observation
) -> None:
    """Series of processes lack the UUID; others of the same target have both. The evidence shows them."""
    found = [one for one in judged(case_of(pod), observation).evidence.signals if one.name == "processes"]
    assert [(one.source, one.unit, one.maximum) for one in found] == (
        [] if processes is None else [("gpu-idle", "B", processes)]
    )


@pytest.mark.parametrize(
    ("name", "parked"),
    [
        pytest.param("parked", True, id="20 GiB held without activity is parked"),
        pytest.param("idle", False, id="400 MiB held is not"),
        pytest.param("hold-parked", True, id="20 GB held by a process, as only gpu-idle-exporter tells"),
        pytest.param("hold-left", False, id="a process that has ended holds nothing"),
    ],
)
def test_parked(name: str, parked: bool, observation: Observation) -> None:
    """A model that waits in memory is idle and called parked."""
    assert judged(case_of(name), observation).parked is parked


@pytest.mark.parametrize(
    ("pod", "hours"),
    [
        pytest.param(LATELY, 5.0, id="since the last busy sample"),
        pytest.param(LONG, 24.0, id="as far as was looked"),
        pytest.param(BROKEN, 1.0, id="only the window where the data has a hole before it"),
    ],
)
def test_idle_since(pod: GpuPod, hours: float, observation: Observation) -> None:
    """The idle stretch starts where the data proves it, at the latest with the window."""
    verdict = judge(pod, TERMS, observation, NOW, JudgeSettings())
    assert verdict.idle_since is not None
    assert abs((NOW - verdict.idle_since) - timedelta(hours=hours)) <= timedelta(minutes=7)


def test_the_number_of_queries_does_not_grow_with_pods(prometheus: str) -> None:
    """One more window costs a fixed number of queries, however many pods there are."""
    counts: dict[int, int] = {}

    async def run(windows: list[int]) -> None:
        adapter = HttpPrometheus(PrometheusOptions(prometheus), monotonic)
        original = adapter.query
        asked: list[str] = []

        async def counted(expression: str, at: object) -> object:
            asked.append(expression)
            return await original(expression, at)  # type: ignore[arg-type]

        adapter.query = counted  # type: ignore[method-assign,assignment]
        observed = await observe(adapter, windows, NOW, JudgeSettings(), thresholds=())
        assert observed.complete
        adapter.close()
        assert not [text for text in asked if "team" in text or "GPU-" in text]
        counts[len(windows)] = len(asked)

    for windows in ([HOUR], [HOUR, 2 * HOUR], [HOUR, 2 * HOUR, 1800]):
        asyncio.run(run(windows))
    assert counts[3] - counts[2] == counts[2] - counts[1]
    assert counts[1] < 600


def settled(prometheus: str, settings: JudgeSettings) -> Observation:
    """An observation with other settings."""
    adapter = HttpPrometheus(PrometheusOptions(prometheus), monotonic)
    try:
        return asyncio.run(observe(adapter, [HOUR], NOW, settings))
    finally:
        adapter.close()


def test_an_interval_may_be_given(prometheus: str) -> None:
    """Series that are scraped every five minutes are judged if the setting says so, and others as before."""
    settings = JudgeSettings(intervals={"dcgm": 300.0})
    observation = settled(prometheus, settings)
    for name in ("seldom", "idle", "slow"):
        verdict = judge(case_of(name).pod, TERMS, observation, NOW, settings)
        assert verdict.kind is VerdictKind.IDLE, verdict
    assert judge(case_of("gaps").pod, TERMS, observation, NOW, settings).kind is VerdictKind.UNKNOWN


def test_more_points_than_prometheus_allows_are_never_asked_for(prometheus: str) -> None:
    """Where a window has too many points the verdict is Unknown, not an error and not a guess."""
    settings = JudgeSettings(points=1000)
    observation = settled(prometheus, settings)
    assert observation.complete
    assert judge(case_of("idle").pod, TERMS, observation, NOW, settings).reason is Reason.INTERVAL_UNKNOWN
    assert judge(case_of("busy").pod, TERMS, observation, NOW, settings).reason is Reason.ABOVE_THRESHOLD


def test_series_of_another_cluster_do_not_count(prometheus: str) -> None:
    """With a matcher, only series that carry the label are seen."""
    settings = JudgeSettings(matchers={"cluster": "elsewhere"})
    observation = settled(prometheus, settings)
    assert observation.complete
    assert judge(case_of("idle").pod, TERMS, observation, NOW, settings).reason is Reason.NO_SERIES
