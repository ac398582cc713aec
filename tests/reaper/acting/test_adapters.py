"""The requests that the reaper sends, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from reaper.act import KubeActor, Outcome, Written, result_of, written_of
from reaper.owners import OwnerResolver, OwnersUnreadableError, Root
from reaper.pause import Pause, parse_pause, paused_data, read_pause, released_data, resumed_data, write_pause
from reaper.reclaim import record_of, spec_of
from reaper.records import Phase, RecordStore, ShadowRecords, parse_record
from runtime.kube import ApiError, ApiUnreachable, Cause, Query, Response
from tests.reaper.acting.worlds import NOON, FakeRecords, due_subject, minutes, pod_of, record_of_pod

Answer = dict[str, Any] | Exception


class FakeKube:
    """Answers by method and path, and keeps every request."""

    def __init__(self, answers: dict[tuple[str, str], Answer]) -> None:
        self.answers = answers
        self.sent: list[tuple[str, str, Any, str]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Response:
        """Gives or raises what was prepared; anything else is not found."""
        del timeout
        self.sent.append((method, path, body, content_type))
        key = f"{path}?{query['continue']}" if query and "continue" in query else path
        answer = self.answers.get((method, key), ApiError(404, "NotFound", f"{path} not found"))
        if isinstance(answer, Exception):
            raise answer
        return Response(200, {}, msgspec.json.encode(answer))

    async def get(self, path: str, kind: type[Any], *, query: Query | None = None) -> Any:
        """Reads as a type."""
        return (await self.request("GET", path, query=query)).decode(kind)

    def stream(
        self, path: str, query: Query | None = None, idle_timeout: float = 1.0
    ) -> AsyncIterator[bytes]:
        """Is not used here."""
        raise NotImplementedError


BUDGET = (Cause("DisruptionBudget", "The disruption budget needs 1 healthy pod"),)
ENDING = (Cause("NamespaceTerminating", "namespace a is being terminated"),)
EVICTIONS = [
    pytest.param(ApiError(429, "TooManyRequests", "x", BUDGET), Outcome.BUDGET, id="a budget blocks"),
    pytest.param(ApiError(429, "TooManyRequests", "x", (), 3), Outcome.BUSY, id="priority and fairness"),
    pytest.param(
        ApiError(500, "InternalError", "This pod has more than one PodDisruptionBudget, which ..."),
        Outcome.REFUSED,
        id="two budgets are permanent",
    ),
    pytest.param(ApiError(500, "InternalError", "etcd"), Outcome.UNKNOWN, id="another 500 says nothing"),
    pytest.param(ApiError(503, "", "x"), Outcome.UNKNOWN, id="503 says nothing"),
    pytest.param(ApiError(404, "NotFound", "x"), Outcome.GONE, id="gone"),
    pytest.param(ApiError(409, "Conflict", "x"), Outcome.GONE, id="a successor has the name"),
    pytest.param(ApiError(403, "Forbidden", "x", ENDING), Outcome.ENDING, id="the namespace ends"),
    pytest.param(ApiError(403, "Forbidden", "x", BUDGET), Outcome.BUDGET, id="a budget by 403"),
    pytest.param(ApiError(403, "Forbidden", "x"), Outcome.REFUSED, id="no right"),
    pytest.param(ApiError(422, "Invalid", "x"), Outcome.REFUSED, id="invalid"),
]


@pytest.mark.parametrize(("error", "outcome"), EVICTIONS)
def test_answers_to_an_eviction_are_told_apart(error: ApiError, outcome: Outcome) -> None:
    """Each row of the table of answers."""
    result = result_of(error)
    assert result.outcome is outcome
    assert result.retry_after == error.retry_after
    assert result.message


async def test_an_eviction_names_the_uid_and_is_never_a_delete() -> None:
    """One POST to the subresource, with the precondition; a dry run says so."""
    pod = pod_of("a")
    path = "/api/v1/namespaces/team-a/pods/a/eviction"
    kube = FakeKube({("POST", path): {}})
    actor = KubeActor(kube)
    assert (await actor.evict(pod)).outcome is Outcome.ACCEPTED
    assert (await actor.evict(pod, dry_run=True)).outcome is Outcome.ACCEPTED
    assert [(method, sent) for method, sent, _, _ in kube.sent] == [("POST", path)] * 2
    options = [body["deleteOptions"] for _, _, body, _ in kube.sent]
    assert options[0] == {"preconditions": {"uid": pod.uid}}
    assert options[1] == {"preconditions": {"uid": pod.uid}, "dryRun": ["All"]}


async def test_an_eviction_without_an_answer_is_unknown() -> None:
    """It may have been accepted."""
    path = "/api/v1/namespaces/team-a/pods/a/eviction"
    actor = KubeActor(FakeKube({("POST", path): ApiUnreachable("reset")}))
    assert (await actor.evict(pod_of("a"))).outcome is Outcome.UNKNOWN


WRITES = [
    pytest.param(ApiError(404, "NotFound", "x"), Written.GONE, id="gone"),
    pytest.param(
        ApiError(422, "Invalid", "x", (Cause("FieldValueTooLong", "x", "metadata.annotations"),)),
        Written.FULL,
        id="annotations full",
    ),
    pytest.param(
        ApiError(422, "Invalid", "x", (Cause("FieldValueInvalid", "x", "metadata.uid"),)),
        Written.GONE,
        id="another pod of that name",
    ),
    pytest.param(ApiError(403, "Forbidden", "a guard"), Written.FAILED, id="refused by a guard"),
    pytest.param(ApiError(500, "", "x"), Written.FAILED, id="failed"),
]


@pytest.mark.parametrize(("error", "written"), WRITES)
def test_answers_to_a_write_are_told_apart(error: ApiError, written: Written) -> None:
    """Only full annotations are worth a mark in memory."""
    assert written_of(error) is written


async def test_every_write_carries_the_uid() -> None:
    """So that it can only reach the pod that was judged."""
    path = "/api/v1/namespaces/team-a/pods/a"
    kube = FakeKube({("PATCH", path): {}})
    pod = pod_of("a")
    assert await KubeActor(kube).annotate(pod, {"x": "1", "y": None}) is Written.WRITTEN
    assert await KubeActor(kube).label(pod, {"l": "1"}, {}) is Written.WRITTEN
    assert [body["metadata"]["uid"] for _, _, body, _ in kube.sent] == [pod.uid, pod.uid]
    assert kube.sent[0][2]["metadata"]["annotations"] == {"x": "1", "y": None}
    assert {content for _, _, _, content in kube.sent} == {"application/merge-patch+json"}


APPS = {
    "resources": [
        {"name": "replicasets", "kind": "ReplicaSet", "namespaced": True},
        {"name": "replicasets/scale", "kind": "Scale", "namespaced": True},
        {"name": "deployments", "kind": "Deployment", "namespaced": True},
    ]
}
SET = Root("apps/v1", "ReplicaSet", "team-a", "web-1", "uid-set")
WEB = Root("apps/v1", "Deployment", "team-a", "web", "uid-web")


def owned_by(root: Root, uid: str) -> dict[str, Any]:
    """Gives an object that another controls."""
    reference = {"apiVersion": root.api_version, "kind": root.kind, "name": root.name, "uid": root.uid}
    return {"metadata": {"uid": uid, "ownerReferences": [{**reference, "controller": True}]}}


def cluster(**changed: Answer) -> dict[tuple[str, str], Answer]:
    """Gives a pod's ReplicaSet and its Deployment."""
    base = "/apis/apps/v1/namespaces/team-a"
    return {
        ("GET", "/apis/apps/v1"): changed.get("discovery", APPS),
        ("GET", f"{base}/replicasets/web-1"): changed.get("set", owned_by(WEB, "uid-set")),
        ("GET", f"{base}/deployments/web"): changed.get("web", {"metadata": {"uid": "uid-web"}}),
    }


