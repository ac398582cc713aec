"""What whole cycles say to Alertmanager."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import pytest

from policy.selection import PolicySet
from policy.verdicts import Reason, VerdictKind
from reaper.alertboard import Topic
from reaper.alerts import Alert
from reaper.fates import Fate
from reaper.owners import Root
from tests.reaper.acting.made import LABELS, POLICY, minutes
from tests.reaper.acting.worlds import FakeWorld, annotate

JOB = Root("batch/v1", "Job", "team-a", "train", "job-uid")


class FakeAlerts:
    """Keeps what holds, what happened, and how often nobody could look."""

    def __init__(self) -> None:
        self.shown: dict[Topic, list[Alert]] = {}
        self.happened: list[Alert] = []
        self.ended: list[Alert] = []
        self.repeats = 0

    def show(
        self, topic: Topic, alerts: Collection[Alert], now: datetime, before: Collection[Alert] = ()
    ) -> None:
        """Remembers a topic."""
        del now
        labels = [one.labels for one in alerts]
        self.ended += [one for one in before if one.labels not in labels]
        self.shown[topic] = list(alerts)

    def add(self, alert: Alert) -> None:
        """Remembers what happened."""
        self.happened.append(alert)

    def again(self, topic: Topic, now: datetime) -> None:
        """Counts."""
        del now
        self.repeats += topic is Topic.IDLE

    @property
    def stages(self) -> list[str]:
        """The stages of the warnings that hold."""
        return [one.labels["stage"] for one in self.shown.get(Topic.IDLE, [])]


def alerting(**settings: object) -> tuple[FakeWorld, FakeAlerts]:
    """Gives a world that keeps alerts."""
    alerts = FakeAlerts()
    return FakeWorld(alerts=alerts, **settings), alerts


async def test_warned_halfway_and_reclaimed() -> None:
    """One alert after the other; with the eviction its warning ends."""
    world, alerts = alerting()
    world.add("a")
    await world.run(1)
    assert alerts.stages == []
    await world.run(1)
    assert alerts.stages == ["warned"]
    await world.run(1, after=minutes(15))
    assert alerts.stages == ["halfway"]
    assert alerts.happened == []
    await world.run(1, after=minutes(16))
    assert alerts.stages == []
    (happened,) = alerts.happened
    assert happened.labels["alertname"] == "GPUTenureReclaimed"
    assert "Evicted." in happened.annotations["description"]
    await world.run(1)
    assert alerts.stages == []


async def test_activity_and_snooze_end_the_alert() -> None:
    """Whoever works, or asked to keep the pod, is left in peace."""
    world, alerts = alerting()
    world.add("a")
    await world.run(2)
    annotate(world, "gpu-tenure.io/keep-until", "4h")
    await world.run(1)
    assert alerts.stages == []
    world, alerts = alerting()
    world.add("a")
    await world.run(2)
    world.turns("a", VerdictKind.ACTIVE)
    await world.run(1)
    assert alerts.stages == []


@pytest.mark.parametrize("anew", [False, True], ids=["the same process", "another process"])
async def test_alerts_say_what_events_say(anew: bool) -> None:
    """What becomes of the Job, also where another process had asked before."""
    world, alerts = alerting()
    world.owners.chosen["a"] = JOB
    world.owners.fates["a"] = Fate.ENDS
    world.add("a", owner=JOB)
    await world.run(2)
    if anew:
        world.restart()
        await world.run(1)
    (alert,) = alerts.shown[Topic.IDLE]
    assert "This ends the Job" in alert.annotations["description"]


async def test_the_job_is_asked_about_once() -> None:
    """However long the warning holds."""
    world, alerts = alerting()
    world.owners.chosen["a"] = JOB
    world.owners.fates["a"] = Fate.ENDS
    world.add("a", owner=JOB)
    await world.run(2)
    world.owners.fates.clear()
    await world.run(3)
    (alert,) = alerts.shown[Topic.IDLE]
    assert "This ends the Job" in alert.annotations["description"]


async def test_a_bare_pod_is_evicted_although_its_terms_say_stop() -> None:
    """The label and the sentence say what the plan does, and so what the Event said."""
    world, alerts = alerting()
    idle = {**POLICY["spec"]["idle"], "action": "stop"}
    world.policies = PolicySet.of([{**POLICY, "spec": {**POLICY["spec"], "idle": idle}}])
    world.add("a", labels={**LABELS, "gpu-tenure.io/idle-action": "stop"})
    await world.run(2)
    (alert,) = alerts.shown[Topic.IDLE]
    assert alert.labels["action"] == "evict"
    assert "Will be evicted at" in alert.annotations["description"]


async def test_a_new_process_says_the_same() -> None:
    """The alert follows from what is written on the pod."""
    world, alerts = alerting()
    world.add("a")
    await world.run(2)
    before = alerts.shown[Topic.IDLE]
    world.restart()
    await world.run(1)
    assert [one.labels for one in alerts.shown[Topic.IDLE]] == [one.labels for one in before]


async def test_a_held_cycle_says_the_same_again() -> None:
    """Neither an outage of Prometheus nor of the API server ends a warning."""
    world, alerts = alerting()
    world.add("a")
    await world.run(2)
    world.incomplete = Reason.PROMETHEUS_UNAVAILABLE
    await world.run(1)
    world.incomplete, world.unready = None, "no pods"
    await world.run(1)
    assert alerts.repeats == 2
    assert alerts.stages == ["warned"]


async def test_a_follower_says_nothing() -> None:
    """Alerts are the leader's."""
    world, alerts = alerting()
    world.leads = False
    world.add("a")
    await world.run(2)
    assert (alerts.shown, alerts.repeats) == ({}, 0)


async def test_a_single_run_tells_what_it_did() -> None:
    """Warnings of earlier runs, and the eviction of this one, before it ends."""
    world, alerts = alerting(once=True)
    world.add("a")
    await world.run(2)
    assert alerts.stages == ["warned"]
    await world.run(1, after=minutes(31))
    assert [one.labels["action"] for one in alerts.happened] == ["evict"]


async def test_a_single_run_ends_what_an_earlier_one_told() -> None:
    """It remembers nothing, but reads on the pod that it was warned."""
    world, alerts = alerting(once=True)
    world.add("a")
    await world.run(2)
    alerts.ended.clear()
    world.turns("a", VerdictKind.ACTIVE)
    await world.run(1)
    assert [one.labels["stage"] for one in alerts.ended] == ["warned"]
    assert alerts.stages == []
