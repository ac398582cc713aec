"""Finding and changing the owner that is to be stopped, on a fake of the API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reaper.act import Outcome
from reaper.owners import Root
from reaper.stop_api import Found, KubeStops, NotStoppableError, Standing, stoppable
from reaper.stops import STOPPED
from reaper.stopways import BUILT_IN, Ways
from runtime.kube import ApiError, ApiUnreachable, Cause
from tests.reaper.acting.kube import Answer, FakeKube
from tests.reaper.acting.made import LABELS, NOON, pod_of

WEB = Root("apps/v1", "Deployment", "team-a", "web", "uid-web")
SET = Root("apps/v1", "ReplicaSet", "team-a", "web-1", "uid-set")
CRON = Root("batch/v1", "CronJob", "team-a", "nightly", "uid-cron")
JOB = Root("batch/v1", "Job", "team-a", "nightly-1", "uid-job")
WEB_PATH = "/apis/apps/v1/namespaces/team-a/deployments/web"
JOB_PATH = "/apis/batch/v1/namespaces/team-a/jobs/nightly-1"
KUEUE = "/apis/kueue.x-k8s.io"
WORKLOADS = f"{KUEUE}/v1beta1/namespaces/team-a/workloads"
QUEUED = {**LABELS, "kueue.x-k8s.io/queue-name": "team"}


def template(**limits: str) -> dict[str, Any]:
    """Gives a pod template."""
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}


def owner_of(uid: str, gpus: str = "1", **more: Any) -> dict[str, Any]:
    """Gives a workload of GPU pods."""
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    spec = {"replicas": 3, "template": template(**limits), **more.pop("spec", {})}
    return {
        "metadata": {"uid": uid, "resourceVersion": "7", **more.pop("metadata", {})},
        "spec": spec,
        **more,
    }


def workload(name: str, owner: str, **spec: Any) -> dict[str, Any]:
    """Gives a Workload of Kueue's."""
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "9",
        "ownerReferences": [{"uid": owner}],
    }
    sets = [{"name": "main", "count": 1, "template": template(**{"nvidia.com/gpu": "1"})}]
    return {"metadata": metadata, "spec": {"podSets": sets, **spec}}


def kueue(*items: Any) -> dict[tuple[str, str], Answer]:
    """Gives Kueue's API with these Workloads."""
    group = {"preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta1"}}
    return {("GET", KUEUE): group, ("GET", WORKLOADS): {"items": list(items)}}


async def find(answers: Any, *chain: Root, labels: Any = None, ways: Ways | None = None) -> Found:
    """Gives what is to be changed for one pod."""
    pod = pod_of("a", labels=labels or LABELS)
    kube = FakeKube(answers)
    return (await KubeStops(kube, ways or Ways(BUILT_IN)).find([(pod, chain)], NOON))[pod.uid]


async def test_the_root_is_stopped_not_what_is_between() -> None:
    """With what it was before, and the version that was looked at."""
    found = await find({("GET", WEB_PATH): owner_of("uid-web")}, SET, WEB)
    assert (found.stop.kind, found.stop.name, found.stop.former) == ("Deployment", "web", "3")
    assert (found.resource_version, found.already) == ("7", False)


async def test_of_a_cron_job_the_job_that_runs_is_stopped() -> None:
    """Its schedule goes on, as its user wants it."""
    assert stoppable((JOB, CRON)) == JOB
    content = owner_of(
        "uid-job", status={"startTime": "2025-03-01T11:00:00Z"}, spec={"activeDeadlineSeconds": 7200}
    )
    found = await find({("GET", JOB_PATH): content}, JOB, CRON)
    assert found.stop.name == "nightly-1"
    assert (found.stop.deadline_seconds, found.stop.used_seconds) == (7200, 3600)


async def test_an_owner_that_is_at_zero_is_stopped_already() -> None:
    """Nothing is written."""
    assert (await find({("GET", WEB_PATH): owner_of("uid-web", spec={"replicas": 0})}, WEB)).already


