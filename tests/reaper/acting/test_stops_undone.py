"""Stops that do not last: undone by something, resumed by a user, or holding."""

from __future__ import annotations

import pytest

from policy.verdicts import VerdictKind
from reaper.records import Phase
from reaper.stop_api import Standing
from tests.reaper.acting.stopped import STOP_LABELS, WEB, stage
from tests.reaper.acting.worlds import FakeWorld


async def again(world: FakeWorld) -> None:
    """Lets the owner's old pods go and a new one come."""
    world.pods.clear()
    world.add("web-9", VerdictKind.ACTIVE, labels=STOP_LABELS, created=world.clock.time)
    world.owners.chosen["web-9"] = WEB
    await world.run(1)


async def test_a_stop_that_something_undoes_is_told_once_and_not_repeated() -> None:
    """The field manager is named."""
    world = stage(WEB, "web-1", actions_per_owner=5)
    await world.run(33)
    world.stops.standing = Standing(exists=True, stopped=False, noted=True, by="keda-operator")
    await again(world)
    (record,) = world.records.kept.values()
    assert (record.phase, record.message) == (Phase.REVERTED, "keda-operator started it again")
    assert world.events.reasons("web") == ["GPUStopReverted"]
    await world.run(2)
    assert world.stops.looked == 1
    world.turns("web-9", VerdictKind.IDLE)
    await world.run(40)
    assert world.stops.stopped == ["web"]
    notes = [note for pod, reason, note in world.events.sent if (pod, reason) == ("web-9", "GPUIdleWarning")]
    assert ["something started it again" in note for note in notes] == [True]


async def test_a_stop_that_its_user_resumes_may_be_repeated() -> None:
    """`gpu-tenure resume` is no quarrel."""
    world = stage(WEB, "web-1", actions_per_owner=5)
    await world.run(33)
    world.stops.standing = Standing(exists=True, stopped=False, by="gpu-tenure-resume")
    await again(world)
    (record,) = world.records.kept.values()
    assert record.phase is Phase.RESUMED
    assert "GPUStopReverted" not in world.events.reasons("web")
    world.turns("web-9", VerdictKind.IDLE)
    await world.run(80)
    assert world.stops.stopped == ["web", "web"]


@pytest.mark.parametrize(
    "standing",
    [Standing(exists=False), Standing(exists=True, stopped=True)],
    ids=["it is gone", "it is stopped"],
)
async def test_a_stop_that_holds_is_looked_at_and_left(standing: Standing) -> None:
    """Pods may come for other reasons."""
    world = stage(WEB, "web-1")
    await world.run(33)
    world.stops.standing = standing
    await again(world)
    assert world.stops.looked == 1
    assert {record.phase for record in world.records.kept.values()} == {Phase.ACCEPTED}
