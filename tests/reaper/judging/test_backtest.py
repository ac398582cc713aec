"""A policy played through hours of a real Prometheus: what is taken, and what was regretted in truth."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from policy.durations import format_time
from policy.selection import PolicySet
from reaper.backtest import Player
from reaper.limits import BrakeLimits, Limits
from reaper.lives import Census
from reaper.plays import Play, Result
from reaper.prometheus import HttpPrometheus, PrometheusOptions
from reaper.tallies import Advice, Tally, recommend, total
from runtime.clock import SystemClock
from tests.reaper.judging.past import HOUR, IDLE, NOW, Line, dcgm, prometheus_of

pytestmark = pytest.mark.real

POLICY: dict[str, Any] = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "default", "creationTimestamp": "2025-01-01T00:00:00Z"},
    "spec": {
        "idle": {"action": "evict", "after": "2h", "grace": "30m", "warmUp": "30m"},
        "classes": {"serving": {"idle": {"action": "warn", "after": "24h"}}},
    },
}
LIMITS = Limits(idle_verdicts=1, device_percent=100)
BRAKES = BrakeLimits(idle_percent=101, unknown_percent=101, fall_percent=101)
Value = Callable[[float], "float | None"]


def busy_but(*spans: tuple[float, float]) -> Value:
    """Busy, but idle between hours ago, the earlier first."""
    return lambda ago: 0.0 if any(end <= ago / HOUR < start for start, end in spans) else 97.0


def with_gaps(ago: float) -> float | None:
    """Idle, with no samples in every second quarter of an hour."""
    return None if ago % 1800 < 900 else 0.0


def pod(name: str, value: Value, since: float = 12, until: float = 0) -> list[Line]:
    """A pod with one device that was there between hours ago."""
    base = Line("", {}, IDLE, since=since * HOUR, until=until * HOUR, every=30.0)

    def ratio(ago: float) -> float | None:
        found = value(ago)
        return None if found is None else found / 100

    return dcgm(name, util=value, engine=ratio, base=base)


def owner(name: str, kind: str, by: str) -> Line:
    """What kube-state-metrics says of a pod's controller."""
    labels = {"namespace": "team", "pod": name, "owner_kind": kind, "owner_name": by}
    return Line(
        "kube_pod_owner",
        {**labels, "owner_is_controller": "true"},
        lambda _: 1.0,
        since=12 * HOUR,
        every=60.0,
    )