REFUSED = [
    pytest.param({}, (WEB,), {}, "is gone", id="it is gone"),
    pytest.param({("GET", WEB_PATH): owner_of("another")}, (WEB,), {}, "another object", id="a namesake"),
    pytest.param(
        {("GET", WEB_PATH): owner_of("uid-web", gpus="")},
        (WEB,),
        {},
        "makes no GPU pods",
        id="no GPU in its template",
    ),
    pytest.param(
        {("GET", WEB_PATH): {"metadata": {"uid": "uid-web"}, "spec": {"template": []}}},
        (WEB,),
        {},
        "makes no GPU pods",
        id="a template that cannot be read",
    ),
    pytest.param({}, (Root("x.io/v1", "Thing", "team-a", "x", "u"),), {}, "no way", id="an unknown kind"),
    pytest.param(
        {}, (Root("apps/v1?x", "Deployment", "team-a", "x", "u"),), {}, "can have", id="a query as version"
    ),
    pytest.param({}, (), {}, "has no owner", id="no owner"),
    pytest.param(
        {("GET", JOB_PATH): owner_of("uid-job"), **kueue()},
        (JOB,),
        QUEUED,
        "Workload was not found",
        id="Kueue's without a Workload is never suspended",
    ),
    pytest.param(
        {("GET", JOB_PATH): owner_of("uid-job", metadata={"labels": QUEUED})},
        (JOB,),
        {},
        "Workload was not found",
        id="Kueue's by the label of the owner",
    ),
]


@pytest.mark.parametrize(("answers", "chain", "labels", "sentence"), REFUSED)
async def test_what_cannot_be_stopped_is_said(answers: Any, chain: Any, labels: Any, sentence: str) -> None:
    """In a sentence for its record."""
    with pytest.raises(NotStoppableError, match=sentence):
        await find(answers, *chain, labels=labels or None)


async def test_what_kueue_manages_is_stopped_by_its_workload() -> None:
    """Found by owner reference, in the version that is served."""
    answers = {
        ("GET", JOB_PATH): owner_of("uid-job"),
        **kueue(workload("w", "other"), workload("v", "uid-job")),
    }
    found = await find(answers, JOB, labels=QUEUED)
    assert (found.stop.kind, found.stop.name, found.stop.uid) == ("Workload", "v", "uid-v")
    assert (found.stop.field, found.stop.value, found.stop.former) == ("/spec/active", "false", "null")


@pytest.mark.parametrize("key", ["kueue.x-k8s.io/podset", "kueue.x-k8s.io/managed"])
async def test_what_kueue_started_without_a_queue_name_is_known_by_its_pods(key: str) -> None:
    """Kueue may manage objects that name no queue; it marks the pods of whatever it starts."""
    answers = {("GET", JOB_PATH): owner_of("uid-job"), **kueue(workload("v", "uid-job"))}
    found = await find(answers, JOB, labels={**LABELS, key: "main"})
    assert (found.stop.kind, found.stop.name) == ("Workload", "v")


async def test_a_kind_without_a_way_is_stopped_by_its_workload() -> None:
    """Kueue knows how; what it manages need not be in the table."""
    owner = Root("jobset.x-k8s.io/v1alpha2", "JobSet", "team-a", "set", "uid-set")
    assert (await find(kueue(workload("w", "uid-set")), owner, labels=QUEUED)).stop.name == "w"


async def test_a_workload_without_gpus_is_not_stopped() -> None:
    """A pod that only names its owner would reach it otherwise."""
    owner = Root("jobset.x-k8s.io/v1alpha2", "JobSet", "team-a", "set", "uid-set")
    with pytest.raises(NotStoppableError, match="only names it"):
        await find(kueue(workload("w", "uid-set", podSets=[])), owner, labels=QUEUED)


async def test_a_pod_of_kueue_without_owner_has_a_workload_of_its_own() -> None:
    """It belongs to the pod itself."""
    found = await find(kueue(workload("w", pod_of("a").uid, active=True)), labels=QUEUED)
    assert (found.stop.name, found.stop.former) == ("w", "true")


async def test_a_deployment_under_kueue_is_scaled() -> None:
    """Its Workloads come and go with its pods, each with its own: one of them does not stop the others."""
    workloads = kueue(workload("w", pod_of("a").uid), workload("v", pod_of("b").uid))
    found = await find({("GET", WEB_PATH): owner_of("uid-web"), **workloads}, WEB, labels=QUEUED)
    assert found.stop.field == "/spec/replicas"


