"""Whole cycles tell users of deadlines: pods and Jobs, once each, whatever else goes wrong."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from policy.durations import format_time
from policy.objects import PodStatus
from policy.verdicts import Reason, VerdictKind
from reaper.alertboard import Topic
from reaper.cycle import CycleResult
from reaper.jobs import GpuJob, gpu_job
from reaper.owners import Root
from reaper.pods import GpuPod
from reaper.service import Service
from reaper.settings import ReaperSettings
from runtime.events import Regarding
from tests.reaper.acting.kube import FakeKube
from tests.reaper.acting.made import NOON, minutes
from tests.reaper.acting.worlds import FakeClock, FakeWorld
from tests.reaper.alerting.test_cycles import FakeAlerts

HOUR = timedelta(hours=1)
JOB = Root("batch/v1", "Job", "team-a", "train", "job-uid")
SET = Root("jobset.x-k8s.io/v1alpha2", "JobSet", "team-a", "sweep", "set-uid")


def world_with(hours_left: float = 24, **pod: Any) -> tuple[FakeWorld, FakeAlerts, GpuPod]:
    """Gives a world with a busy pod that has a deadline of a week, of which so much is left after a cycle."""
    alerts = FakeAlerts()
    world = FakeWorld(alerts=alerts)
    made = world.add("train", VerdictKind.ACTIVE, annotations={"gpu-tenure.io/deadline": "injected"}, **pod)
    return world, alerts, limit(world, made, hours_left)


def limit(world: FakeWorld, pod: GpuPod, hours_left: float) -> GpuPod:
    """Gives a pod a deadline of a week."""
    started = NOON + minutes(1) + timedelta(hours=hours_left) - timedelta(days=7)
    spec = structs.replace(pod.pod.spec, active_deadline_seconds=7 * 86_400)
    status = structs.replace(pod.pod.status or PodStatus(), start_time=format_time(started))
    world.pods[pod.uid] = structs.replace(pod, pod=structs.replace(pod.pod, spec=spec, status=status))
    return world.pods[pod.uid]


def job(hours_left: float = 24, **fields: Any) -> GpuJob:
    """Gives a Job with a deadline of two weeks, of which so much is left after a cycle."""
    started = NOON + minutes(1) + timedelta(hours=hours_left) - timedelta(days=14)
    usual = GpuJob(
        "team-a", "train", "job-uid", {"gpu-tenure.io/deadline": "kept"}, 14 * 86_400, started, False, None
    )
    return structs.replace(usual, **fields)


async def test_a_pod_is_told_once_per_moment() -> None:
    """Not again in the next cycle, nor by the next process; the alert holds all the time."""
    world, alerts, _ = world_with()
    await world.run(1)
    assert world.once_events.told == [("Pod train", "DeadlineApproaching")]
    assert "policy default" in world.once_events.notes[0]
    (alert,) = alerts.shown[Topic.DEADLINES]
    assert alert.labels["alertname"] == "GPUTenureDeadlineApproaching"
    assert (alert.labels["left"], alert.labels["pod"]) == ("24h", "train")
    calls = world.once_events.calls
    await world.run(2)
    assert world.once_events.calls == calls
    world.restart()
    await world.run(1)
    assert len(world.once_events.kept) == 1
    await world.run(1, after=23 * HOUR)
    assert [one.labels["left"] for one in alerts.shown[Topic.DEADLINES]] == ["1h"]
    assert len(world.once_events.kept) == 2


async def test_the_root_owner_is_told_too() -> None:
    """People look at what they made."""
    world, _, _ = world_with()
    world.owners.chosen["train"] = SET
    await world.run(1)
    assert world.once_events.told == [
        ("Pod train", "DeadlineApproaching"),
        ("JobSet sweep", "DeadlineApproaching"),
    ]


async def test_a_job_its_root_and_its_pods_are_told() -> None:
    """Where the deadline is the Job's, its pods carry none."""
    world, alerts, _ = world_with(10_000)
    for number in range(30):
        world.add(f"worker-{number:02}", VerdictKind.ACTIVE, owner=JOB)
        world.owners.chosen[f"worker-{number:02}"] = SET
    world.jobs = [job()]
    await world.run(1)
    names = [name for name, _ in world.once_events.told]
    assert names[:3] == ["Job train", "JobSet sweep", "Pod worker-00"]
    assert len(names) == 22
    assert "raise activeDeadlineSeconds of the Job" in world.once_events.notes[0]
    (alert,) = alerts.shown[Topic.DEADLINES]
    assert (alert.labels["job"], alert.labels["owner"]) == ("train", "JobSet/sweep")
    assert (alert.labels["owner_kind"], alert.labels["owner_name"]) == ("JobSet", "sweep")
    assert alert.labels["origin"] == "kept"


async def test_a_job_whose_deadline_was_raised_is_told_anew() -> None:
    """It ends later, and so the old moments are not those that count."""
    world, _, _ = world_with(10_000)
    world.jobs = [job(1)]
    await world.run(1)
    assert len(world.once_events.kept) == 1
    world.jobs = [job(1, deadline_seconds=14 * 86_400 + 7200)]
    await world.run(1)
    assert len(world.once_events.kept) == 1
    await world.run(1, after=2 * HOUR)
    assert len(world.once_events.kept) == 2


