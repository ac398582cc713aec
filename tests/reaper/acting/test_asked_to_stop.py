"""A reaper that is asked to stop: what has begun is done to its end, and nothing else is begun."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reaper import service as module
from reaper.act import Result
from reaper.cycle import CycleResult
from reaper.owners import Root
from reaper.records import Phase
from reaper.service import Service
from reaper.settings import ReaperSettings
from tests.reaper.acting.kube import FakeKube
from tests.reaper.acting.worlds import FakeClock, FakeWorld


def idle(*names: str, run: bool = False) -> FakeWorld:
    """Gives a world of idle pods, alone or of one run."""
    world = FakeWorld()
    for name in names:
        if run:
            world.owners.chosen[name] = Root("batch/v1", "Job", "team-a", "train", "uid-train")
        world.add(name)
    return world


async def test_a_look_that_takes_long_is_given_up() -> None:
    """Prometheus may take most of a minute over it, for each group; the next leader looks for itself."""
    world, looking = idle("a", "b"), asyncio.Event()
    fast = world._observe

    async def hangs(*given: Any) -> Any:
        if world.observed == world.observed_before + 1:
            looking.set()
            await asyncio.Event().wait()
        return await fast(*given)

    world._observe = hangs  # type: ignore[method-assign]
    world.restart()
    await world.run(31)
    cycle = asyncio.create_task(world.run(1))
    async with asyncio.timeout(5):
        await looking.wait()
        world.stop.set()
        assert await cycle is CycleResult.COMPLETE
    assert world.actor.tried == []
    assert world.records.kept == {}


async def test_no_group_is_begun_after_the_one_that_is_acted_on() -> None:
    """What was asked of the API server is recorded as it was answered."""
    world = idle("a", "b")
    ask = world.actor.evict

    async def asked_to_stop(pod: Any, *, dry_run: bool = False) -> Result:
        world.stop.set()
        return await ask(pod, dry_run=dry_run)

    world.actor.evict = asked_to_stop  # type: ignore[method-assign]
    await world.run(33)
    assert world.actor.evicted == ["a"]
    assert [record.phase for record in world.records.kept.values()] == [Phase.ACCEPTED]


@pytest.mark.parametrize(
    ("trying", "gone"),
    [
        pytest.param(False, ["rank-0", "rank-1"], id="one that has begun to go goes whole"),
        pytest.param(True, [], id="one that was only asked about stays"),
    ],
)
async def test_a_run_is_not_left_half_done(trying: bool, gone: list[str]) -> None:
    """Whenever the stop comes."""
    world = idle("rank-0", "rank-1", run=True)
    ask = world.actor.evict

    async def asked_to_stop(pod: Any, *, dry_run: bool = False) -> Result:
        if dry_run is trying:
            world.stop.set()
        return await ask(pod, dry_run=dry_run)

    world.actor.evict = asked_to_stop  # type: ignore[method-assign]
    await world.run(33)
    assert world.actor.evicted == gone
    assert len(world.records.kept) == len(gone)


async def test_a_leader_knows_of_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event that ends the process is the one that its cycles look at."""
    given: list[Any] = []

    class Noted(Exception):  # noqa: N818 - it only ends the test
        """The cycle was made."""

    def cycle(ports: Any, *_: Any, **__: Any) -> Any:
        given.append(ports.stop)
        raise Noted

    monkeypatch.setattr(module, "Cycle", cycle)
    stop = asyncio.Event()
    settings = ReaperSettings(prometheus_url="http://prometheus:9090")
    service = Service(FakeKube({}), settings, FakeClock(), "reaper-7", stop)
    with pytest.raises(Noted):
        await service.campaign()
    service.close()
    assert given == [stop]
