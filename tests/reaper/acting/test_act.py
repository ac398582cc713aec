"""The writes and evictions that the reaper sends, and what it makes of the answers."""

from __future__ import annotations

import pytest

from reaper.act import KubeActor, Outcome, Written, result_of, written_of
from runtime.kube import ApiError, ApiUnreachable, Cause
from tests.reaper.acting.kube import FakeKube
from tests.reaper.acting.made import pod_of

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
    pytest.param(ApiError(404, "NotFound", "x"), Outcome.GONE, id="the pod is gone"),
    pytest.param(ApiError(409, "Conflict", "x"), Outcome.GONE, id="a successor has the name"),
    pytest.param(ApiError(403, "Forbidden", "x", ENDING), Outcome.ENDING, id="the namespace ends"),
    pytest.param(ApiError(403, "Forbidden", "x", BUDGET), Outcome.BUDGET, id="a budget by 403"),
    pytest.param(ApiError(403, "Forbidden", "x"), Outcome.REFUSED, id="the right is missing"),
    pytest.param(ApiError(422, "Invalid", "x"), Outcome.REFUSED, id="the request is invalid"),
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
    pytest.param(ApiError(404, "NotFound", "x"), Written.GONE, id="the pod is gone"),
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
    pytest.param(
        ApiError(
            422,
            "Invalid",
            "denied request: The reaper does not write on an object with more than 1000 annotations; x",
        ),
        Written.FULL,
        id="more annotations than the guard reads",
    ),
    pytest.param(ApiError(403, "Forbidden", "a guard"), Written.FAILED, id="refused by a guard"),
    pytest.param(ApiError(500, "", "x"), Written.FAILED, id="the API server failed"),
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