async def test_afterwards_it_is_said_what_ended_it() -> None:
    """A pod by its status, a Job by its condition; neither is told as approaching any more."""
    world, alerts, pod = world_with(0)
    status = structs.replace(pod.pod.status, phase="Failed", reason="DeadlineExceeded")
    inner = structs.replace(pod.pod, status=status)
    world.pods[pod.uid] = structs.replace(pod, pod=inner, phase="Failed")
    world.jobs = [job(0, ended=True, exceeded_at=NOON)]
    await world.run(1)
    assert world.once_events.told == [("Pod train", "DeadlineExceeded"), ("Job train", "DeadlineExceeded")]
    assert "which policy default set" in world.once_events.notes[0]
    assert {one.labels["alertname"] for one in alerts.shown[Topic.DEADLINES]} == {"GPUTenureDeadlineExceeded"}
    await world.run(1, after=timedelta(minutes=20))
    assert alerts.shown[Topic.DEADLINES] == []


async def test_other_ends_are_none_of_our_business() -> None:
    """A pod that failed by itself, a Job that is done."""
    world, _, pod = world_with()
    status = structs.replace(pod.pod.status, phase="Failed", reason="Evicted")
    inner = structs.replace(pod.pod, status=status)
    world.pods[pod.uid] = structs.replace(pod, pod=inner, phase="Failed")
    world.jobs = [job(ended=True), job(started=None)]
    await world.run(1)
    assert world.once_events.told == []


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({"gpu-tenure.io/enforcement": "disabled"}, id="a namespace that is disabled"),
        pytest.param({"gpu-tenure.io/enforcement": "dry-run"}, id="a namespace in dry-run"),
        pytest.param(None, id="a namespace that nobody has seen"),
    ],
)
async def test_nobody_is_told_in(labels: dict[str, str] | None) -> None:
    """What may not act or write says nothing either."""
    world, alerts, _ = world_with()
    world.jobs = [job()]
    if labels is None:
        del world.namespaces["team-a"]
    else:
        world.namespaces["team-a"] = labels
    await world.run(1)
    assert (world.once_events.told, alerts.shown[Topic.DEADLINES]) == ([], [])


async def test_neither_an_outage_of_prometheus_nor_a_pause_keeps_it_back() -> None:
    """The kubelet does not wait for either."""
    world, _, _ = world_with()
    world.incomplete = Reason.PROMETHEUS_UNAVAILABLE
    world.paused = structs.replace(world.paused, paused=True)
    assert await world.run(1) is CycleResult.HELD
    assert len(world.once_events.kept) == 1


async def test_an_event_that_was_lost_is_sent_again() -> None:
    """As long as the moment is fresh."""
    world, _, _ = world_with()
    world.once_events.broken = True
    await world.run(1)
    world.once_events.broken = False
    await world.run(1)
    assert len(world.once_events.kept) == 1


def test_a_job_is_read() -> None:
    """Its deadline as it is now, from when it counts, and how it ended."""
    body: dict[str, Any] = {
        "metadata": {
            "name": "train",
            "namespace": "team-a",
            "uid": "u",
            "annotations": {"gpu-tenure.io/deadline": "lowered"},
        },
        "spec": {"activeDeadlineSeconds": 600, "template": {"spec": {"containers": []}}},
        "status": {"startTime": "2025-03-01T12:00:00Z"},
    }
    found = gpu_job(json.dumps(body).encode())
    assert found is not None
    assert (found.deadline_seconds, found.started, found.ended) == (600, NOON, False)
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "DeadlineExceeded",
        "lastTransitionTime": "2025-03-01T12:10:00Z",
    }
    body["status"]["conditions"] = [{"type": "FailureTarget", "status": "True"}, failed]
    found = gpu_job(json.dumps(body).encode())
    assert found is not None
    assert (found.ended, found.exceeded_at) == (True, NOON + minutes(10))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": {"name": "x"}, "spec": {"activeDeadlineSeconds": 5}}, id="no mark"),
        pytest.param(
            {"metadata": {"annotations": {"gpu-tenure.io/deadline": "none: Kueue"}}, "spec": {}},
            id="a mark that says none",
        ),
        pytest.param(
            {"metadata": {"annotations": {"gpu-tenure.io/deadline": "injected"}}, "spec": {}},
            id="a deadline that was taken away",
        ),
    ],
)
def test_other_jobs_are_not_kept(body: dict[str, Any]) -> None:
    """Memory is for GPU Jobs with deadlines."""
    assert gpu_job(json.dumps(body).encode()) is None


async def test_events_of_deadlines_name_the_process_that_sent_them() -> None:
    """As all other Events do."""
    kube = FakeKube({})
    settings = ReaperSettings(prometheus_url="http://prometheus:9090", profile="warn", dry_run=False)
    service = Service(kube, settings, FakeClock(), "reaper-7", asyncio.Event())
    pod = Regarding("Pod", "a", "uid-a", "team-a")
    await service.world.once.once("1h", pod, "DeadlineApproaching", "Deadline", "Ends soon.", "Warning")
    service.close()
    (_, _, body, _) = kube.sent[-1]
    assert body["reportingInstance"] == "reaper-7"
