"""How a stop is undone: from its record, once, and never over what somebody did in the meantime."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from policy.errors import FormatError
from policy.terms import Action
from reaper.owners import Root
from reaper.reclaims import Reclaim
from reaper.records import Phase, Record
from reaper.resuming import Result, Stopped, decide, document, is_wanted, parse_wanted, stopped_in
from reaper.stops import STOPPED, Stop, stop_of, stopping_patch
from reaper.stopways import BUILT_IN, Ways, merged, parse_way, value_in
from tests.reaper.acting.made import NOON, minutes, record_of_pod

WAYS = Ways(BUILT_IN)
KINDS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "Job": "batch/v1",
    "Notebook": "kubeflow.org/v1",
    "Workload": "kueue.x-k8s.io/v1beta1",
}


def made(kind: str, spec: Any, **status: Any) -> dict[str, Any]:
    """Gives an object that runs."""
    metadata = {"name": "x", "uid": "uid-x", "resourceVersion": "7"}
    return {"apiVersion": KINDS[kind], "kind": kind, "metadata": metadata, "spec": spec, "status": status}


def stopped(content: dict[str, Any], at: datetime = NOON) -> tuple[Stop, dict[str, Any]]:
    """Gives what stopping an object records, and the object afterwards."""
    kind = content["kind"]
    owner = Root(content["apiVersion"], kind, "team-a", "x", "uid-x")
    way = WAYS.of(owner.group, kind)
    assert way is not None
    stop = stop_of(owner, way, content, at)
    return stop, applied(content, stopping_patch(stop, "7", at))


def applied(content: Any, patch: Any) -> Any:
    """Applies a merge patch as the API server does."""
    if not isinstance(patch, dict):
        return patch
    found = dict(content) if isinstance(content, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = applied(found.get(key), value)
    return found


def the(stop: Stop, **more: Any) -> Stopped:
    """Gives a stop as a person finds it."""
    return Stopped(namespace="team-a", stop=stop, at=NOON, devices=2, **more)


def bare(content: Any) -> Any:
    """Gives an object without empty annotations and what the API server adds of itself."""
    metadata = {key: value for key, value in content["metadata"].items() if value != {}}
    spec = {key: value for key, value in content["spec"].items() if value not in ({}, None)}
    return {**content, "metadata": metadata, "spec": spec}


RUNNING = [
    pytest.param(made("Deployment", {"replicas": 3}), id="a Deployment of three"),
    pytest.param(made("StatefulSet", {"replicas": 1}), id="a StatefulSet"),
    pytest.param(made("Job", {"parallelism": 2}), id="a Job that was never suspended"),
    pytest.param(made("Job", {"suspend": False}), id="a Job that says it is not suspended"),
    pytest.param(made("Notebook", {"template": {}}), id="a Notebook"),
    pytest.param(made("Workload", {"active": True}), id="a Workload of Kueue's"),
]


@pytest.mark.parametrize("content", RUNNING)
def test_resuming_gives_back_what_was_before(content: Any) -> None:
    """Exactly, with the identity of the object as a condition; a second time there is nothing to do."""
    stop, after = stopped(content)
    assert stop.still_set(after)
    decision = decide(the(stop), after)
    assert decision.result is Result.RESUMED
    assert decision.patch is not None
    assert decision.patch["metadata"]["uid"] == "uid-x"
    assert decision.patch["metadata"]["resourceVersion"] == "7"
    back = applied(after, decision.patch)
    assert bare(back) == bare(content)
    again = decide(the(stop), back)
    assert (again.result, again.patch) == (Result.RUNNING, None)


@given(deadline=st.integers(1, 10**6), used=st.integers(0, 10**6))
def test_a_job_keeps_only_what_it_had_left_of_its_deadline(deadline: int, used: int) -> None:
    """However often it is stopped and resumed, it never runs for longer in all."""
    started = "2025-03-01T12:00:00Z"
    content = made("Job", {"activeDeadlineSeconds": deadline}, startTime=started)
    stop, after = stopped(content, NOON + minutes(used / 60))
    decision = decide(the(stop), after)
    assert decision.patch is not None
    back = applied(after, decision.patch)
    assert value_in(back, "/spec/activeDeadlineSeconds") == (max(deadline - used, 1) if used else deadline)


def test_what_somebody_scaled_meanwhile_stays() -> None:
    """And whoever did it is named."""
    stop, after = stopped(made("Deployment", {"replicas": 3}))
    after["spec"]["replicas"] = 5
    fields = {"f:spec": {"f:replicas": {}}}
    after["metadata"]["managedFields"] = [{"manager": "kubectl-scale", "time": "2025", "fieldsV1": fields}]
    decision = decide(the(stop), after)
    assert (decision.result, decision.patch) == (Result.CHANGED, None)
    assert "kubectl-scale" in decision.sentence


def test_who_stopped_it_themselves_after_a_resume_is_not_overruled() -> None:
    """The reaper's note went with the resume."""
    stop, after = stopped(made("Deployment", {"replicas": 3}))
    del after["metadata"]["annotations"][STOPPED]
    assert decide(the(stop), after).patch is None


