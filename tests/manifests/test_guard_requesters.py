"""The guard of who asked, on workloads, on a real API server, with no process of ours running."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from policy.keys import Annotation
from sandbox.api import Reply
from sandbox.cluster import Sandbox

REQUESTER = str(Annotation.REQUESTED_BY)
GUARD = "gpu-tenure-guard-requesters"
Object = dict[str, Any]
LABELS = {"app": "w"}
ROOTS = {
    "deployments": "apis/apps",
    "replicasets": "apis/apps",
    "statefulsets": "apis/apps",
    "daemonsets": "apis/apps",
    "replicationcontrollers": "api",
    "jobs": "apis/batch",
    "cronjobs": "apis/batch",
}

pytestmark = pytest.mark.usefixtures("enforce")


def template(annotations: Object | None, **more: Any) -> Object:
    """A pod template."""
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "by-hand", **more}
    return {"metadata": {"labels": LABELS, "annotations": annotations}, "spec": spec}


def workload(kind: str, annotations: Object | None) -> Object:
    """A workload that runs nothing, named `w`."""
    once = {"suspend": True, "template": template(annotations, restartPolicy="Never")}
    selecting = {"selector": {"matchLabels": LABELS}, "template": template(annotations)}
    specs: dict[str, Object] = {
        "deployments": {**selecting, "replicas": 0},
        "replicasets": {**selecting, "replicas": 0},
        "statefulsets": {**selecting, "replicas": 0, "serviceName": "w"},
        "daemonsets": selecting,
        "replicationcontrollers": {"selector": LABELS, "template": template(annotations), "replicas": 0},
        "jobs": once,
        "cronjobs": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": once}},
    }
    return {"metadata": {"name": "w"}, "spec": specs[kind]}


def change(kind: str, annotations: Object) -> Object:
    """A merge patch of the annotations that the pods inherit."""
    patch: Object = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    return {"spec": {"jobTemplate": patch}} if kind == "cronjobs" else patch


@pytest.fixture
def place(sandbox: Sandbox, namespace: str) -> Callable[..., str]:
    """Creates a workload as the administrator and gives its path."""

    def call(kind: str, annotations: Object | None) -> str:
        path = f"/{ROOTS[kind]}/v1/namespaces/{namespace}/{kind}"
        sandbox.api().create(path, workload(kind, annotations))
        return f"{path}/w"

    return call


def refused(reply: Reply) -> bool:
    """Whether the guard refused."""
    return reply.status == 403 and f"'{GUARD}'" in reply.text and "may be removed, but not set" in reply.text


@pytest.mark.parametrize("kind", ROOTS)
def test_the_requester_is_neither_changed_nor_set(
    place: Callable[..., str], mallory: Any, writer: Callable[[str], Any], kind: str
) -> None:
    """The pods of a trusted controller inherit it: whoever could change it could use another's share."""
    path = place(kind, {REQUESTER: "dev-a", "team": "a"})
    assert refused(mallory.patch(f"{path}?dryRun=All", change(kind, {REQUESTER: "dev-b"})))
    assert mallory.patch(f"{path}?dryRun=All", change(kind, {"team": "b"})).status == 200
    reply = writer("terms-admin").patch(f"{path}?dryRun=All", change(kind, {REQUESTER: "dev-b"}))
    assert reply.status == 200, reply.text
    assert mallory.patch(path, change(kind, {REQUESTER: None})).status == 200
    assert refused(mallory.patch(path, change(kind, {REQUESTER: "dev-a"})))


@pytest.mark.parametrize("kind", sorted(ROOTS.keys() - {"jobs"}))
def test_a_replacement_may_drop_it(place: Callable[..., str], mallory: Any, kind: str) -> None:
    """`kubectl replace`, and controllers that write their own annotations, know nothing of it.

    A Job's template cannot be replaced at all.
    """
    path = place(kind, {REQUESTER: "dev-a"})
    assert mallory.send("PUT", path, workload(kind, None)).status == 200


def test_excluded_namespaces_are_left_alone(sandbox: Sandbox, mallory: Any) -> None:
    """In kube-system nobody asks for a right of ours."""
    path = "/apis/apps/v1/namespaces/kube-system/deployments"
    sandbox.api().create(path, workload("deployments", {REQUESTER: "dev-a"}))
    assert mallory.patch(f"{path}/w", change("deployments", {REQUESTER: "dev-b"})).status == 200


def test_very_many_keys_cost_nothing(sandbox: Sandbox, namespace: str, mallory: Any) -> None:
    """20,000 labels on the template neither get past the guard nor slow it.

    The yardstick is the same write where the guard does not look.
    """
    body = workload("deployments", {REQUESTER: "dev-a"})
    body["metadata"]["name"] = "many"
    body["spec"]["template"]["metadata"]["labels"] |= {f"k{number}": "" for number in range(20_000)}
    seconds = {}
    for space in (namespace, "kube-system"):
        path = f"/apis/apps/v1/namespaces/{space}/deployments"
        assert sandbox.api().raw("POST", path, body).status == 201
        times = []
        for team in ("a", "b"):
            started = time.monotonic()
            assert mallory.patch(f"{path}/many", change("deployments", {"team": team})).status == 200
            times.append(time.monotonic() - started)
        seconds[space] = min(times)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/many"
    assert refused(mallory.patch(path, change("deployments", {REQUESTER: "dev-b"})))
    assert seconds[namespace] < 3 * seconds["kube-system"] + 1


@pytest.mark.parametrize("kind", ROOTS)
@pytest.mark.parametrize("name", [None, "mallory", "dev-a"], ids=["nobody", "oneself", "somebody else"])
def test_nobody_creates_workloads_for_somebody_else(
    namespace: str, mallory: Any, kind: str, name: str | None
) -> None:
    """The webhook is away; templates without GPUs count too, since they may get some later."""
    body = workload(kind, None if name is None else {REQUESTER: name})
    reply = mallory.send("POST", f"/{ROOTS[kind]}/v1/namespaces/{namespace}/{kind}?dryRun=All", body)
    assert reply.status == (403 if name == "dev-a" else 201), reply.text
    assert name != "dev-a" or ("names somebody else" in reply.text and f"'{GUARD}'" in reply.text)
