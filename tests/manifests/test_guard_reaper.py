"""What the reaper's identity may write, on a real API server, with no process of ours running."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from policy.keys import Annotation, Label
from sandbox.api import Reply
from sandbox.cluster import Sandbox

RBAC = "/apis/rbac.authorization.k8s.io/v1"
OURS = {
    Annotation.IDLE_SINCE: "2026-01-01T00:00:00Z",
    Annotation.RECLAIM_AT: "2026-01-01T00:30:00Z",
    Annotation.WARNED_UID: "u",
}

pytestmark = pytest.mark.usefixtures("enforce")


@pytest.fixture
def armed(sandbox: Sandbox, reaper: Any) -> Iterator[Any]:
    """The reaper's identity with rights far beyond its own: only the guard refuses it now."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": reaper.user}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all-but-ours"}
    path = f"{RBAC}/clusterrolebindings"
    body = {"metadata": {"name": "armed-reaper"}, "roleRef": role, "subjects": [subject]}
    sandbox.api().create(path, body)
    yield reaper
    sandbox.api().delete(f"{path}/armed-reaper")


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod that no scheduler touches."""
    spec = {"schedulerName": "by-hand", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


@pytest.fixture
def target(sandbox: Sandbox, namespace: str) -> Iterator[str]:
    """The path of a pod with labels and annotations of its user, and a finalizer."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    user = {"team": "a", "example.com/x": "y"}
    body = pod("p", labels=user, annotations=user, finalizers=["example.com/hold"])
    sandbox.api().create(path, body)
    yield f"{path}/p"
    sandbox.api().patch(f"{path}/p", {"metadata": {"finalizers": None}})


def refused(reply: Reply, sentence: str, status: int = 403) -> bool:
    """Whether the guard of the reaper refused with this sentence."""
    message = reply.json["message"]
    return reply.status == status and "'gpu-tenure-guard-reaper'" in message and sentence in message


def test_it_writes_warnings_with_its_own_rights(target: str, reaper: Any) -> None:
    """Its annotations pass both guards, and so does their removal."""
    assert reaper.patch(target, {"metadata": {"annotations": OURS}}).status == 200
    assert reaper.patch(target, {"metadata": {"annotations": dict.fromkeys(OURS)}}).status == 200


def test_it_completes_missing_terms(target: str, reaper: Any) -> None:
    """Pods that were admitted without terms get them as labels."""
    assert reaper.patch(target, {"metadata": {"labels": {Label.CLASS: "batch"}}}).status == 200


def test_it_evicts_with_its_own_rights(sandbox: Sandbox, namespace: str, reaper: Any) -> None:
    """Through the Eviction API, by UID; a delete is not among its rights."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    uid = sandbox.api().create(path, pod("p"))["metadata"]["uid"]
    assert reaper.send("DELETE", f"{path}/p").status == 403
    eviction = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": uid}}}
    reply = reaper.send(
        "POST", f"{path}/p/eviction", {"kind": "Eviction", "apiVersion": "policy/v1", **eviction}
    )
    assert reply.status == 201, reply.text


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"annotations": {"example.com/x": "z"}}, "only change annotations that begin with gpu-tenure.io/"),
        ({"annotations": {"example.com/x": None}}, "only change annotations that begin with gpu-tenure.io/"),
        ({"annotations": {"new": "z"}}, "only change annotations that begin with gpu-tenure.io/"),
        ({"labels": {"team": "b"}}, "only change labels that begin with gpu-tenure.io/"),
        ({"labels": {"team": None}}, "only change labels that begin with gpu-tenure.io/"),
        ({"labels": {"new": "b"}}, "only change labels that begin with gpu-tenure.io/"),
    ],
    ids=[
        "another's annotation changed",
        "another's annotation removed",
        "another's annotation added",
        "another's label changed",
        "another's label removed",
        "another's label added",
    ],
)
def test_others_keys_are_not_its_business(
    target: str, armed: Any, metadata: dict[str, Any], sentence: str
) -> None:
    """Even with every right it changes only keys of ours."""
    assert refused(armed.patch(target, {"metadata": metadata}), sentence)


def test_it_frees_no_finalizer(target: str, armed: Any) -> None:
    """What others wait for stays."""
    reply = armed.patch(target, {"metadata": {"finalizers": None}})
    assert refused(reply, "may not change finalizers or owner references")


def test_it_disowns_nothing(target: str, armed: Any) -> None:
    """Owner references decide who recreates a pod."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1-2-3"}
    reply = armed.patch(target, {"metadata": {"ownerReferences": [owner]}})
    assert refused(reply, "may not change finalizers or owner references")


def test_it_changes_no_image(target: str, armed: Any) -> None:
    """An image is code; a reaper in wrong hands must not run any."""
    patch = [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]
    assert refused(armed.patch(target, patch, "json"), "may only change the fields that stop an owner")
    debugger = {"spec": {"ephemeralContainers": [{"name": "d", "image": "evil"}]}}
    reply = armed.patch(f"{target}/ephemeralcontainers", debugger, "strategic")
    assert refused(reply, "may only change the fields that stop an owner")