@pytest.mark.parametrize(
    "content", [None, {"metadata": {"uid": "another"}}], ids=["it is gone", "a namesake has its place"]
)
def test_what_is_gone_cannot_be_resumed(content: Any) -> None:
    """And its namesake is left alone."""
    stop, _ = stopped(made("Job", {}))
    assert decide(the(stop), content).result is Result.GONE


def test_a_dry_run_says_that_it_would() -> None:
    """With the same patch."""
    stop, after = stopped(made("Deployment", {"replicas": 3}))
    decision = decide(the(stop), after, dry_run=True)
    assert decision.result is Result.WOULD_RESUME
    assert decision.sentence == "replicas 3"
    assert document(the(stop), decision)["result"] == "would-resume"


def test_a_kind_may_remember_another_field_than_it_sets() -> None:
    """Then the one that was set goes away."""
    row = {"apiGroup": "example.com", "kind": "Farm", "resource": "farms", "field": "/spec/paused"}
    way = parse_way({**row, "value": True, "remember": "/spec/size"})
    content = {"metadata": {"uid": "uid-x", "resourceVersion": "7"}, "spec": {"size": 4}}
    owner = Root("example.com/v1", "Farm", "team-a", "x", "uid-x")
    stop = stop_of(owner, way, content, NOON)
    after = applied(content, stopping_patch(stop, "7", NOON))
    assert json.loads(after["metadata"]["annotations"][STOPPED])["former"] == 4
    after["spec"]["size"] = 0
    decision = decide(the(stop), after)
    assert decision.patch is not None
    assert applied(after, decision.patch)["spec"] == {"size": 4}


def reclaim(name: str, stop: Stop, at: datetime, phase: Phase = Phase.ACCEPTED, **more: Any) -> Reclaim:
    """Gives the record of one pod of a stopped owner."""
    record: Record = structs.replace(record_of_pod(name, at=at, phase=phase), action=Action.STOP, stop=stop)
    return Reclaim(record=record, action="stop", **more)


def test_the_pods_of_one_owner_are_one_stop_and_the_last_counts() -> None:
    """Evictions and refusals are none."""
    first, _ = stopped(made("Deployment", {"replicas": 3}))
    last, _ = stopped(made("Deployment", {"replicas": 4}))
    found = stopped_in(
        [
            reclaim("old", first, NOON - minutes(60)),
            reclaim("a", last, NOON, owner="Deployment x"),
            reclaim("b", last, NOON),
            reclaim("c", structs.replace(last, uid="other", name="y"), NOON, Phase.REFUSED),
            Reclaim(record=record_of_pod("evicted"), action="evict"),
        ]
    )
    assert [(one.owner, one.stop.former, one.devices) for one in found] == [("Deployment x", "4", 2)]
    assert stopped_in([reclaim("a", last, NOON)], NOON + minutes(1)) == ()


WANTED = ["deployment/x", "deploy/x", "Deployment/x", "deployments.apps/x", "deployments/x"]


@pytest.mark.parametrize("text", WANTED)
def test_an_owner_is_named_as_for_kubectl(text: str) -> None:
    """By kind, plural or short name."""
    stop, _ = stopped(made("Deployment", {"replicas": 3}))
    (one,) = stopped_in([reclaim("a", stop, NOON)])
    assert is_wanted(one, parse_wanted(text))
    assert not is_wanted(one, parse_wanted("deployment/y"))
    assert not is_wanted(one, parse_wanted("job/x"))
    assert is_wanted(one, None)


def test_what_kueue_stopped_is_found_by_its_job() -> None:
    """Nobody knows the names of Workloads."""
    stop, _ = stopped(made("Workload", {}))
    (one,) = stopped_in([reclaim("a", stop, NOON, owner="Job train")])
    assert is_wanted(one, parse_wanted("job/train"))


@pytest.mark.parametrize("text", ["web", "/web", "deployment/", "a/b/c", ""])
def test_a_name_without_kind_is_refused_with_an_example(text: str) -> None:
    """Before anything is asked."""
    with pytest.raises(FormatError, match="deployment/web"):
        parse_wanted(text)


def test_patches_are_merged_without_loss() -> None:
    """Of the same place the last counts."""
    assert merged({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}