PAST = [
    *pod("idle", busy_but((10, 0))),
    *pod("busy", busy_but()),
    *pod("naps", busy_but((9, 6.2))),
    *pod("wakes", busy_but((5, 2.8))),
    *pod("gaps", with_gaps),
    *pod("short", IDLE, since=7.5, until=6.5),
    *pod("late", IDLE, since=5),
    *pod("web-5d4f-abcde", busy_but((20, 0)), since=34),
    owner("web-5d4f-abcde", "ReplicaSet", "web-5d4f"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with that past."""
    with prometheus_of(PAST, tmp_path_factory.mktemp("past")) as found:
        yield found


def play_of(policy: dict[str, Any] = POLICY, **more: Any) -> Play:
    """Gives a play of the last nine hours."""
    given: dict[str, Any] = {
        "since": NOW - timedelta(hours=9),
        "until": NOW,
        "step": timedelta(minutes=10),
        "policies": PolicySet.of([policy]),
        "census": Census(),
        "proposed": True,
        "limits": LIMITS,
        "brakes": BRAKES,
        **more,
    }
    return Play(**given)


def played(
    url: str,
    play: Play,
    windows: tuple[int, ...] = (2 * HOUR, 24 * HOUR),
    averaged: tuple[int, ...] | None = None,
) -> Result:
    """Plays against the Prometheus."""

    async def run() -> Result:
        adapter = HttpPrometheus(PrometheusOptions(url), SystemClock().monotonic)
        try:
            return await Player(adapter, play, windows, averaged).run()
        finally:
            adapter.close()

    return asyncio.run(run())


@pytest.fixture(scope="module")
def result(url: str) -> Result:
    """The play of the policy above."""
    return played(url, play_of())


def test_what_was_idle_is_taken_and_what_it_gave_back_is_counted(result: Result) -> None:
    """Idle, nap and late pods; never the busy one, nor one that nobody could tell."""
    tally = result.of("team")
    assert (tally.taken, tally.taken_devices) == (3, 3)
    # The idle one for some 7.3 hours, the late one for 2, the nap for a quarter of one.
    assert 8.5 < tally.reclaimed_seconds / HOUR < 10.5


def test_regret_and_early_activity_are_told_apart(result: Result) -> None:
    """One was used again after it was taken, one before."""
    tally = result.of("team")
    assert (tally.warned, tally.active_after_warning, tally.regretted) == (4, 1, 1)


def test_only_data_that_should_be_there_counts_as_unknown(result: Result) -> None:
    """A pod with gaps is Unknown; young pods are no surprise."""
    tally = result.of("team")
    assert set(tally.unknown) == {"LowCoverage", "Stale"}
    assert 7.5 < tally.unknown_seconds / HOUR < 9.5
    assert 0.10 < tally.unknown_share < 0.25


def test_queries_per_moment_are_constant(url: str, result: Result) -> None:
    """However long the play is, and however many pods there are."""
    short = played(url, play_of(since=NOW - timedelta(hours=1)))
    assert (result.moments, short.moments) == (55, 7)
    assert result.queries / result.moments == pytest.approx(short.queries / short.moments, rel=0.02)


def test_averages_are_asked_for_only_where_terms_look_at_them(url: str) -> None:
    """As in a cycle; what comes of it is the same."""
    short = play_of(since=NOW - timedelta(hours=1))
    every, none = played(url, short), played(url, short, averaged=())
    assert none.queries < every.queries
    assert none.of("team") == every.of("team")


def test_owners_give_the_class(result: Result) -> None:
    """A pod of a ReplicaSet serves, and is left alone for a day; others are taken for batch."""
    assert len(result.pods) == 8
    assert len(result.assumed) == 7
    assert not any("web" in name for name in result.assumed)


def test_a_milder_policy_takes_less(url: str) -> None:
    """Three hours instead of two: the nap and the early riser are left alone."""
    spec = {**POLICY["spec"], "idle": {"action": "evict", "after": "3h", "grace": "30m", "warmUp": "30m"}}
    found = played(url, play_of({**POLICY, "spec": spec}), (3 * HOUR, 24 * HOUR)).of("team")
    assert (found.taken, found.regretted, found.active_after_warning) == (2, 0, 0)


def test_a_policy_that_only_warns_takes_nothing(url: str) -> None:
    """It is the planner's own rule."""
    spec = {**POLICY["spec"], "idle": {"action": "warn", "after": "2h", "warmUp": "30m"}}
    found = played(url, play_of({**POLICY, "spec": spec})).of("team")
    assert (found.taken, found.warned) == (0, 4)


def test_limits_and_brakes_hold_as_in_truth(url: str) -> None:
    """Unknown devices above the brake's share hold everything."""
    brakes = structs.replace(BRAKES, unknown_percent=5, release_seconds=HOUR)
    found = played(url, play_of(brakes=brakes))
    assert found.braked > found.moments / 2
    assert found.of("team").taken == 2


def test_without_a_prometheus_it_gives_up_soon(url: str) -> None:
    """Nobody waits for a week of time-outs."""
    del url
    found = played("http://127.0.0.1:9", play_of())
    assert (found.moments, found.held) == (3, 3)
    assert "cannot reach" in found.problem


def test_the_command_tells_it_all(url: str, tmp_path: Path) -> None:
    """From files alone, as a table and as JSON."""
    policy, pods = tmp_path / "policy.yaml", tmp_path / "pods.json"
    policy.write_text(json.dumps(POLICY))
    pods.write_text(json.dumps({"kind": "List", "items": []}))
    given = ("--policy", str(policy), "--pods", str(pods), "--prometheus-url", url)
    times = ("--since", "9h", "--until", format_time(NOW))
    argv = [sys.executable, "-m", "cli", "backtest", *given, *times]
    done = subprocess.run([*argv, "-o", "json"], capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["total"]["taken"] == found["namespaces"]["team"]["taken"] == 3
    assert found["recommendation"]["advice"] == "observe"
    assert done.stderr == ""
    text = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "Only observe for now" in text
    assert "LowCoverage" in text


ADVICE = [
    pytest.param(Tally(), Advice.OBSERVE, "no GPU pod", id="nothing was seen"),
    pytest.param(
        Tally(held_seconds=100, unknown_seconds=10), Advice.OBSERVE, "mend the metrics", id="too many Unknown"
    ),
    pytest.param(
        Tally(held_seconds=100, unknown_seconds=9, warned=100, taken=100, regretted=1),
        Advice.WARN,
        "used again",
        id="regret of one in a hundred",
    ),
    pytest.param(
        Tally(held_seconds=100, warned=100, active_after_warning=20, taken=80),
        Advice.WARN,
        "became active",
        id="a fifth active after the warning",
    ),
    pytest.param(
        Tally(held_seconds=100, warned=3, taken=3),
        Advice.WARN,
        "3 pods would have been warned, and it takes 20",
        id="hardly any warning",
    ),
    pytest.param(
        Tally(held_seconds=100, warned=1), Advice.WARN, "1 pod would have been warned", id="one warning"
    ),
    pytest.param(
        Tally(held_seconds=100), Advice.WARN, "no pod would have been warned, so", id="no warning at all"
    ),
    pytest.param(
        Tally(held_seconds=100, unknown_seconds=9, warned=100, active_after_warning=19, taken=80),
        Advice.ENFORCE,
        "9.0% of the GPUs Unknown",
        id="all below",
    ),
]


@pytest.mark.parametrize(("tally", "advice", "said"), ADVICE)
def test_it_is_advised_when_to_enforce(tally: Tally, advice: Advice, said: str) -> None:
    """Unknown below 10 % of GPUs, regret below 1 %, active after a warning below 20 %."""
    found = recommend(total([tally]))
    assert found.advice is advice
    assert said in " ".join(found.sentences)