async def root_in(answers: dict[tuple[str, str], Answer]) -> Root:
    """Gives the root of a pod of the ReplicaSet."""
    pod = pod_of("a", owner=SET)
    return (await OwnerResolver(FakeKube(answers)).roots([pod], NOON))[pod.uid]


CHAINS = [
    pytest.param(cluster(), WEB, id="pod, ReplicaSet, Deployment"),
    pytest.param(cluster(set=ApiError(403, "Forbidden", "x")), SET, id="ends at what may not be read"),
    pytest.param(cluster(set=ApiError(404, "NotFound", "x")), SET, id="ends at what is gone"),
    pytest.param(cluster(set=owned_by(WEB, "another")), SET, id="an object of that name is not the owner"),
    pytest.param(cluster(web=ApiError(404, "NotFound", "x")), WEB, id="the last link need not exist"),
    pytest.param(cluster(discovery=ApiError(404, "NotFound", "x")), SET, id="an unknown API group"),
    pytest.param(cluster(discovery={"resources": []}), SET, id="an unknown kind"),
]


@pytest.mark.parametrize(("answers", "expected"), CHAINS)
async def test_the_root_is_the_end_of_the_chain(answers: Any, expected: Root) -> None:
    """As far as it can be followed."""
    assert await root_in(answers) == expected


