"""Whole cycles on a cluster in memory: what is written, evicted, told and remembered."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from policy.selection import PolicySet
from policy.verdicts import Reason, VerdictKind
from reaper import metrics
from reaper.act import Outcome, Result, Written
from reaper.cycle import CycleResult
from reaper.owners import Root
from reaper.pause import Pause
from reaper.records import Phase
from runtime.kube import ApiUnreachable
from tests.reaper.acting.made import NOON, POLICY, minutes, pod_of, record_of_pod
from tests.reaper.acting.worlds import FakeWorld

ACTIVE, IDLE, UNKNOWN = VerdictKind.ACTIVE, VerdictKind.IDLE, VerdictKind.UNKNOWN


async def warned(**settings: Any) -> FakeWorld:
    """Gives a world with one warned idle pod, two minutes after noon."""
    world = FakeWorld(**settings)
    world.add("a")
    await world.run(2)
    assert "reclaim-at" in world.annotations("a")
    return world


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
            "To keep it: kubectl annotate pod a gpu-tenure.io/keep-until=4h. Ask in gpu-help."
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


def annotate(world: FakeWorld, key: str, value: str) -> None:
    """Adds an annotation, as a user does."""
    world.change(world.pod("a").uid, annotations={**world.pod("a").annotations, key: value})


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
    "the pod turns busy": lambda world: world.turns("a", ACTIVE),
    "the pod turns Unknown": lambda world: world.turns("a", UNKNOWN),
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
    pytest.param(Result(Outcome.GONE, "not found"), Phase.GONE, 1, id="gone"),
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
    world.turns("web-2", IDLE)
    await world.run(5)
    (note,) = [note for pod, _, note in world.events.sent if pod == "web-2"]
    assert "nothing will be done to the pod. The owner recreates its pods" in note
    spec = world.records.specs["pod-uid-team-a-web-1"]
    assert spec["warnedAt"] == "2025-03-01T12:02:00Z"


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
    world.turns("a", IDLE)
    await world.run(1)
    assert sorted(world.annotations("a")) == ["idle-since"]
    assert world.annotations("a")["idle-since"] == "2025-03-01T20:01:00Z"


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


async def test_a_snooze_is_written_as_a_time_and_moves_the_action() -> None:
    """A duration starts to run when it is first seen."""
    world = await warned()
    annotate(world, "gpu-tenure.io/keep-until", "1h")
    await world.run(1)
    assert world.annotations("a")["keep-until"] == "2025-03-01T13:03:00Z"
    await world.run(1)
    assert world.annotations("a")["reclaim-at"] == "2025-03-01T13:03:00Z"
    await world.run(58)
    assert world.actor.evicted == []
    await world.run(3)
    assert world.actor.evicted == ["a"]


async def test_an_unreadable_snooze_is_told_once() -> None:
    """It keeps nothing, and its user hears why."""
    world = await warned()
    annotate(world, "gpu-tenure.io/keep-until", "tomorrow")
    await world.run(5)
    assert world.events.reasons("a").count("GPUKeepUntil") == 1


async def test_pods_without_terms_get_them_after_a_while() -> None:
    """Seen for as long as it takes to find them idle; a pod older than its policy is only warned about."""
    world = FakeWorld()
    world.add("new", labels={})
    world.add("old", labels={}, created=NOON - minutes(200 * 24 * 60))
    await world.run(149)
    assert world.pod("new").labels == {}
    await world.run(3)
    assert world.pod("new").labels["gpu-tenure.io/policy"] == "default"
    assert world.pod("new").labels["gpu-tenure.io/idle-action"] == "evict"
    assert world.pod("old").labels["gpu-tenure.io/idle-action"] == "warn"


@pytest.mark.parametrize("settings", [{"dry_run": True}, {"profile": "observe"}, {"backfill": False}])
async def test_no_terms_are_written_where_nothing_may_be(settings: dict[str, Any]) -> None:
    """Neither in a dry run, nor under observe, nor where it is switched off."""
    world = FakeWorld(**settings)
    world.add("new", labels={})
    await world.run(200)
    assert world.pod("new").labels == {}


async def test_records_left_open_are_completed_and_old_ones_removed() -> None:
    """A lost answer counts as taken once its pod is gone; thirty days later nothing is left."""
    world = FakeWorld()
    world.add("a", ACTIVE)
    alive = world.pod("a").uid
    for record in (
        record_of_pod("gone", phase=Phase.PLANNED),
        record_of_pod(alive, phase=Phase.PLANNED),
        record_of_pod("ancient", at=NOON - minutes(31 * 24 * 60)),
    ):
        world.records.kept[record.name] = record
    await world.run(1)
    phases = {record.pod_uid: record.phase for record in world.records.kept.values()}
    assert phases == {"gone": Phase.ACCEPTED, alive: Phase.REFUSED}


async def test_each_policy_says_where_it_holds() -> None:
    """Namespaces, pods by verdict and remarks; written only when they change, also for invalid policies."""
    world = FakeWorld()
    broken = {**POLICY, "metadata": {"name": "broken"}, "spec": {"priority": -1, "idle": {"after": "soon"}}}
    world.policies = PolicySet.of([POLICY, broken])
    world.add("a")
    world.add("b", ACTIVE)
    world.add("c", UNKNOWN, annotations={"gpu-eviction-policy": "never"})
    await world.run(5)
    (first, other) = world.statuses
    assert first[0] == "default"
    assert first[1]["namespaces"] == 2
    assert first[1]["pods"] == {"active": 1, "idle": 1, "unknown": 0, "skipped": 1}
    assert first[1]["problems"] == []
    assert other[0] == "broken"
    assert "spec.idle.after" in other[1]["problems"][0]


async def test_a_policy_that_acts_on_model_servers_by_omission_is_remarked() -> None:
    """Serving pods wait for requests; whoever means to evict them says so."""
    world = FakeWorld()
    world.policies = PolicySet.of([{**POLICY, "spec": {"idle": {"action": "evict", "after": "2h"}}}])
    await world.run(1)
    assert "spec.classes.serving.idle" in world.statuses[0][1]["problems"][0]


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
