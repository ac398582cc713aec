"""Deadlines for what was admitted without: who gets one, when it ends, and that it is announced."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from policy.objects import ObjectMeta, PodStatus
from policy.selection import PolicySet
from reaper.act import Written
from reaper.late_deadline_api import KubeLateDeadlines
from reaper.late_deadlines import DatedJob, JobSpec, JobStatus
from reaper.owners import Root
from runtime.kube import ApiError
from tests.reaper.acting.kube import FakeKube
from tests.reaper.acting.made import NOON, POLICY, claiming, minutes, pod_of
from tests.reaper.acting.worlds import FakeWorld

DAY = 86_400
TRAIN = Root("batch/v1", "Job", "team-a", "train", "uid-train")
WEB = Root("apps/v1", "ReplicaSet", "team-a", "web", "uid-web")
DEMANDING = {**POLICY, "spec": {**POLICY["spec"], "deadline": {"default": "3d", "max": "7d"}}}
WITH_CREATORS = {
    **DEMANDING,
    "spec": {
        **DEMANDING["spec"],
        "classes": {"interactive": {"creators": ["system:serviceaccount:hub:hub"]}},
    },
}
LONG = minutes(4 * 60)
"""Longer than `after` and the warm-up of the terms."""


def world_of(*, policy: Any = DEMANDING, **settings: Any) -> FakeWorld:
    """Gives a world that gives deadlines."""
    world = FakeWorld(backfill_deadline=True, **settings)
    world.policies = PolicySet.of([policy])
    return world


def add(
    world: FakeWorld, started: timedelta = timedelta(hours=2), seconds: int | None = None, **more: Any
) -> None:
    """Adds a pod that started a while ago."""
    pod = world.add("a", created=NOON - started, **more)
    began = f"{NOON - started:%Y-%m-%dT%H:%M:%SZ}"
    spec = structs.replace(pod.pod.spec, active_deadline_seconds=seconds)
    status = structs.replace(pod.pod.status or PodStatus(), start_time=began)
    world.pods[pod.uid] = structs.replace(pod, pod=structs.replace(pod.pod, spec=spec, status=status))


def a_job(started: str = "2025-03-01T10:00:00Z", **more: Any) -> DatedJob:
    """Gives a Job that started two hours before noon."""
    meta = {"name": "train", "uid": "uid-train", "creation_timestamp": started, **more.pop("metadata", {})}
    return DatedJob(ObjectMeta(**meta), JobSpec(**more), JobStatus(started))


async def test_a_pod_gets_what_is_left_of_the_default_but_a_day_at_least() -> None:
    """Announced on the pod, and given once."""
    world = world_of()
    add(world)
    await world.run(1)
    assert world.late_deadlines.given == []
    await world.run(2, after=LONG)
    assert world.late_deadlines.given == [("a", 3 * DAY)]
    (note,) = [note for _, reason, note in world.events.sent if reason == "GPUDeadlineGiven"]
    assert "ends at 2025-03-04 10:00Z" in note
    assert "policy default demands" in note


async def test_one_that_is_overdue_has_a_day_left() -> None:
    """Nobody loses work without notice."""
    world = world_of()
    add(world, started=timedelta(days=9))
    await world.run(1)
    await world.run(1, after=LONG)
    age = 9 * DAY + 60 + LONG.total_seconds()
    assert world.late_deadlines.given == [("a", int(age) + DAY)]


NONE = [
    pytest.param({}, {"annotations": {"gpu-tenure.io/deadline": "none: Kueue"}}, id="admission has decided"),
    pytest.param({}, {"seconds": 60}, id="it has one of its own"),
    pytest.param({}, {"labels": {"kueue.x-k8s.io/queue-name": "q"}}, id="Kueue bounds it"),
    pytest.param({}, {"owner": WEB}, id="a controller makes it again"),
    pytest.param({}, {"started": timedelta(days=200)}, id="older than its policy"),
    pytest.param({"profile": "warn"}, {}, id="the profile does not enforce"),
    pytest.param({"policy": POLICY}, {}, id="the policy demands none"),
    pytest.param({"policy": WITH_CREATORS}, {}, id="it may be a notebook, made by one of the creators"),
    pytest.param({"once": True}, {}, id="a single run knows nothing of before"),
    pytest.param({"dry_run": True}, {}, id="a dry run"),
]


@pytest.mark.parametrize(("world", "pod"), NONE)
async def test_who_gets_none(world: Any, pod: Any) -> None:
    """However long it is seen."""
    found = world_of(**world)
    add(found, **pod)
    await found.run(1)
    await found.run(2, after=LONG)
    assert found.late_deadlines.given == []


@pytest.mark.parametrize(("labels", "given"), [({}, []), (None, [("a", 3 * DAY)])])
async def test_claims_get_one_only_if_admission_knew_them(labels: Any, given: Any) -> None:
    """What else claims hold, such as network cards, has no deadline of ours."""
    world = world_of(backfill=False)
    add(world, labels=labels)
    uid = world.pod("a").uid
    world.pods[uid] = claiming(world.pods[uid])
    await world.run(1)
    await world.run(1, after=timedelta(hours=30))
    assert world.late_deadlines.given == given


async def test_nobody_gets_one_where_a_quota_counts_by_deadline() -> None:
    """It would move the pod from one quota to another."""
    world = world_of()
    world.late_deadlines.scoped = True
    add(world)
    await world.run(1)
    await world.run(2, after=LONG)
    assert world.late_deadlines.given == []


async def test_of_a_job_the_job_gets_it_once() -> None:
    """Its pods are only how it was found."""
    world = world_of()
    add(world, owner=TRAIN)
    world.late_deadlines.jobs["uid-train"] = a_job()
    await world.run(1)
    await world.run(3, after=LONG)
    assert world.late_deadlines.given == [("train", 3 * DAY)]
    assert "GPUDeadlineGiven" in world.events.reasons("train")


JOBS = [
    pytest.param(a_job(active_deadline_seconds=60), id="it has one of its own"),
    pytest.param(
        a_job(metadata={"annotations": {"gpu-tenure.io/deadline": "kept"}}), id="admission has decided"
    ),
    pytest.param(a_job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}), id="Kueue bounds it"),
    pytest.param(a_job("2024-01-01T00:00:00Z"), id="older than its policy"),
    pytest.param(None, id="it is gone"),
]


@pytest.mark.parametrize("job", JOBS)
async def test_which_jobs_get_none(job: DatedJob | None) -> None:
    """And are looked at once."""
    world = world_of()
    add(world, owner=TRAIN)
    if job is not None:
        world.late_deadlines.jobs["uid-train"] = job
    await world.run(1)
    await world.run(3, after=LONG)
    assert world.late_deadlines.given == []
    assert world.late_deadlines.looked == 1


async def test_a_job_is_remembered_as_long_as_it_has_pods() -> None:
    """Else the names of all Jobs that ever were would fill the memory of a leader."""
    world = world_of()
    add(world, owner=TRAIN)
    await world.run(1)
    await world.run(1, after=LONG)
    pods, world.pods = dict(world.pods), {}
    await world.run(1)
    assert world.late_deadlines.looked == 1
    world.pods.update(pods)
    await world.run(1)
    assert world.late_deadlines.looked == 2


PATH = "/apis/batch/v1/namespaces/team-a/jobs/train"


def job_object(resource: str) -> dict[str, Any]:
    """Gives a Job as the API server has it, whose pods ask for one of a resource."""
    container = {"name": "main", "resources": {"limits": {resource: "1"}}}
    template = {"spec": {"containers": [container]}}
    return {"metadata": {"uid": "uid-train", "name": "train"}, "spec": {"template": template}}


async def test_writes_name_the_object_that_was_looked_at() -> None:
    """A deadline cannot be taken back, so it must not reach a namesake."""
    kube = FakeKube({("PATCH", PATH): {}, ("GET", PATH): job_object("nvidia.com/gpu")})
    api = KubeLateDeadlines(kube)
    job = await api.job_of(pod_of("a", owner=TRAIN))
    assert job is not None
    assert await api.give_job("team-a", job, 60) is Written.WRITTEN
    _, _, body, _ = kube.sent[-1]
    assert body["metadata"]["uid"] == "uid-train"
    assert body["spec"] == {"activeDeadlineSeconds": 60}
    assert body["metadata"]["annotations"] == {"gpu-tenure.io/deadline": "injected"}
    assert await api.give_pod(pod_of("a"), 60) is Written.GONE
    kube.answers["PATCH", PATH] = ApiError(409, "Conflict", "x")
    assert await api.give_job("team-a", job, 60) is Written.FAILED


async def test_a_job_without_gpus_gets_none() -> None:
    """A GPU pod that names somebody else's Job as its controller gives it no deadline."""
    api = KubeLateDeadlines(FakeKube({("GET", PATH): job_object("cpu")}))
    assert await api.job_of(pod_of("a", owner=TRAIN)) is None


async def test_quotas_that_count_by_deadline_are_found() -> None:
    """Of GPUs alone."""
    path = "/api/v1/namespaces/team-a/resourcequotas"
    spec = {"scopes": ["NotTerminating"], "hard": {"requests.nvidia.com/gpu": "4"}}
    assert await KubeLateDeadlines(FakeKube({("GET", path): {"items": [{"spec": spec}]}})).scoped_quota(
        "team-a"
    )
    spec = {"scopes": ["NotTerminating"], "hard": {"cpu": "4"}}
    kube = FakeKube({("GET", path): {"items": [{"spec": spec}]}})
    assert not await KubeLateDeadlines(kube).scoped_quota("team-a")
