"""A hint brings the next cycle forward, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime
from typing import Any

import pytest

from policy.verdicts import VerdictKind
from reaper.cycle import CycleResult
from reaper.hints import Hint
from reaper.loop import Loop
from reaper.receiver import NotNow
from reaper.service import Service
from reaper.settings import ReaperSettings
from tests.reaper.acting.made import minutes
from tests.reaper.acting.worlds import FakeClock, FakeWorld


class Sleeps:
    """A loop whose sleeps last until they are ended by hand."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.asked: asyncio.Queue[tuple[float, asyncio.Event]] = asyncio.Queue()
        self.cycles = 0
        self.loop = Loop(self.cycle, clock=self.clock, seconds=60, quiet_seconds=0, sleep=self.sleep)

    async def cycle(self, quiet_until: datetime | None) -> CycleResult:
        """Counts cycles."""
        assert quiet_until is not None
        self.cycles += 1
        return CycleResult.COMPLETE

    async def sleep(self, seconds: float) -> None:
        """Sleeps until it is ended."""
        over = asyncio.Event()
        await self.asked.put((seconds, over))
        await over.wait()


async def test_a_hint_brings_the_next_cycle_forward_but_not_at_once() -> None:
    """A sixth of the usual time passes, however often somebody asks."""
    sleeps = Sleeps()
    async with asyncio.timeout(10):
        running = asyncio.create_task(sleeps.loop.run())
        assert (await sleeps.asked.get())[0] == 60
        for _ in range(3):
            sleeps.loop.wake()
        seconds, over = await sleeps.asked.get()
        assert (seconds, sleeps.cycles) == (10, 1)
        over.set()
        assert (await sleeps.asked.get())[0] == 60
        assert sleeps.cycles == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_late_hint_is_followed_at_once() -> None:
    """Most of the time between two cycles is over already."""
    sleeps = Sleeps()
    async with asyncio.timeout(10):
        running = asyncio.create_task(sleeps.loop.run())
        await sleeps.asked.get()
        sleeps.clock.time += minutes(0.5)
        sleeps.loop.wake()
        seconds, over = await sleeps.asked.get()
        assert seconds == 0
        over.set()
        await sleeps.asked.get()
        assert sleeps.cycles == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_hints_bring_no_warning_forward() -> None:
    """Two Idle verdicts are still half a cycle apart at least."""
    world = FakeWorld()
    world.add("a")
    await world.run(5, after=minutes(0.1))
    assert "reclaim-at" not in world.annotations("a")
    await world.run(1, after=minutes(0.1))
    assert "reclaim-at" in world.annotations("a")


async def test_hints_shorten_no_grace() -> None:
    """Cycles that come sooner find a warning that is not due."""
    world = FakeWorld()
    world.add("a")
    await world.run(2)
    announced = world.annotations("a")["reclaim-at"]
    await world.run(10, after=minutes(0.2))
    assert world.annotations("a")["reclaim-at"] == announced
    assert world.actor.evicted == []


async def test_activity_seen_by_a_hint_counts() -> None:
    """A cycle is a cycle: it withdraws what it should."""
    world = FakeWorld()
    world.add("a")
    await world.run(2)
    world.turns("a", VerdictKind.ACTIVE)
    await world.run(1, after=minutes(0.2))
    assert "reclaim-at" not in world.annotations("a")


def service_of(pods: Collection[str] | None) -> Service:
    """Gives a process that knows these pods, or has not read any."""
    client: Any = None
    settings = ReaperSettings(prometheus_url="http://prometheus:9090")
    service = Service(client, settings, FakeClock(), "me", asyncio.Event())
    if pods is not None:
        world: Any = service.world
        world.unready = lambda: None
        world.pods.get = lambda _, name: name if name in pods else None
    return service


class FakeLoop:
    """Counts how often it is woken."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        """Counts."""
        self.woken += 1


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        pytest.param(None, "not read yet", id="before the first list"),
        pytest.param((), "another replica leads", id="while another replica leads"),
    ],
)
async def test_who_cannot_look_asks_to_send_it_again(pods: Collection[str] | None, why: str) -> None:
    """Alertmanager does so, and the Service may choose another replica."""
    with pytest.raises(NotNow, match=why):
        service_of(pods).look([Hint("team-a", "a")])


async def test_the_leader_looks_at_pods_that_it_knows() -> None:
    """A pod without GPUs brings nothing forward."""
    service = service_of({"a"})
    loop: Any = FakeLoop()
    service.health.leading(loop)
    a, b = Hint("team-a", "a"), Hint("team-a", "b")
    assert service.look([b]) == [b]
    assert loop.woken == 0
    assert service.look([a, b]) == [b]
    assert loop.woken == 1
