"""Evicting runs: whole or not at all, by budgets, answers, and a leader that is gone halfway."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reaper.act import Outcome, Result
from reaper.owners import Root
from reaper.records import Phase
from runtime.kube import ApiUnreachable
from tests.reaper.acting.worlds import FakeWorld, warned


async def test_a_run_goes_whole_or_not_at_all() -> None:
    """A budget that keeps one of three keeps all, and only that pod's record says so."""
    run = Root("batch/v1", "Job", "team-a", "train", "uid-train")
    world = FakeWorld()
    for number in range(3):
        world.owners.chosen[f"rank-{number}"] = run
        world.add(f"rank-{number}")
    world.actor.answers["rank-1"] = Result(Outcome.BUDGET, "Cannot evict pod")
    await world.run(34)
    assert world.actor.evicted == []
    assert [record.pod_name for record in world.records.kept.values()] == ["rank-1"]
    del world.actor.answers["rank-1"]
    await world.run(6)
    assert world.actor.evicted == ["rank-0", "rank-1", "rank-2"]


def run_of(count: int) -> FakeWorld:
    """Gives a world with an idle run of so many ranks."""
    world = FakeWorld()
    for number in range(count):
        world.owners.chosen[f"rank-{number}"] = Root("batch/v1", "Job", "team-a", "train", "uid-train")
        world.add(f"rank-{number}")
    return world


async def test_a_run_stays_whole_if_a_budget_does_not_let_all_of_it_go() -> None:
    """Each pod alone may go: an eviction that is only tried uses up nothing."""
    world = run_of(4)
    world.actor.together = "rank-2", Result(Outcome.BUDGET, "The disruption budget train lets 1 go now")
    await world.run(34)
    assert world.actor.tried[:4] == ["rank-0", "rank-1", "rank-2", "rank-3"]
    assert world.actor.asked_together == [["rank-0", "rank-1", "rank-2", "rank-3"]]
    assert world.actor.evicted == []
    (record,) = world.records.kept.values()
    assert (record.pod_name, record.phase) == ("rank-2", Phase.BLOCKED)
    assert world.events.reasons("rank-2").count("GPUEvictionBlocked") == 1
    world.actor.together = None
    await world.run(6)
    assert world.actor.evicted == ["rank-0", "rank-1", "rank-2", "rank-3"]


async def test_budgets_are_not_listed_for_one_pod() -> None:
    """Its eviction asks them itself."""
    world = await warned()
    await world.run(32)
    assert world.actor.evicted == ["a"]
    assert world.actor.asked_together == []


FIRST_STAYS = [
    pytest.param(Outcome.BUDGET, Phase.BLOCKED, Phase.BLOCKED, id="a budget was used up meanwhile"),
    pytest.param(Outcome.REFUSED, Phase.REFUSED, Phase.REFUSED, id="somebody refuses"),
    pytest.param(Outcome.GONE, Phase.GONE, Phase.REFUSED, id="it is gone"),
    pytest.param(Outcome.UNKNOWN, Phase.PLANNED, Phase.PLANNED, id="no answer"),
]


@pytest.mark.parametrize(("outcome", "first", "rest"), FIRST_STAYS)
async def test_a_run_whose_first_pod_does_not_go_after_all_is_kept(
    outcome: Outcome, first: Phase, rest: Phase
) -> None:
    """Nothing has gone yet, so the rest stays too, and is not remembered as perhaps taken."""
    world = run_of(3)
    ask, late_tries = world.actor.evict, []

    async def late(pod: Any, *, dry_run: bool = False) -> Result:
        if dry_run:
            return await ask(pod, dry_run=True)
        late_tries.append(pod.name)
        return Result(outcome, "Cannot evict pod")

    world.actor.evict = late  # type: ignore[method-assign]
    await world.run(32)
    assert late_tries == ["rank-0"]
    assert world.actor.evicted == []
    phases = {record.pod_name: record.phase for record in world.records.kept.values()}
    assert phases == {"rank-0": first, "rank-1": rest, "rank-2": rest}


async def test_a_run_that_has_begun_to_go_is_not_kept_in_part() -> None:
    """A budget that is used up by others in the middle keeps one pod; the others follow the first."""
    world = run_of(3)
    ask = world.actor.evict

    async def late(pod: Any, *, dry_run: bool = False) -> Result:
        if pod.name == "rank-1" and not dry_run:
            return Result(Outcome.BUDGET, "Cannot evict pod")
        return await ask(pod, dry_run=dry_run)

    world.actor.evict = late  # type: ignore[method-assign]
    await world.run(33)
    assert world.actor.evicted == ["rank-0", "rank-2"]
    world.actor.evict = ask  # type: ignore[method-assign]
    await world.run(6)
    assert world.actor.evicted == ["rank-0", "rank-2", "rank-1"]