def test_it_creates_and_deletes_nothing(sandbox: Sandbox, target: str, armed: Any) -> None:
    """Neither pods nor workloads, and it opens no shell."""
    collection = target.rpartition("/")[0]
    sentence = "it creates and deletes nothing else"
    assert refused(armed.send("POST", collection, pod("q")), sentence)
    assert refused(armed.send("DELETE", target), sentence)
    assert refused(armed.send("POST", f"{target}/exec?command=sh"), sentence)
    jobs = f"/apis/batch/v1/{'/'.join(target.split('/')[3:5])}/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    reply = armed.send("POST", jobs, {"metadata": {"name": "j"}, "spec": {"template": template}})
    assert refused(reply, sentence)
    assert sandbox.api().get(target)["metadata"].get("deletionTimestamp") is None


@pytest.mark.parametrize("space", ["kube-system", "gpu-tenure-system"])
def test_system_namespaces_are_out_of_reach(sandbox: Sandbox, reaper: Any, space: str) -> None:
    """It neither evicts nor marks a pod there, although its rights reach every namespace."""
    path = f"/api/v1/namespaces/{space}/pods"
    sandbox.api().raw("POST", path, pod("out-of-reach"))
    eviction = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "out-of-reach"}}
    sentence = "may not write in a system namespace"
    assert refused(reaper.send("POST", f"{path}/out-of-reach/eviction", eviction), sentence)
    assert refused(reaper.patch(f"{path}/out-of-reach", {"metadata": {"annotations": OURS}}), sentence)


def test_it_stops_owners_and_changes_nothing_else_of_them(
    sandbox: Sandbox, namespace: str, armed: Any
) -> None:
    """Zero replicas and suspend are what its actions need; more replicas and a template are not."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    sandbox.api().create(deployments, {"metadata": {"name": "d"}, "spec": spec})
    assert armed.patch(f"{deployments}/d", {"spec": {"replicas": 0}}).status == 200
    assert refused(armed.patch(f"{deployments}/d", {"spec": {"replicas": 2}}), "only set spec.replicas to 0")
    sentence = "may only change the fields that stop an owner"
    assert refused(armed.patch(f"{deployments}/d/scale", {"spec": {"replicas": 1}}), sentence)
    note = {"metadata": {"annotations": {"kubeflow-resource-stopped": "now"}}}
    assert refused(armed.patch(f"{deployments}/d", note), "only change annotations that begin with")
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "evil"}]
    assert refused(
        armed.patch(f"{deployments}/d", image, "json"), "may only change the fields that stop an owner"
    )
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    run_once = {"spec": {**template["spec"], "restartPolicy": "Never"}}
    sandbox.api().create(jobs, {"metadata": {"name": "j"}, "spec": {"template": run_once}})
    assert armed.patch(f"{jobs}/j", {"spec": {"suspend": True}}).status == 200
    assert refused(armed.patch(f"{jobs}/j", {"spec": {"suspend": False}}), "only set spec.suspend to true")
    assert refused(armed.patch(f"{jobs}/j", {"spec": {"activeDeadlineSeconds": 9}}), sentence)
    assert refused(
        armed.patch(f"{jobs}/j", {"spec": {"parallelism": 0}}),
        "may only change the fields that stop an owner",
    )


def test_very_many_annotations_are_not_looped_over(sandbox: Sandbox, namespace: str, reaper: Any) -> None:
    """A pod with more than a thousand of them is not written on, and the refusal says so as invalid."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    few = {f"k{number}": "" for number in range(995)}
    sandbox.api().create(path, pod("few", annotations=few))
    sandbox.api().create(path, pod("many", annotations={f"k{number}": "" for number in range(1001)}))
    assert reaper.patch(f"{path}/few", {"metadata": {"annotations": OURS}}).status == 200
    reply = reaper.patch(f"{path}/many", {"metadata": {"annotations": OURS}})
    assert refused(reply, "more than 1000 annotations", 422)


def test_very_many_labels_do_not_stop_a_warning(sandbox: Sandbox, namespace: str, reaper: Any) -> None:
    """Labels are only looped over where they change and are few."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    sandbox.api().create(path, pod("many", labels={f"k{number}": "" for number in range(5000)}))
    assert reaper.patch(f"{path}/many", {"metadata": {"annotations": OURS}}).status == 200
    reply = reaper.patch(f"{path}/many", {"metadata": {"labels": {Label.CLASS: "batch"}}})
    assert refused(reply, "on an object of at most 1000 labels")


def test_nobody_else_is_concerned(target: str, mallory: Any, writer: Callable[[str], Any]) -> None:
    """The guard looks at one identity; a namesake of another namespace is another."""
    assert mallory.patch(target, {"metadata": {"annotations": {"new": "z"}}}).status == 200
    other = writer("system:serviceaccount:team-a:gpu-tenure-reaper")
    assert "gpu-tenure-guard-reaper" not in other.patch(target, {"metadata": {"labels": {"n": "z"}}}).text