@pytest.mark.parametrize("error", [ApiError(500, "", "x"), ApiError(429, "", "x"), ApiUnreachable("x")])
async def test_an_owner_that_cannot_be_read_now_stops_the_cycle(error: Exception) -> None:
    """Nobody knows which pods belong together."""
    with pytest.raises(OwnersUnreadableError):
        await root_in(cluster(set=error))


async def test_owners_are_remembered_for_half_an_hour() -> None:
    """Then they are read again."""
    kube = FakeKube(cluster())
    resolver = OwnerResolver(kube)
    pod = pod_of("a", owner=SET)
    await resolver.roots([pod], NOON)
    first = len(kube.sent)
    await resolver.roots([pod], NOON + minutes(29))
    assert len(kube.sent) == first
    await resolver.roots([pod], NOON + minutes(30))
    assert len(kube.sent) == first + 2


async def test_a_pod_without_controller_is_its_own_root() -> None:
    """And a DaemonSet ends the chain unread."""
    daemon = Root("apps/v1", "DaemonSet", "team-a", "agent", "uid-agent")
    alone, member = pod_of("a"), pod_of("b", owner=daemon)
    kube = FakeKube({})
    roots = await OwnerResolver(kube).roots([alone, member], NOON)
    assert roots[alone.uid] == Root("v1", "Pod", "team-a", "a", alone.uid)
    assert roots[member.uid].untouchable
    assert kube.sent == []


def switch(**data: str) -> bytes:
    """Gives the ConfigMap as the API server sends it."""
    keys = {key.replace("_", "-"): value for key, value in data.items()}
    fields = [{"time": "2025-03-01T08:00:00Z"}, {"time": "2025-03-01T09:00:00Z"}, {}]
    return msgspec.json.encode({"metadata": {"managedFields": fields}, "data": keys})


SWITCHES = [
    pytest.param(
        switch(paused="false"), False, NOON - minutes(180), id="not paused, changed three hours ago"
    ),
    pytest.param(switch(paused="true", reason="x"), True, None, id="paused"),
    pytest.param(switch(paused="true", until="2025-03-01T13:00:00Z"), True, None, id="paused until later"),
    pytest.param(
        switch(paused="true", until="2025-03-01T11:00:00Z"), False, NOON - minutes(60), id="the pause is over"
    ),
    pytest.param(
        switch(paused="false", resumed_at="2025-03-01T11:30:00Z"), False, NOON - minutes(30), id="resumed"
    ),
    pytest.param(switch(paused="no"), True, None, id="another word"),
    pytest.param(switch(), True, None, id="no word"),
    pytest.param(switch(paused="false", until="soon"), True, None, id="an unreadable time"),
    pytest.param(b"<html>", True, None, id="no JSON"),
    pytest.param(b'{"data": ["paused"]}', True, None, id="another shape"),
    pytest.param(b'{"data": null}', True, None, id="no data"),
]


@pytest.mark.parametrize(("body", "paused", "resumed_at"), SWITCHES)
def test_the_switch_is_off_only_if_it_clearly_says_so(body: bytes, paused: bool, resumed_at: Any) -> None:
    """Whatever cannot be understood counts as paused, with a reason."""
    found = parse_pause(body, NOON)
    assert (found.paused, found.resumed_at) == (paused, resumed_at)
    assert bool(found.reason) is paused


PAUSE_PATH = "/api/v1/namespaces/gpu-tenure-system/configmaps/gpu-tenure-pause"


@pytest.mark.parametrize(
    "answer",
    [
        ApiError(404, "NotFound", "x"),
        ApiError(403, "Forbidden", "x"),
        ApiError(500, "", "x"),
        ApiUnreachable("x"),
    ],
    ids=["missing", "forbidden", "failed", "unreachable"],
)
async def test_a_switch_that_cannot_be_read_means_paused(answer: Exception) -> None:
    """The reason says where to look."""
    found = await read_pause(FakeKube({("GET", PAUSE_PATH): answer}), NOON)
    assert found.paused
    assert "gpu-tenure-system/gpu-tenure-pause" in found.reason


async def test_the_switch_is_made_if_it_is_missing() -> None:
    """Without it everything is paused; `unpause` mends that too."""
    kube = FakeKube({("POST", PAUSE_PATH.rsplit("/", 1)[0]): {}})
    await write_pause(kube, resumed_data(NOON))
    assert [method for method, *_ in kube.sent] == ["PATCH", "POST"]
    made = kube.sent[1][2]["data"]
    assert parse_pause(msgspec.json.encode({"data": made}), NOON) == Pause(paused=False, resumed_at=NOON)


