"""Stopping owners: only whole, only once, recorded before and after."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from policy.terms import Action
from policy.verdicts import Reason, VerdictKind
from reaper.act import Outcome, Result
from reaper.alerts import idle_warning
from reaper.outlook import Ceiling
from reaper.owners import Root
from reaper.records import Phase
from tests.reaper.acting.made import LABELS, MINUTE, NOON, due_mark, pod_of, subject_of
from tests.reaper.acting.stopped import AGENT, STOP_LABELS, TRAIN, WEB, stage


async def test_an_owner_is_stopped_once_and_not_its_pods() -> None:
    """Every pod has a record that says how the owner was before."""
    world = stage(WEB, "web-1", "web-2")
    await world.run(33)
    assert world.stops.stopped == ["web"]
    assert world.actor.evicted == []
    assert {record.phase for record in world.records.kept.values()} == {Phase.ACCEPTED}
    stops = {record.pod_name: record.stop for record in world.records.kept.values()}
    assert {name: stop.former if stop else "" for name, stop in stops.items()} == {"web-1": "3", "web-2": "3"}
    assert {spec["action"] for spec in world.records.specs.values()} == {"stop"}
    assert "GPUIdleStopped" in world.events.reasons("web-1")


async def test_a_warning_says_that_the_owner_is_stopped_and_how_to_resume_it() -> None:
    """Before anything happens."""
    world = stage(WEB, "web-1")
    await world.run(3)
    (note,) = [note for _, reason, note in world.events.sent if reason == "GPUIdleWarning"]
    assert "Will be stopped at 12:32Z" in note
    assert "gpu-tenure resume deployment/web -n team-a" in note


async def test_every_pod_is_asked_about_before_a_stop() -> None:
    """A budget that keeps one pod keeps the owner running, although a stop would not ask it."""
    world = stage(WEB, "web-1", "web-2")
    world.actor.answers["web-2"] = Result(Outcome.BUDGET, "Cannot evict pod")
    await world.run(34)
    assert world.actor.tried[:2] == ["web-1", "web-2"]
    assert world.stops.tried == []
    (record,) = world.records.kept.values()
    assert (record.pod_name, record.phase) == ("web-2", Phase.BLOCKED)
    del world.actor.answers["web-2"]
    await world.run(6)
    assert world.stops.stopped == ["web"]
    assert {record.stop is not None for record in world.records.kept.values()} == {True}


async def test_a_budget_that_lets_only_some_pods_go_keeps_the_owner() -> None:
    """One of two may go, whichever is asked about; a stop takes both."""
    world = stage(WEB, "web-1", "web-2")
    world.actor.together = "web-1", Result(Outcome.BUDGET, "The disruption budget web lets 1 go now")
    await world.run(34)
    assert world.actor.asked_together == [["web-1", "web-2"]]
    assert world.stops.tried == []
    (record,) = world.records.kept.values()
    assert (record.pod_name, record.phase, record.stop) == ("web-1", Phase.BLOCKED, None)
    assert "GPUEvictionBlocked" in world.events.reasons("web-1")
    world.actor.together = None
    await world.run(6)
    assert world.stops.stopped == ["web"]


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.UNKNOWN])
async def test_owners_of_one_run_are_stopped_all_or_none(outcome: Outcome) -> None:
    """The second is not tried while the first runs on."""
    world = stage(None)
    for name in ("first", "second"):
        world.owners.chosen[name] = Root("batch/v1", "Job", "team-a", name, f"uid-{name}")
        world.add(name, labels={**STOP_LABELS, "scheduling.x-k8s.io/pod-group": "gang"})
    world.stops.answer = Result(outcome, "somebody refuses")
    await world.run(33)
    assert set(world.stops.tried) == {"first"}
    expected = Phase.REFUSED if outcome is Outcome.REFUSED else Phase.PLANNED
    assert {record.phase for record in world.records.kept.values()} == {expected}
    world.stops.answer = Result(Outcome.ACCEPTED)
    await world.run(65)
    assert world.stops.stopped == ["first", "second"]


async def test_no_owner_is_stopped_on_metrics_that_took_too_long() -> None:
    """What Prometheus shows is as old as the question."""
    world = stage(WEB, "web-1")
    await world.run(31)
    world.before_look = lambda: setattr(world.clock, "time", world.clock.time + timedelta(seconds=61))
    await world.run(2)
    assert world.stops.tried == []
    assert world.records.kept == {}
    world.before_look = lambda: None
    await world.run(1)
    assert world.stops.stopped == ["web"]


@pytest.mark.parametrize("kind", [VerdictKind.ACTIVE, VerdictKind.UNKNOWN])
async def test_one_pod_that_is_not_idle_keeps_its_owner(kind: VerdictKind) -> None:
    """Also under a Deployment, whose pods otherwise stand alone."""
    world = stage(WEB, "web-1", "web-2")
    world.add("web-3", kind, labels=STOP_LABELS)
    world.owners.chosen["web-3"] = WEB
    await world.run(40)
    assert world.stops.tried == []
    assert world.actor.tried == []
    assert "reclaim-at" not in world.annotations("web-1")


async def test_a_pod_that_may_only_be_evicted_keeps_its_deployment_from_being_stopped() -> None:
    """Then each pod stands alone, as under a policy that evicts."""
    world = stage(WEB, "web-1")
    world.add("web-2", labels=LABELS)
    world.owners.chosen["web-2"] = WEB
    await world.run(34)
    assert world.stops.tried == []
    assert world.actor.evicted == ["web-1"]


async def test_a_pod_without_owner_is_evicted() -> None:
    """Nobody makes it again."""
    world = stage(None, "alone")
    await world.run(33)
    assert world.actor.evicted == ["alone"]
    assert world.stops.tried == []


@pytest.mark.parametrize(
    ("root", "settings", "reason"),
    [
        pytest.param(WEB, {"stop": False}, "NotStoppable", id="stopping is switched off"),
        pytest.param(
            Root("example.com/v1", "Thing", "team-a", "x", "uid-x"), {}, "NotStoppable", id="unknown kind"
        ),
        pytest.param(AGENT, {}, "ObserveOnly", id="a DaemonSet"),
    ],
)
async def test_what_cannot_be_stopped_is_left_running(root: Root, settings: Any, reason: str) -> None:
    """With a reason, and without an action announced."""
    world = stage(root, "a", **settings)
    await world.run(40)
    assert world.stops.tried == []
    assert world.actor.tried == []
    assert "reclaim-at" not in world.annotations("a")
    told = [note for _, _, note in world.events.sent]
    assert (reason == "NotStoppable") == any("No way" in note or "no way" in note for note in told)


async def test_an_owner_that_cannot_be_stopped_after_all_is_tried_again_after_an_hour() -> None:
    """Its record says why."""
    world = stage(WEB, "web-1")
    world.stops.problem = "Deployment web makes no GPU pods"
    await world.run(40)
    (record,) = world.records.kept.values()
    assert (record.phase, record.message) == (Phase.REFUSED, "Deployment web makes no GPU pods")
    assert world.actor.evicted == []
    assert world.events.reasons("web-1").count("GPUEvictionRefused") == 1


async def test_a_lost_answer_is_asked_again_and_what_was_before_is_kept() -> None:
    """The owner is found stopped by then: its present state is not what it was before."""
    world = stage(WEB, "web-1")
    world.stops.answer = Result(Outcome.UNKNOWN, "no answer")
    await world.run(32)
    assert len(world.stops.tried) == 1
    world.stops.already = True
    await world.run(2)
    (record,) = world.records.kept.values()
    assert record.phase is Phase.ACCEPTED
    assert record.stop is not None
    assert record.stop.former == "3"
    assert len(world.stops.tried) == 1


async def test_a_busy_api_server_stops_the_cycle() -> None:
    """The next owner is not tried."""
    world = stage(WEB, "web-1")
    world.owners.chosen["rank-0"] = TRAIN
    world.add("rank-0", labels=STOP_LABELS)
    world.stops.answer = Result(Outcome.BUSY, "slow down", 600)
    await world.run(34)
    assert len(world.stops.tried) == 1


async def test_nothing_is_stopped_without_the_lease() -> None:
    """Asked right before the write, after the records were written."""
    world = stage(WEB, "web-1")
    begin = world.records.begin

    async def lose(*args: Any) -> Any:
        world.leads = False
        return await begin(*args)

    world.records.begin = lose  # type: ignore[method-assign]
    await world.run(34)
    assert world.stops.tried == []


async def test_an_owner_that_the_pods_have_got_since_is_not_stopped() -> None:
    """Its other pods were never judged, and may be busy."""
    world = stage(WEB, "web-1")
    await world.run(30)
    find = world.owners.chain

    async def adopted(pod: Any, now: Any) -> Any:
        assert await find(pod, now)
        return (TRAIN,)

    world.owners.chain = adopted  # type: ignore[method-assign]
    await world.run(4)
    assert world.stops.tried == []
    assert world.records.kept == {}
    world.owners.chain = find  # type: ignore[method-assign]
    await world.run(1)
    assert world.stops.stopped == ["web"]


async def test_nothing_is_stopped_on_a_look_that_its_records_made_old() -> None:
    """An API server that takes long over every record leaves time for the pods to be used again."""
    world = stage(WEB, "web-1", "web-2")
    begin = world.records.begin

    async def slowly(record: Any, spec: Any) -> Any:
        world.clock.time += timedelta(seconds=40)
        return await begin(record, spec)

    world.records.begin = slowly  # type: ignore[method-assign]
    await world.run(40)
    assert len(world.records.kept) == 2
    assert world.stops.tried == []
    world.records.begin = begin  # type: ignore[method-assign]
    await world.run(1)
    assert world.stops.stopped == ["web"]


async def test_a_dry_run_asks_the_api_server_and_changes_nothing() -> None:
    """What would have happened is said, not done."""
    world = stage(WEB, "web-1", dry_run=True)
    await world.run(33)
    assert world.stops.tried == ["web"]
    assert world.stops.stopped == []
    assert "reclaim-at" not in world.annotations("web-1")


async def test_an_accepted_action_is_remembered_as_long_as_its_pod_exists() -> None:
    """However long ago: nothing is acted on twice."""
    world = stage(WEB, "web-1")
    await world.run(33)
    world.change(world.pod("web-1").uid, deleting=False)
    await world.run(1, after=31 * 24 * 60 * MINUTE)
    world.turns("web-1", VerdictKind.IDLE)
    await world.run(40)
    assert len(world.records.kept) == 1
    assert world.stops.stopped == ["web"]
    assert pod_of("web-1").uid in {record.pod_uid for record in world.records.kept.values()}
    assert Reason.STOP_REVERTED.value == "StopReverted"


def test_alertmanager_hears_that_the_owner_is_stopped() -> None:
    """As the Event says it."""
    subject = structs.replace(subject_of("web-1", root=WEB, ceiling=Action.STOP), mark=due_mark(-10))
    alert = idle_warning(subject, subject.mark, Ceiling(Action.STOP), None, "", NOON)
    assert alert is not None
    assert "Will be stopped at" in alert.annotations["description"]
