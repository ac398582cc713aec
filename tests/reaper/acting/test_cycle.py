"""Whole cycles on a cluster in memory: what is written, evicted, told and remembered."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from policy.verdicts import Reason, VerdictKind
from reaper import metrics
from reaper.act import Written
from reaper.cycle import CycleResult
from reaper.pause import Pause
from reaper.records import Phase
from runtime.kube import ApiUnreachable
from tests.reaper.acting.made import NOON, minutes
from tests.reaper.acting.worlds import FakeWorld, warned

ACTIVE, IDLE, UNKNOWN = VerdictKind.ACTIVE, VerdictKind.IDLE, VerdictKind.UNKNOWN


async def test_warned_then_evicted_once() -> None:
    """Two Idle verdicts, a warning, the grace, one eviction, a complete record and two Events."""
    world = FakeWorld()
    pod = world.add("a", devices=2)
    await world.run(1)
    assert world.annotations("a") == {}
    await world.run(1)
    assert world.annotations("a") == {
        "idle-since": "2025-03-01T10:00:00Z",
        "reclaim-at": "2025-03-01T12:32:00Z",
        "warned-uid": pod.uid,
    }
    await world.run(29)
    assert world.actor.evicted == []
    await world.run(5)
    assert world.actor.evicted == ["a"]
    (record,) = world.records.kept.values()
    assert (record.phase, record.devices, record.pod_uid) == (Phase.ACCEPTED, 2, pod.uid)
    assert world.events.sent[0] == (
        "a",
        "GPUIdleWarning",
        (
            "2 GPUs idle since 10:00Z (240 of 240 samples below 5 %). Will be evicted at 12:32Z. "
            "To keep it: kubectl annotate pod a -n team-a gpu-tenure.io/keep-until=4h. Ask in gpu-help."
        ),
    )
    assert world.events.reasons("a") == ["GPUIdleWarning", "GPUIdleEvicted"]


async def test_a_restart_forgets_nothing() -> None:
    """The new process goes on from what is written on the pod."""
    world = await warned()
    await world.run(20)
    world.restart()
    await world.run(15)
    assert world.actor.evicted == ["a"]
    assert world.events.reasons("a").count("GPUIdleWarning") == 1


@pytest.mark.parametrize("kind", [ACTIVE, UNKNOWN], ids=["activity", "Unknown"])
async def test_a_warning_is_withdrawn(kind: VerdictKind) -> None:
    """And the next one starts from the beginning."""
    world = await warned()
    world.turns("a", kind)
    await world.run(1)
    assert world.annotations("a") == {}
    assert world.events.reasons("a")[-1] == "GPUIdleWarningWithdrawn"
    world.turns("a", IDLE)
    await world.run(40)
    assert world.actor.evicted == ["a"]
    world_end = NOON + minutes(2 + 1 + 2 + 30)
    assert world.records.kept[f"pod-{world.pod('a').uid}"].decided_at >= world_end


async def test_an_incomplete_observation_changes_nothing_and_is_said_once(capsys: Any) -> None:
    """No verdict, no warning taken back, no action, however long it lasts."""
    world = await warned()
    world.incomplete = Reason.PARTIAL_ANSWER
    writes = world.actor.writes
    assert await world.run(60) is CycleResult.HELD
    assert world.actor.tried == []
    assert world.actor.writes == writes
    assert capsys.readouterr().out.count("cycle held") == 1
    world.incomplete = None
    await world.run(1)
    assert world.actor.evicted == ["a"]


TROUBLES = {
    "the caches are not synced": lambda world: setattr(world, "unready", "pods are not read yet"),
    "owners cannot be read": lambda world: setattr(world.owners, "broken", True),
    "the switch cannot be read": lambda world: setattr(
        world, "paused", Pause(paused=True, reason="unreadable")
    ),
    "another replica leads": lambda world: setattr(world, "leads", False),
    "records cannot be written": lambda world: setattr(world.records, "broken", ApiUnreachable("x")),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES.keys())
async def test_trouble_of_any_kind_stops_every_action(trouble: Any) -> None:
    """What is not known for sure is not acted on, and the action comes once it is."""
    world = await warned()
    trouble(world)
    await world.run(60)
    assert world.actor.evicted == []
    assert "reclaim-at" in world.annotations("a")


async def test_a_pause_stops_warnings_and_its_end_restarts_the_grace() -> None:
    """Nothing is written meanwhile; afterwards the full grace runs."""
    world = await warned()
    writes = world.actor.writes
    world.paused = Pause(paused=True, reason="maintenance")
    await world.run(60)
    assert world.actor.writes == writes
    world.paused = Pause(paused=False, resumed_at=world.clock.time)
    await world.run(29)
    assert world.actor.evicted == []
    await world.run(2)
    assert world.actor.evicted == ["a"]


async def test_full_annotations_hold_the_warning_in_memory() -> None:
    """An Event says so; the action comes; a restart begins the grace again."""
    world = FakeWorld()
    world.add("a")
    world.actor.written = Written.FULL
    await world.run(20)
    assert world.events.reasons("a") == ["GPUWarningNotWritten"]
    world.restart()
    await world.run(20)
    assert world.actor.evicted == []
    await world.run(15)
    assert world.actor.evicted == ["a"]


async def test_a_dry_run_writes_nothing_at_all() -> None:
    """It plans the whole way and asks the API server only what it would say."""
    world = FakeWorld(dry_run=True)
    world.add("a")
    await world.run(60)
    assert world.actor.writes == 0
    assert world.actor.evicted == []
    assert world.actor.tried == ["a"] * 1
    assert world.annotations("a") == {}


async def test_the_observe_profile_writes_nothing() -> None:
    """Verdicts are logged and counted, pods stay as they are."""
    world = FakeWorld(profile="observe")
    world.add("a")
    await world.run(60)
    assert world.actor.writes == 0
    assert world.events.sent == []


async def test_the_warn_profile_only_warns() -> None:
    """One Event, no time of action, no eviction."""
    world = FakeWorld(profile="warn")
    world.add("a")
    await world.run(60)
    assert world.actor.tried == []
    assert world.events.reasons("a") == ["GPUIdleWarning"]
    assert sorted(world.annotations("a")) == ["idle-since", "warned-uid"]


async def test_a_mass_of_pods_that_turn_idle_is_held() -> None:
    """Ten devices at once are more likely a broken exporter than ten finished users."""
    world = FakeWorld(brake_idle_percent=20)
    for number in range(10):
        world.add(f"p{number}", ACTIVE)
    await world.run(2)
    for number in range(10):
        world.turns(f"p{number}", IDLE)
    await world.run(10)
    assert world.actor.writes == 0
    await world.run(25)
    assert world.actor.writes > 0


async def test_a_person_releases_the_brake() -> None:
    """What was held goes on with the next cycle."""
    world = FakeWorld(brake_idle_percent=20)
    for number in range(10):
        world.add(f"p{number}", ACTIVE)
    await world.run(2)
    for number in range(10):
        world.turns(f"p{number}", IDLE)
    await world.run(3)
    assert world.actor.writes == 0
    assert metrics.BRAKE._value.get() == 1
    world.paused = Pause(paused=False, brake_released_at=world.clock.time)
    await world.run(1)
    assert world.actor.writes == 10
    assert metrics.BRAKE._value.get() == 0


async def test_what_was_idle_at_the_start_is_no_surprise() -> None:
    """The first verdicts of a process are where it starts from."""
    world = FakeWorld(brake_idle_percent=20)
    for number in range(10):
        world.add(f"p{number}")
    await world.run(2)
    assert all("reclaim-at" in world.annotations(f"p{number}") for number in range(10))


async def test_pods_that_have_just_begun_do_not_engage_the_brake() -> None:
    """A night's batch of new pods is Unknown for a good reason."""
    world = FakeWorld(brake_unknown_percent=30)
    world.add("a")
    for number in range(9):
        pod = world.add(f"new-{number}", UNKNOWN)
        world.verdicts[pod.uid] = structs.replace(world.verdicts[pod.uid], reason=Reason.TOO_YOUNG)
    await world.run(2)
    assert "reclaim-at" in world.annotations("a")


async def test_verdicts_are_logged_when_they_change(capsys: Any) -> None:
    """One line per change, not one per cycle."""
    world = FakeWorld()
    world.add("a", ACTIVE)
    await world.run(10)
    assert capsys.readouterr().out.count("verdict changed") == 1
    world.turns("a", IDLE)
    await world.run(1)
    out = capsys.readouterr().out
    assert out.count("verdict changed") == 1
    for field in ("team-a", "uid-team-a-a", "BelowThreshold", "240 of 240 samples"):
        assert field in out
