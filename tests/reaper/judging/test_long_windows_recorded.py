"""Windows of a day, read from what a real Prometheus makes of the shipped recording rules."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from time import monotonic

import msgspec.structs
import pytest
import requests

from policy.durations import parse_duration
from policy.terms import Statistic, Terms
from policy.verdicts import Reason
from reaper.criteria import JudgeSettings
from reaper.evidence import Verdict
from reaper.exporters import DCGM
from reaper.judge import judge
from reaper.long_windows import PIECE_SECONDS, groups
from reaper.observation import Observation, observe
from reaper.prometheus import HttpPrometheus, PrometheusOptions, Sample
from sandbox.archive import archive
from tests.reaper.judging.cases import TERMS, once
from tests.reaper.judging.past import HOUR, IDLE, NOW, Line, Value, dcgm, gpu

DAY = 24 * HOUR
PAST = 27 * HOUR
EVALUATED = 137
"""How long before NOW the rules were evaluated for the last time."""
LONG = msgspec.structs.replace(TERMS, after=parse_duration("24h"))
MEAN = msgspec.structs.replace(LONG, statistic=Statistic.AVERAGE)
SETTINGS = JudgeSettings(sources=(DCGM,), history=26 * HOUR, limit_seconds=300)
METRICS = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
UNRECORDED = "elsewhere"

PODS: dict[str, tuple[str, Value, Reason]] = {
    "calm": ("a day without activity is idle", IDLE, Reason.BELOW_THRESHOLD),
    "once": ("one busy sample is enough", once(20 * HOUR, 90, lasting=60), Reason.ABOVE_THRESHOLD),
    "just": ("a sample that is not recorded yet counts", once(0, 90, lasting=70), Reason.ABOVE_THRESHOLD),
    "hole": (
        "a hole of four hours proves nothing",
        lambda ago: None if 6 * HOUR < ago < 10 * HOUR else 0.0,
        Reason.LOW_COVERAGE,
    ),
    "torn": (
        "nor do pieces of which most samples are missing",
        lambda ago: None if ago > 2 * HOUR and ago % 300 > 100 else 0.0,
        Reason.LOW_COVERAGE,
    ),
    "odd": (
        "nor does an impossible sample",
        once(10 * HOUR, 4294967295.0, lasting=60),
        Reason.GARBAGE_SAMPLES,
    ),
    "before": (
        "what was before the window does not count",
        once(25 * HOUR, 90, lasting=60),
        Reason.BELOW_THRESHOLD,
    ),
    UNRECORDED: ("a device that is not recorded is unknown", IDLE, Reason.LOW_COVERAGE),
}


def lines() -> list[Line]:
    """The raw samples: a minute apart."""
    shape = Line("", {}, IDLE, since=PAST, every=60)
    return [
        replace(line, value=line.value)
        for pod, (_, value, _) in PODS.items()
        for line in dcgm(pod, util=value, energy=None, memory=None, base=shape)
    ]


def recorded(url: str) -> Iterator[str]:
    """What the rules would have recorded, evaluated by a Prometheus that has the raw samples."""
    end = NOW.timestamp() - EVALUATED
    for rule in groups((DCGM,))[0]["rules"]:
        if not any(f":{metric}:" in rule["record"] for metric in METRICS):
            continue
        start = end - PAST // PIECE_SECONDS * PIECE_SECONDS
        asked = {"query": rule["expr"], "start": str(start), "end": str(end), "step": str(PIECE_SECONDS)}
        answer = requests.post(f"{url}/api/v1/query_range", data=asked, timeout=60).json()
        for series in answer["data"]["result"]:
            labels = ",".join(f'{name}="{value}"' for name, value in series["metric"].items())
            if UNRECORDED not in labels:
                for time, value in series["values"]:
                    yield f"{rule['record']}{{{labels}}} {value} {time}\n"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of a Prometheus without recorded series, and of one with them."""
    raw = [sample for line in lines() for sample in line.samples()]
    with ExitStack() as stack:
        plain = stack.enter_context(archive(raw, tmp_path_factory.mktemp("raw")))
        both = [*raw, *recorded(plain)]
        yield plain, stack.enter_context(archive(both, tmp_path_factory.mktemp("recorded")))


