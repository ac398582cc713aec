"""Measures whole cycles on a real Prometheus, beside a reaper that asks about one pod after the other."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import requests

from bench.fleet import DEVICES_PER_POD, NOW, TERMS, WINDOW, FleetError, fleet, key_of, namespaces
from bench.fleet_samples import METRICS_PER_DEVICE, samples
from bench.judging import planned, surveyed, with_verdicts
from bench.measures import Measure
from policy.verdicts import VerdictKind
from reaper.backtest import Counted
from reaper.criteria import JudgeSettings
from reaper.observation import observe_terms
from reaper.prometheus import HttpPrometheus, PrometheusOptions
from sandbox.archive import archive
from sandbox.deadline import monotonic

SERIES = 10_000
PODS = SERIES // (DEVICES_PER_POD * METRICS_PER_DEVICE)
FEW_PODS = 20
LIMIT_SECONDS = 10.0
ROUNDS = 3
ASKED_PODS = 100
"""So many pods are asked about one by one; the time for all is in proportion."""


def measure_cycle(say: Callable[[str], None]) -> list[Measure]:
    """Measures the cycle of a small and a large fleet, and the comparator on the large one."""
    with tempfile.TemporaryDirectory(prefix="gpu-tenure-bench-") as folder:
        few = Path(folder) / "few"
        few.mkdir()
        say(f"an hour of {FEW_PODS * DEVICES_PER_POD * METRICS_PER_DEVICE:,} series for a real Prometheus")
        with archive(samples(FEW_PODS), few) as url:
            few_queries = cycle(url, FEW_PODS)[1]
        many = Path(folder) / "many"
        many.mkdir()
        say(f"an hour of {SERIES:,} series at 15 s for a real Prometheus")
        with archive(samples(PODS), many) as url:
            say(f"{ROUNDS} cycles of {PODS:,} pods, and {ASKED_PODS} pods one by one")
            taken, queries, alone = [], 0, []
            for _ in range(ROUNDS):
                seconds, queries = cycle(url, PODS)
                taken.append(seconds)
                alone.append(one_by_one(url) / ASKED_PODS * PODS)
    whole = f"whole cycle, {PODS:,} pods, {SERIES:,} series of 1 h at 15 s (wall clock)"
    return [
        Measure(whole, median(taken), "s", LIMIT_SECONDS, "a query per pod and metric", median(alone)),
        Measure(f"queries for {PODS:,} pods", queries, "", few_queries + 1, "… per pod and metric", PODS * 2),
        Measure(f"queries for {FEW_PODS} pods", few_queries, ""),
    ]


def cycle(url: str, pods: int) -> tuple[float, int]:
    """Observes, surveys, judges and plans once; gives the seconds and how many queries were asked.

    Raises:
        FleetError: the verdicts are not those of the fleet.
    """
    held, known = fleet(pods), namespaces()
    began = monotonic()
    adapter = HttpPrometheus(PrometheusOptions(url), monotonic)
    counted = Counted(adapter)
    observation = asyncio.run(observe_terms(counted, [TERMS], NOW, JudgeSettings()))
    subjects = with_verdicts(surveyed(held, known), observation)
    planned(subjects)
    seconds = monotonic() - began
    adapter.close()
    kinds = {subject.verdict.kind for subject in subjects if subject.verdict is not None}
    if not observation.complete or not kinds >= {VerdictKind.ACTIVE, VerdictKind.IDLE, VerdictKind.UNKNOWN}:
        msg = f"the cycle saw {sorted(kinds)}: {observation.problems}"
        raise FleetError(msg)
    return seconds, counted.asked


def one_by_one(url: str) -> float:
    """Asks about some pods as a simple script does, two queries each; gives the seconds."""
    began = monotonic()
    with requests.Session() as session:
        session.trust_env = False
        for pod in range(ASKED_PODS):
            namespace, name = key_of(pod)
            matchers = f'exported_namespace="{namespace}",exported_pod="{name}"'
            for metric in ("GPU_UTIL", "FB_USED"):
                query = f"max_over_time(DCGM_FI_DEV_{metric}{{{matchers}}}[{WINDOW}s])"
                form = {"query": query, "time": f"{NOW.timestamp():.0f}"}
                session.post(f"{url}/api/v1/query", data=form, timeout=30).raise_for_status()
    return monotonic() - began
