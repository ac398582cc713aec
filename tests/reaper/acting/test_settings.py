"""Settings, the loop around cycles, and what is told of health."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from policy import defaults
from policy.errors import InvalidError
from reaper.criteria import JudgeSettings
from reaper.cycle import CycleResult
from reaper.limits import BrakeLimits, Limits
from reaper.loop import Loop
from reaper.service import Health
from reaper.settings import ENV_PREFIX, ReaperSettings
from runtime.settings import describe, load
from tests.reaper.acting.made import NOON, minutes
from tests.reaper.acting.worlds import FakeClock

URL = {"prometheus_url": "http://prometheus:9090"}


def test_the_defaults_are_the_documented_ones() -> None:
    """And a reaper that nobody configured only observes, without writing."""
    settings = load(ReaperSettings, URL, env_prefix=ENV_PREFIX, environ={})
    assert settings.dry_run
    assert settings.profile.value == "observe"
    assert settings.limits() == Limits()
    assert settings.brake_limits() == BrakeLimits()
    assert (settings.cycle, settings.quiet) == (defaults.CYCLE_SECONDS, defaults.QUIET_SECONDS)
    assert settings.judging() == JudgeSettings()
    assert settings.judging().coverage == defaults.COVERAGE
    assert settings.judging().fresh_seconds == defaults.FRESH_SECONDS


def test_everything_that_is_wrong_is_told_at_once() -> None:
    """With the flag of each."""
    flags = {
        "cycle": "soon",
        "quiet": "-1s",
        "device_percent": "0",
        "prometheus_url": "prometheus",
        "profile": "x",
    }
    with pytest.raises(InvalidError) as caught:
        load(ReaperSettings, flags, env_prefix=ENV_PREFIX, environ={f"{ENV_PREFIX}OPS_PORT": "70000"})
    paths = {error.path for error in caught.value.errors}
    assert paths == {"--cycle", "--quiet", "--device-percent", "--prometheus-url", "--profile", "--ops-port"}


def test_every_number_of_judging_can_be_chosen() -> None:
    """An AMD card that rests below 90 W needs another limit than one that rests at 140 W."""
    chosen = {**URL, "rest_watts": "90", "parked_bytes": "1000", "windows": "3", "points": "1000000"}
    judging = load(ReaperSettings, chosen, env_prefix=ENV_PREFIX, environ={}).judging()
    assert (judging.rest_watts, judging.parked_bytes) == (90, 1000)
    assert (judging.windows, judging.points) == (3, 1_000_000)


def test_maps_are_written_as_json() -> None:
    """In a flag and in a variable alike."""
    flags = {**URL, "prometheus_headers": '{"X-Scope-OrgID": "gpu"}'}
    environ = {f"{ENV_PREFIX}SCRAPE_INTERVALS": '{"dcgm": 15}'}
    settings = load(ReaperSettings, flags, env_prefix=ENV_PREFIX, environ=environ)
    assert settings.prometheus().headers == {"X-Scope-OrgID": "gpu"}
    assert settings.judging().intervals == {"dcgm": 15}
    with pytest.raises(InvalidError):
        load(ReaperSettings, {**URL, "matchers": "cluster=a"}, env_prefix=ENV_PREFIX, environ={})


def test_every_setting_is_described() -> None:
    """What it is for, and but for a switch how a value looks."""
    for row in describe(ReaperSettings, ENV_PREFIX):
        assert row.description
        assert row.example or row.default in {"on", "off"}, row.flag


class Ended(Exception):  # noqa: N818 - a signal of the test
    """Ends a loop."""


async def test_the_loop_keeps_its_time_and_survives_a_failure() -> None:
    """A cycle that raises is counted, and the next one runs; quiet time is counted from the start."""
    clock = FakeClock()
    seen: list[datetime | None] = []
    slept: list[float] = []

    async def cycle(quiet_until: datetime | None) -> CycleResult:
        seen.append(quiet_until)
        clock.time += minutes(0.25)
        if len(seen) == 1:
            raise RuntimeError("a bug")
        return CycleResult.COMPLETE

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise Ended

    loop = Loop(cycle, clock=clock, seconds=60, quiet_seconds=600, sleep=sleep)
    with pytest.raises(Ended):
        await loop.run()
    assert seen == [NOON + minutes(10)] * 3
    assert slept == [45, 45, 45]


async def test_a_leader_whose_cycles_stop_is_unhealthy() -> None:
    """A follower is not."""
    clock = FakeClock()

    async def cycle(quiet_until: Any) -> CycleResult:
        assert quiet_until is None
        return CycleResult.HELD

    health = Health(clock, 600)
    clock.time += minutes(60)
    assert health.stalled() is None
    loop = Loop(cycle, clock=clock, seconds=60, quiet_seconds=0)
    health.leading(loop)
    clock.time += minutes(9)
    assert health.stalled() is None
    clock.time += minutes(2)
    assert health.stalled() == "no cycle has ended for 660 s"
    await loop.once(None)
    assert health.stalled() is None
    clock.time += minutes(11)
    assert health.stalled() is not None
    health.following()
    assert health.stalled() is None