class Noting:
    """The adapter, with its queries noted."""

    def __init__(self, url: str) -> None:
        self.asked: list[str] = []
        self.inner = HttpPrometheus(PrometheusOptions(url, timeout=60), monotonic)

    async def query(self, expression: str, at: datetime) -> list[Sample]:
        """Notes and asks."""
        self.asked.append(expression)
        return await self.inner.query(expression, at)


def observed(url: str, window: int = DAY) -> tuple[Observation, list[str]]:
    """One observation, and what was asked for it."""
    noting = Noting(url)
    found = asyncio.run(observe(noting, [window], NOW, SETTINGS))
    noting.inner.close()
    assert found.complete, found.problems
    return found, noting.asked


@pytest.fixture(scope="module")
def by_rules(stores: tuple[str, str]) -> tuple[Observation, list[str]]:
    """A day, with recorded series."""
    return observed(stores[1])


def verdict_of(pod: str, observation: Observation, terms: Terms = LONG) -> Verdict:
    """The verdict of a pod that has run for long."""
    return judge(gpu(pod, started=40 * HOUR), terms, observation, NOW, SETTINGS)


@pytest.mark.parametrize("pod", [pytest.param(pod, id=sentence) for pod, (sentence, *_) in PODS.items()])
def test_a_day_by_the_rules(pod: str, by_rules: tuple[Observation, list[str]]) -> None:
    """Each past leads to its reason, from five minutes at a time."""
    verdict = verdict_of(pod, by_rules[0])
    assert verdict.reason is PODS[pod][2], verdict


def test_no_sample_is_read_over_the_day(by_rules: tuple[Observation, list[str]]) -> None:
    """Only recorded series of activity are asked over the window, and there is nothing to remark."""
    observation, asked = by_rules
    raw = [text for text in asked if f"[{DAY}000ms" in text and "DCGM" in text and ":DCGM" not in text]
    assert raw == []
    assert observation.remarks == ()


def test_the_mean_of_a_day(by_rules: tuple[Observation, list[str]]) -> None:
    """One busy minute is little on average."""
    verdict = verdict_of("once", by_rules[0], MEAN)
    assert verdict.reason is Reason.BELOW_THRESHOLD
    utilization = next(one for one in verdict.evidence.signals if one.name == "utilization")
    assert utilization.average == pytest.approx(90 / 1440, rel=0.1)
    assert utilization.coverage == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("pod", "hours"), [("before", 25.0), ("calm", 26.0)])
def test_idle_since_by_the_rules(pod: str, hours: float, by_rules: tuple[Observation, list[str]]) -> None:
    """The stretch starts with the last busy sample, at most two pieces late, or as far as was looked."""
    since = verdict_of(pod, by_rules[0]).idle_since
    assert since is not None
    late = since - (NOW - timedelta(hours=hours))
    assert timedelta(0) <= late <= timedelta(seconds=2 * PIECE_SECONDS + 60)


def test_without_rules_the_samples_are_read(stores: tuple[str, str]) -> None:
    """The verdicts are the same but for what pieces hide, and the missing rules are named."""
    observation, _ = observed(stores[0])
    raw = {pod: verdict_of(pod, observation).reason for pod in PODS}
    other = {"odd": Reason.BELOW_THRESHOLD, UNRECORDED: Reason.BELOW_THRESHOLD}
    assert raw == {pod: reason for pod, (*_, reason) in PODS.items()} | other
    assert "24 h is asked raw for DCGM_FI_DEV_GPU_UTIL" in observation.remarks[0]
    assert "rules.longWindows" in observation.remarks[0]


def test_rules_that_do_not_reach_far_enough_are_not_read(stores: tuple[str, str]) -> None:
    """Of a week only a day was recorded."""
    observation, _ = observed(stores[1], 7 * DAY)
    assert observation.remarks
    long = msgspec.structs.replace(LONG, after=parse_duration("7d"))
    verdict = judge(gpu("calm", started=200 * HOUR), long, observation, NOW, SETTINGS)
    assert verdict.reason is Reason.LOW_COVERAGE