SAYS_NOTHING = [
    pytest.param(Result(Outcome.UNKNOWN, "no answer"), id="no answer"),
    pytest.param(Result(Outcome.BUSY, "slow down", 20), id="asked to slow down"),
    pytest.param(Result(Outcome.BUDGET, "the budget is out of date", 10), id="an old budget"),
    pytest.param(Result(Outcome.ENDING, "namespace team-a is being terminated"), id="the namespace ends"),
]


@pytest.mark.parametrize("together", [False, True], ids=["a pod", "all together"])
@pytest.mark.parametrize("answer", SAYS_NOTHING)
async def test_a_run_that_was_only_asked_about_leaves_no_record(answer: Result, together: bool) -> None:
    """Its user then deletes it: nothing of ours took it, and no history says so."""
    world = run_of(2)
    if together:
        world.actor.together = "rank-1", answer
    else:
        world.actor.answers["rank-1"] = answer
    await world.run(33)
    assert "rank-1" in world.actor.tried
    assert world.records.kept == {}
    asked = len(world.actor.tried)
    await world.run(1)
    assert len(world.actor.tried) > asked, "it is asked again soon"
    for name in ("rank-0", "rank-1"):
        world.change(world.pod(name).uid, deleting=True)
    await world.run(2)
    assert world.records.kept == {}
    assert world.actor.evicted == []


class KilledError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("settled", [True, False], ids=["the first is recorded", "its answer is lost"])
async def test_a_run_that_a_leader_left_half_done_is_completed_by_the_next(settled: bool) -> None:
    """Killed after the first pod: the rest belongs to the same action, not to an owner that recreates."""
    world = run_of(4)
    ask, complete = world.actor.evict, world.records.complete

    async def dies_at_the_second(pod: Any, *, dry_run: bool = False) -> Result:
        if pod.name == "rank-1" and not dry_run:
            raise KilledError
        return await ask(pod, dry_run=dry_run)

    async def dies(*_: Any) -> Any:
        raise KilledError

    world.actor.evict = dies_at_the_second  # type: ignore[method-assign]
    if not settled:
        world.records.complete = dies  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        await world.run(33)
    assert world.actor.evicted == ["rank-0"]
    assert len(world.records.kept) == 4
    world.actor.evict = ask  # type: ignore[method-assign]
    world.records.complete = complete  # type: ignore[method-assign]
    del world.pods[world.pod("rank-0").uid]
    world.restart()
    await world.run(5)
    assert world.actor.evicted == ["rank-0", "rank-1", "rank-2", "rank-3"]
    assert {record.phase for record in world.records.kept.values()} == {Phase.ACCEPTED}
    assert len({record.decided_at for record in world.records.kept.values()}) == 1


async def test_nothing_of_a_run_goes_before_all_of_it_is_recorded() -> None:
    """A record that cannot be written keeps all, and the next cycle goes on with those that could."""
    world = run_of(3)
    begin = world.records.begin

    async def fails_at_the_last(record: Any, spec: Any) -> Any:
        if record.pod_name == "rank-2":
            raise ApiUnreachable("reset")
        return await begin(record, spec)

    world.records.begin = fails_at_the_last  # type: ignore[method-assign]
    await world.run(33)
    assert sorted(record.pod_name for record in world.records.kept.values()) == ["rank-0", "rank-1"]
    assert world.actor.evicted == []
    world.records.begin = begin  # type: ignore[method-assign]
    await world.run(1)
    assert world.actor.evicted == ["rank-0", "rank-1", "rank-2"]
    assert len({record.decided_at for record in world.records.kept.values()}) == 1


async def test_a_run_that_somebody_restarts_is_spared() -> None:
    """A pod that is gone by now may have a successor, which nobody has judged."""
    run = Root("batch/v1", "Job", "team-a", "train", "uid-train")
    world = FakeWorld()
    for number in range(3):
        world.owners.chosen[f"rank-{number}"] = run
        world.add(f"rank-{number}")
    world.actor.answers["rank-1"] = Result(Outcome.GONE, "not found")
    await world.run(34)
    assert "rank-1" in world.actor.tried
    assert world.actor.evicted == []
    assert world.records.kept == {}


async def test_a_run_is_spared_if_asking_about_it_took_too_long() -> None:
    """An API server that answers slowly leaves time for the run to be used again."""
    run = Root("batch/v1", "Job", "team-a", "train", "uid-train")
    world = FakeWorld()
    for number in range(3):
        world.owners.chosen[f"rank-{number}"] = run
        world.add(f"rank-{number}")
    ask = world.actor.evict

    async def slowly(pod: Any, *, dry_run: bool = False) -> Result:
        world.clock.time += timedelta(seconds=15 if dry_run else 0)
        return await ask(pod, dry_run=dry_run)

    world.actor.evict = slowly  # type: ignore[method-assign]
    await world.run(34)
    assert "rank-2" in world.actor.tried
    assert world.actor.evicted == []
    world.actor.evict = ask  # type: ignore[method-assign]
    await world.run(1)
    assert world.actor.evicted == ["rank-0", "rank-1", "rank-2"]
