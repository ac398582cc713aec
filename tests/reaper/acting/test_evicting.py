"""What happens right before an eviction and after its answer: a fresh look, budgets, answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from policy.objects import OwnerReference
from policy.selection import PolicySet
from policy.verdicts import Reason, VerdictKind
from reaper.act import Outcome, Result
from reaper.owners import Root
from reaper.pause import Pause
from reaper.records import Phase
from tests.reaper.acting.made import LABELS, POLICY, pod_of
from tests.reaper.acting.worlds import FakeWorld, annotate, warned


def enforce(world: FakeWorld, value: str) -> None:
    """Labels the namespace."""
    world.namespaces["team-a"]["gpu-tenure.io/enforcement"] = value


def successor(world: FakeWorld) -> None:
    """Replaces the pod by one of the same name, with the annotations of the old."""
    old = world.pods.pop(world.pod("a").uid)
    world.add("a", uid="uid-of-the-successor", annotations=old.annotations)


def loosened() -> PolicySet:
    """Gives the policy with a milder action."""
    return PolicySet.of([{**POLICY, "spec": {**POLICY["spec"], "idle": {"action": "warn", "after": "2h"}}}])


LAST_MOMENT = {
    "the pod turns busy": lambda world: world.turns("a", VerdictKind.ACTIVE),
    "the pod turns Unknown": lambda world: world.turns("a", VerdictKind.UNKNOWN),
    "Prometheus fails": lambda world: setattr(world, "incomplete", Reason.PROMETHEUS_UNAVAILABLE),
    "the lease is lost": lambda world: setattr(world, "leads", False),
    "somebody pauses": lambda world: setattr(world, "paused", Pause(paused=True, reason="now")),
    "the pod is gone": lambda world: world.pods.clear(),
    "a successor has its name": successor,
    "the pod is being deleted": lambda world: world.change(world.pod("a").uid, deleting=True),
    "its user snoozes": lambda world: annotate(world, "gpu-tenure.io/keep-until", "4h"),
    "its user asks for exemption": lambda world: annotate(world, "gpu-eviction-policy", "never"),
    "its warning is removed": lambda world: world.change(world.pod("a").uid, annotations={}),
    "the namespace opts out": lambda world: enforce(world, "disabled"),
    "the namespace goes into dry-run": lambda world: enforce(world, "dry-run"),
    "the namespace is gone": lambda world: world.namespaces.pop("team-a"),
    "the policy is loosened": lambda world: setattr(world, "policies", loosened()),
    "the policy is deleted": lambda world: setattr(world, "policies", PolicySet()),
}


@pytest.mark.parametrize("change", LAST_MOMENT.values(), ids=LAST_MOMENT.keys())
async def test_a_change_right_before_the_action_spares_the_pod(change: Any) -> None:
    """Planned on the caches, stopped by the fresh look."""
    world = await warned()
    await world.run(29)
    fired = []

    def once() -> None:
        if not fired:
            fired.append(True)
            change(world)

    world.before_look = once
    await world.run(2)
    assert fired
    assert world.actor.tried == []
    assert world.records.kept == {}


OTHERS = OwnerReference("batch/v1", "Job", "others", "uid-others", controller=True)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"owner": OTHERS}, id="another owner takes it"),
        pytest.param(
            {"labels": {**LABELS, "kueue.x-k8s.io/pod-group-name": "others"}}, id="it joins a pod group"
        ),
    ],
)
async def test_a_pod_that_belongs_to_others_right_before_the_action_is_spared(change: Any) -> None:
    """Those whom it belongs to now have not been judged with it, and may be busy."""
    world = await warned()
    await world.run(29)
    world.before_look = lambda: world.change(world.pod("a").uid, **change)
    while world.observed < 2 + world.observed_before:
        await world.run(1)
    assert world.actor.tried == []
    assert world.records.kept == {}


async def test_a_pod_that_joins_the_run_right_before_the_action_spares_it() -> None:
    """Whoever came since the plan was made has not been judged with it."""
    run = Root("batch/v1", "Job", "team-a", "train", "uid-train")
    world = FakeWorld()
    for name in ("rank-0", "rank-1"):
        world.owners.chosen[name] = run
        world.add(name)
    world.owners.chosen["rank-2"] = run
    await world.run(31)
    world.before_look = lambda: world.pods.update({joined.uid: joined})
    joined = pod_of("rank-2")
    await world.run(1)
    assert world.actor.tried == []


async def test_nothing_is_evicted_on_a_look_that_its_record_made_old() -> None:
    """The pod may be in use again by the time that the API server has written the record."""
    world = await warned()
    begin = world.records.begin

    async def slowly(record: Any, spec: Any) -> Any:
        world.clock.time += timedelta(seconds=61)
        return await begin(record, spec)

    world.records.begin = slowly  # type: ignore[method-assign]
    await world.run(34)
    assert world.records.kept
    assert world.actor.tried == []
    world.records.begin = begin  # type: ignore[method-assign]
    await world.run(1)
    assert world.actor.evicted == ["a"]


@pytest.mark.parametrize(("names", "seconds"), [(["a"], 61), (["a", "b"], 61), (["a"], 45), (["a", "b"], 45)])
async def test_how_long_prometheus_took_makes_a_look_older(names: list[str], seconds: int) -> None:
    """What it shows is as old as the question; nothing is even recorded on it after a minute."""
    world = FakeWorld()
    for name in names:
        world.owners.chosen[name] = Root("batch/v1", "Job", "team-a", "train", "uid-train")
        world.add(name)
    await world.run(31)
    world.before_look = lambda: setattr(world.clock, "time", world.clock.time + timedelta(seconds=seconds))
    await world.run(2)
    assert world.observed >= 33, "it was looked again"
    assert world.actor.evicted == ([] if seconds > 60 else names)
    assert bool(world.records.kept) == (seconds <= 60)


async def test_a_budget_is_asked_again_after_minutes_and_told_once() -> None:
    """Not in every cycle."""
    world = await warned()
    world.actor.answers["a"] = Result(Outcome.BUDGET, "Cannot evict pod")
    await world.run(42)
    assert 2 <= len(world.actor.tried) <= 3
    assert world.events.reasons("a").count("GPUEvictionBlocked") == 1
    (record,) = world.records.kept.values()
    assert record.phase is Phase.BLOCKED


OUTCOMES = [
    pytest.param(Result(Outcome.GONE, "not found"), Phase.GONE, 1, id="the pod is gone"),
    pytest.param(Result(Outcome.ENDING, "terminating"), Phase.GONE, 1, id="the namespace ends"),
    pytest.param(Result(Outcome.REFUSED, "two budgets"), Phase.REFUSED, 1, id="refused for good"),
    pytest.param(Result(Outcome.UNKNOWN, "no answer"), Phase.PLANNED, 2, id="no answer: asked again"),
    pytest.param(Result(Outcome.BUSY, "slow down", 90), Phase.PLANNED, 1, id="asked to slow down"),
    pytest.param(Result(Outcome.BUDGET, "stale", 10), Phase.PLANNED, 2, id="the budget is out of date"),
]


@pytest.mark.parametrize(("result", "phase", "tries"), OUTCOMES)
async def test_each_answer_to_an_eviction(result: Result, phase: Phase, tries: int) -> None:
    """How far the record comes, and how often two cycles try."""
    world = await warned()
    world.actor.answers["a"] = result
    await world.run(28)
    await world.run(3)
    assert world.records.kept[f"pod-{world.pod('a').uid}"].phase is phase
    assert len(world.actor.tried) == tries


async def test_a_busy_api_server_stops_the_cycle() -> None:
    """The second pod is not tried."""
    world = FakeWorld()
    world.add("a")
    world.add("b")
    world.actor.answers["a"] = Result(Outcome.BUSY, "slow down", 600)
    world.actor.answers["b"] = Result(Outcome.BUSY, "slow down", 600)
    await world.run(35)
    assert len(world.actor.tried) == 1


async def test_an_owner_that_recreates_is_warned_with_the_reason() -> None:
    """The second pod of a Deployment hears why nothing will come of it."""
    world = FakeWorld()
    web = Root("apps/v1", "Deployment", "team-a", "web", "uid-web")
    for name in ("web-1", "web-2"):
        world.owners.chosen[name] = web
    world.add("web-1")
    await world.run(33)
    assert world.actor.evicted == ["web-1"]
    del world.pods[world.pod("web-1").uid]
    world.add("web-2")
    world.turns("web-2", VerdictKind.IDLE)
    await world.run(5)
    (note,) = [note for pod, _, note in world.events.sent if pod == "web-2"]
    assert "nothing will be done to the pod. The owner recreates its pods" in note
    spec = world.records.specs["pod-uid-team-a-web-1"]
    assert spec["warnedAt"] == "2025-03-01T12:02:00Z"