def test_what_is_written_is_what_is_read() -> None:
    """Pausing, ending it and releasing the brake, one after the other."""
    data: dict[str, str | None] = {}
    data |= paused_data("maintenance", NOON + minutes(60))
    assert _read(data) == Pause(paused=True, reason="maintenance", until=NOON + minutes(60))
    data |= released_data(NOON)
    assert _read(data).brake_released_at == NOON
    assert _read(data).paused
    data |= resumed_data(NOON)
    assert _read(data) == Pause(paused=False, resumed_at=NOON, brake_released_at=NOON)


def _read(data: dict[str, str | None]) -> Pause:
    kept = {key: value for key, value in data.items() if value is not None}
    return parse_pause(msgspec.json.encode({"data": kept}), NOON)


RECLAIMS = "/apis/gpu-tenure.io/v1alpha1/gpureclaims"
IN_TEAM_A = "/apis/gpu-tenure.io/v1alpha1/namespaces/team-a/gpureclaims"


def stored(name: str = "a", phase: str | None = None) -> dict[str, Any]:
    """Gives a record as the API server holds it, as this reaper writes it."""
    subject = due_subject(name)
    made: dict[str, Any] = {
        "metadata": {"name": f"pod-{subject.pod.uid}", "namespace": "team-a"},
        "spec": spec_of(subject, NOON),
    }
    if phase:
        made["status"] = {"phase": phase, "completedAt": "2025-03-01T12:00:00Z", "message": "x"}
    return made


async def test_records_are_listed_page_by_page() -> None:
    """What is not a record of ours is left out."""
    pages: dict[tuple[str, str], Answer] = {
        ("GET", RECLAIMS): {"items": [stored("a"), {"metadata": {}}], "metadata": {"continue": "next"}},
        ("GET", f"{RECLAIMS}?next"): {"items": [stored("b", "Accepted")], "metadata": {}},
    }
    found = await RecordStore(FakeKube(pages)).fetch()
    assert [(record.pod_name, record.phase) for record in found] == [
        ("a", Phase.PLANNED),
        ("b", Phase.ACCEPTED),
    ]


async def test_a_record_is_written_once() -> None:
    """Another reaper's record of the same pod is given back instead."""
    subject = due_subject("a")
    record = record_of(subject, NOON)
    exists = ApiError(409, "AlreadyExists", "x")
    kube = FakeKube(
        {("POST", IN_TEAM_A): exists, ("GET", f"{IN_TEAM_A}/{record.name}"): stored("a", "Accepted")}
    )
    begun = await RecordStore(kube).begin(record, spec_of(subject, NOON))
    assert begun.phase is Phase.ACCEPTED
    with pytest.raises(ApiError):
        await RecordStore(FakeKube({("POST", IN_TEAM_A): ApiError(403, "Forbidden", "x")})).begin(record, {})


async def test_a_record_is_completed_in_its_status() -> None:
    """Phase, time and message."""
    record = record_of(due_subject("a"), NOON)
    path = f"{IN_TEAM_A}/{record.name}/status"
    kube = FakeKube({("PATCH", path): {}})
    done = await RecordStore(kube).complete(record, Phase.BLOCKED, "a budget", NOON)
    assert (done.phase, done.completed_at, done.message) == (Phase.BLOCKED, NOON, "a budget")
    status = {"phase": "Blocked", "message": "a budget", "completedAt": "2025-03-01T12:00:00Z"}
    assert kube.sent[0][2] == {"status": status}


def test_a_record_says_who_what_why_and_how_to_get_it_back() -> None:
    """Everything that somebody asks afterwards."""
    spec = spec_of(due_subject("a", devices=2), NOON)
    assert spec["pod"] == {"name": "a", "uid": "uid-team-a-a", "node": "node-a"}
    assert spec["owner"]["kind"] == "Pod"
    assert (spec["action"], spec["devices"], spec["decidedAt"]) == ("evict", 2, "2025-03-01T12:00:00Z")
    assert spec["verdict"] == {"reason": "BelowThreshold", "sentence": "240 of 240 samples below 5 %"}
    assert spec["terms"]["idle-after"] == "2h"
    assert spec["howToGetBack"]
    assert parse_record(msgspec.json.encode({"metadata": {}, "spec": spec})) is not None


async def test_a_dry_run_keeps_its_records_to_itself() -> None:
    """It reads the real ones, so that its limits are the real ones."""
    real = FakeRecords()
    former = record_of_pod("former")
    real.kept[former.name] = former
    shadow = ShadowRecords(real)
    record = record_of(due_subject("a"), NOON)
    await shadow.begin(record, {})
    await shadow.complete(record, Phase.ACCEPTED, "x", NOON)
    assert {one.pod_name: one.phase for one in await shadow.fetch()} == {
        "former": Phase.ACCEPTED,
        "a": Phase.ACCEPTED,
    }
    await shadow.remove(former)
    assert list(real.kept) == [former.name]
