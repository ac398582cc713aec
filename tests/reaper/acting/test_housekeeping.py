"""What a cycle does beside warnings and evictions: snoozes, missing terms, records, statuses."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY

from policy.selection import PolicySet
from policy.verdicts import VerdictKind
from reaper.records import Phase, Record
from runtime.kube import ApiError
from tests.reaper.acting.made import NOON, POLICY, claiming, minutes, record_of_pod
from tests.reaper.acting.worlds import FakeWorld, annotate, warned


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


async def test_claims_that_nobody_looked_up_are_counted_without_terms() -> None:
    """Terms would vouch for them, so they get none."""
    world = FakeWorld()
    pod = world.add("claims", VerdictKind.UNKNOWN, labels={})
    world.pods[pod.uid] = claiming(pod)
    await world.run(200)
    assert world.pod("claims").labels == {}
    assert REGISTRY.get_sample_value("gpu_tenure_reaper_pods_without_terms") == 1


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
    world.add("a", VerdictKind.ACTIVE)
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


async def test_a_record_that_is_refused_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cycle ends as it would, and the next one tries again."""
    world = FakeWorld()
    for uid in ("stubborn", "willing"):
        record = record_of_pod(uid, phase=Phase.PLANNED)
        world.records.kept[record.name] = record
    tried: list[str] = []
    complete = world.records.complete

    async def refuse(record: Record, phase: Phase, message: str, now: datetime) -> Record:
        tried.append(record.pod_uid)
        if record.pod_uid == "stubborn":
            raise ApiError(422, "Invalid", "no")
        return await complete(record, phase, message, now)

    monkeypatch.setattr(world.records, "complete", refuse)
    await world.run(2)
    phases = {record.pod_uid: record.phase for record in world.records.kept.values()}
    assert phases == {"stubborn": Phase.PLANNED, "willing": Phase.ACCEPTED}
    assert tried == ["stubborn", "willing", "stubborn"]


async def test_each_policy_says_where_it_holds() -> None:
    """Namespaces, pods by verdict and remarks; written only when they change, also for invalid policies."""
    world = FakeWorld()
    broken = {**POLICY, "metadata": {"name": "broken"}, "spec": {"priority": -1, "idle": {"after": "soon"}}}
    world.policies = PolicySet.of([POLICY, broken])
    world.add("a")
    world.add("b", VerdictKind.ACTIVE)
    world.add("c", VerdictKind.UNKNOWN, annotations={"gpu-eviction-policy": "never"})
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