async def test_pods_of_one_owner_are_looked_up_once() -> None:
    """And pods of several owners each."""
    kube = FakeKube({("GET", WEB_PATH): owner_of("uid-web"), ("GET", JOB_PATH): owner_of("uid-job")})
    chains = [(pod_of("a"), (WEB,)), (pod_of("b"), (WEB,)), (pod_of("c"), (JOB,))]
    found = await KubeStops(kube, Ways(BUILT_IN)).find(chains, NOON)
    assert {one.stop.name for one in found.values()} == {"web", "nightly-1"}
    assert len(kube.sent) == 2


async def stopping(answer: Answer, *, dry_run: bool = False) -> tuple[Any, FakeKube]:
    """Gives the answer to a stop."""
    kube = FakeKube({("GET", WEB_PATH): owner_of("uid-web"), ("PATCH", WEB_PATH): answer})
    stops = KubeStops(kube, Ways(BUILT_IN))
    found = (await stops.find([(pod_of("a"), (WEB,))], NOON))[pod_of("a").uid]
    return await stops.stop(found, "team-a", NOON, dry_run=dry_run), kube


async def test_a_stop_is_one_patch_on_what_was_looked_at() -> None:
    """With the number from before, for whoever reads the object."""
    result, kube = await stopping({})
    assert result.outcome is Outcome.ACCEPTED
    method, path, body, kind = kube.sent[-1]
    assert (method, path, kind) == ("PATCH", WEB_PATH, "application/merge-patch+json")
    note = json.loads(body["metadata"].pop("annotations")[STOPPED])
    assert note == {"at": "2025-03-01T12:00:00Z", "field": "/spec/replicas", "former": 3}
    assert body == {"metadata": {"uid": "uid-web", "resourceVersion": "7"}, "spec": {"replicas": 0}}


UID = Cause("FieldValueInvalid", "x", "metadata.uid")
ANSWERS = [
    pytest.param(ApiError(404, "NotFound", "x"), Outcome.GONE, id="it is gone"),
    pytest.param(ApiError(422, "Invalid", "x", (UID,)), Outcome.GONE, id="another object has its name"),
    pytest.param(ApiError(409, "Conflict", "x"), Outcome.UNKNOWN, id="somebody else wrote: looked at again"),
    pytest.param(ApiError(403, "Forbidden", "x"), Outcome.REFUSED, id="not allowed"),
    pytest.param(ApiError(422, "Invalid", "x"), Outcome.REFUSED, id="not valid"),
    pytest.param(ApiError(429, "TooManyRequests", "x"), Outcome.BUSY, id="the API server is busy"),
    pytest.param(ApiError(500, "InternalError", "x"), Outcome.UNKNOWN, id="an error of the API server"),
    pytest.param(ApiUnreachable("x"), Outcome.UNKNOWN, id="no answer"),
    pytest.param(
        ApiError(403, "Forbidden", "x", (Cause("NamespaceTerminating"),)),
        Outcome.ENDING,
        id="the namespace ends",
    ),
]


@pytest.mark.parametrize(("answer", "outcome"), ANSWERS)
async def test_each_answer_to_a_stop(answer: Any, outcome: Outcome) -> None:
    """As far as it tells whether to try again."""
    assert (await stopping(answer))[0].outcome is outcome


LATER = [
    pytest.param(ApiError(404, "NotFound", "x"), Standing(exists=False), id="the owner is gone"),
    pytest.param(owner_of("another"), Standing(exists=False), id="another object has its name"),
    pytest.param(
        owner_of("uid-web", spec={"replicas": 0}, metadata={"annotations": {STOPPED: "{}"}}),
        Standing(exists=True, stopped=True, noted=True),
        id="as it was left",
    ),
    pytest.param(
        owner_of("uid-web"), Standing(exists=True, by="somebody unknown"), id="changed, nobody says by whom"
    ),
]


@pytest.mark.parametrize(("answer", "standing"), LATER)
async def test_what_became_of_a_stopped_owner(answer: Answer, standing: Standing) -> None:
    """Asked when it has pods again."""
    stops = KubeStops(FakeKube({("GET", WEB_PATH): owner_of("uid-web")}), Ways(BUILT_IN))
    found = (await stops.find([(pod_of("a"), (WEB,))], NOON))[pod_of("a").uid]
    later = KubeStops(FakeKube({("GET", WEB_PATH): answer}), Ways(BUILT_IN))
    assert await later.look(found.stop, "team-a") == standing
