"""Single runs, as a CronJob starts them: each is a new process."""

from __future__ import annotations

from policy.verdicts import VerdictKind
from tests.reaper.acting.made import NOON, minutes
from tests.reaper.acting.worlds import FakeWorld


async def test_once_needs_three_runs() -> None:
    """Seen, warned, and after the grace evicted; each run is a new process."""
    world = FakeWorld(once=True)
    world.add("a")
    await world.run(1)
    assert sorted(world.annotations("a")) == ["idle-since"]
    assert world.events.sent == []
    await world.run(1)
    assert "reclaim-at" in world.annotations("a")
    await world.run(1, after=minutes(31))
    assert world.actor.evicted == ["a"]


async def test_once_sees_a_pod_whose_samples_are_older_than_itself() -> None:
    """A sighting never claims more than the pod's own life, so that a copied one is told apart."""
    world = FakeWorld(once=True)
    world.add("a", created=NOON)
    await world.run(1)
    assert world.annotations("a") == {"idle-since": "2025-03-01T12:00:00Z"}
    await world.run(1)
    assert world.annotations("a")["idle-since"] == "2025-03-01T10:00:00Z"
    assert "reclaim-at" in world.annotations("a")


async def test_a_stale_sighting_does_not_count() -> None:
    """A pod that was busy in between is seen for the first time again."""
    world = FakeWorld(once=True)
    world.add("a")
    await world.run(1)
    world.clock.time += minutes(600)
    world.turns("a", VerdictKind.IDLE)
    await world.run(1)
    assert sorted(world.annotations("a")) == ["idle-since"]
    assert world.annotations("a")["idle-since"] == "2025-03-01T20:01:00Z"
