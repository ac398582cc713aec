"""The guards of pods and bindings, on a real API server, with no process of ours running."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from policy.keys import Annotation, Label
from sandbox.api import PATCH_TYPES, Reply
from sandbox.cluster import Sandbox

LABELS = [*Label]
ANNOTATIONS = [
    Annotation.DEADLINE,
    Annotation.DEADLINE_SECONDS,
    Annotation.ASKED,
    Annotation.IDLE_SINCE,
    Annotation.RECLAIM_AT,
    Annotation.WARNED_UID,
]
KEYS = [("labels", key) for key in LABELS] + [("annotations", key) for key in ANNOTATIONS]
NAMES = [f"{where[:-1]} {key}" for where, key in KEYS]
REQUESTER = Annotation.REQUESTED_BY

pytestmark = pytest.mark.usefixtures("enforce")


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod that asks for nothing."""
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def unscheduled(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod that no scheduler and so no node ever touches."""
    waiting = pod(name, **metadata)
    waiting["spec"]["schedulerName"] = "by-hand"
    return waiting


@pytest.fixture
def pods(sandbox: Sandbox, namespace: str) -> str:
    """The path of pods where `termed` carries every key of ours, and `plain` none."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    labels = dict.fromkeys(LABELS, "old")
    annotations = dict.fromkeys([*ANNOTATIONS, REQUESTER], "old")
    sandbox.api().create(path, pod("termed", labels=labels, annotations=annotations))
    sandbox.api().create(path, pod("plain"))
    return path


def refused(reply: Reply, guard: str) -> bool:
    """Whether this guard refused."""
    return reply.status == 403 and f"'gpu-tenure-guard-{guard}'" in reply.json["message"]


@pytest.mark.parametrize(("where", "key"), KEYS, ids=NAMES)
@pytest.mark.parametrize("subresource", ["", "/status"], ids=["pods", "pods/status"])
def test_terms_cannot_be_changed_removed_or_added(
    pods: str, mallory: Any, where: str, key: str, subresource: str
) -> None:
    """Nobody without the right touches a key of ours, through either path, and is told what to do."""
    for name, value in (("termed", "new"), ("termed", None), ("plain", "new")):
        reply = mallory.patch(f"{pods}/{name}{subresource}", {"metadata": {where: {key: value}}})
        assert refused(reply, "pods"), (name, value, reply.text)
        assert key in reply.json["message"]
        assert "keep-until=4h" in reply.json["message"]


@pytest.mark.parametrize("kind", ["json", "strategic", "apply", "put"])
def test_every_way_of_writing_is_guarded(sandbox: Sandbox, pods: str, mallory: Any, kind: str) -> None:
    """A PUT, a JSON patch, a strategic merge patch and a server-side apply are refused alike."""
    path = f"{pods}/termed"
    changed = sandbox.api().get(path)
    changed["metadata"]["labels"][Label.IDLE_AFTER] = "new"
    for ours in ("managedFields", "resourceVersion"):
        changed["metadata"].pop(ours)
    if kind == "put":
        reply = mallory.send("PUT", path, changed)
    elif kind == "json":
        key = Label.IDLE_AFTER.replace("/", "~1")
        reply = mallory.patch(path, [{"op": "remove", "path": f"/metadata/labels/{key}"}], "json")
    elif kind == "strategic":
        reply = mallory.patch(path, {"metadata": {"labels": {"$patch": "delete", Label.CLASS: None}}}, kind)
    else:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {Label.IDLE_AFTER: "new"}}}
        reply = mallory.patch(f"{path}?fieldManager=m&force=true", body, kind)
    assert refused(reply, "pods"), reply.text


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
def test_other_subresources_do_not_carry_labels(sandbox: Sandbox, pods: str, subresource: str) -> None:
    """The API server drops metadata sent to them even from an administrator, so no guard is needed there."""
    sandbox.api().wait_running(pods.split("/")[4], "termed")
    body = {"metadata": {"labels": {Label.IDLE_AFTER: "new"}}}
    sandbox.api().raw(
        "PATCH",
        f"{pods}/termed/{subresource}",
        body,
        {"Content-Type": "application/strategic-merge-patch+json"},
    )
    assert sandbox.api().get(f"{pods}/termed")["metadata"]["labels"][Label.IDLE_AFTER] == "old"


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"team": "a"}},
        {"annotations": {Annotation.KEEP_UNTIL: "4h"}},
        {"annotations": {"gpu-eviction-policy": "never"}},
        {"annotations": {REQUESTER: None}},
        {"annotations": {"gpu-tenure.io/of-nobody": "x"}},
    ],
    ids=[
        "a label of the user's own",
        "a snooze",
        "a wish for exemption",
        "a dropped requester",
        "a key that means nothing",
    ],
)
@pytest.mark.parametrize("subresource", ["", "/status"], ids=["pods", "pods/status"])
def test_other_writes_pass(pods: str, mallory: Any, metadata: dict[str, Any], subresource: str) -> None:
    """What is no term stays everybody's own."""
    assert mallory.patch(f"{pods}/termed{subresource}", {"metadata": metadata}).status == 200


def test_a_status_report_passes(pods: str, mallory: Any) -> None:
    """Conditions and phases are written as ever."""
    body = {"status": {"conditions": [{"type": "example.com/x", "status": "True"}]}}
    assert mallory.patch(f"{pods}/termed/status", body, "strategic").status == 200


@pytest.mark.parametrize("name", ["termed", "plain"], ids=["changed", "set"])
def test_the_requester_can_neither_be_changed_nor_set(pods: str, mallory: Any, name: str) -> None:
    """Only its removal passes."""
    reply = mallory.patch(f"{pods}/{name}", {"metadata": {"annotations": {REQUESTER: "somebody else"}}})
    assert refused(reply, "pods")
    assert "may be removed, but not set or changed" in reply.json["message"]


@pytest.mark.parametrize("subresource", ["", "/status"], ids=["pods", "pods/status"])
def test_the_terms_right_lets_everything_pass(
    pods: str, writer: Callable[[str], Any], subresource: str
) -> None:
    """Whoever may update terms.gpu-tenure.io changes and removes what he likes."""
    labels = dict.fromkeys(LABELS)
    annotations = dict.fromkeys([*ANNOTATIONS, REQUESTER], "new")
    body = {"metadata": {"labels": labels, "annotations": annotations}}
    assert writer("terms-admin").patch(f"{pods}/termed{subresource}", body).status == 200


def test_the_terms_right_counts_in_its_namespace_only(
    sandbox: Sandbox, make_namespace: Callable[..., str], writer: Callable[[str], Any]
) -> None:
    """A RoleBinding in one namespace opens no other."""
    inside, outside = make_namespace(), make_namespace()
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gpu-tenure-terms-admin"}
    body = {"metadata": {"name": "terms"}, "roleRef": role, "subjects": [subject]}
    sandbox.api().create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{inside}/rolebindings", body)
    replies = {}
    for name in (inside, outside):
        path = f"/api/v1/namespaces/{name}/pods"
        sandbox.api().create(path, pod("p"))
        replies[name] = writer("mallory").patch(f"{path}/p", {"metadata": {"labels": {Label.CLASS: "x"}}})
    assert replies[inside].status == 200
    assert refused(replies[outside], "pods")


def test_excluded_namespaces_are_left_alone(sandbox: Sandbox, mallory: Any) -> None:
    """In kube-system nobody asks for a right of ours."""
    path = "/api/v1/namespaces/kube-system/pods"
    sandbox.api().create(path, pod("left-alone"))
    assert mallory.patch(f"{path}/left-alone", {"metadata": {"labels": {Label.CLASS: "x"}}}).status == 200


def binding(name: str, **metadata: Any) -> dict[str, Any]:
    """A binding of a pod to the only node."""
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": "node-a"}}


@pytest.fixture
def bind(sandbox: Sandbox, namespace: str) -> Callable[..., Reply]:
    """Makes a pod that nobody schedules and binds it through the given path."""

    def call(who: Any, path: str, name: str, **metadata: Any) -> Reply:
        base = f"/api/v1/namespaces/{namespace}"
        sandbox.api().create(f"{base}/pods", unscheduled(name))
        path = f"{base}/pods/{name}/binding" if path == "pods/binding" else f"{base}/bindings"
        reply: Reply = who.send("POST", path, binding(name, **metadata))
        return reply

    return call


@pytest.mark.parametrize("path", ["pods/binding", "bindings"])
@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize("key", [*LABELS, *ANNOTATIONS, REQUESTER])
def test_a_binding_carries_no_terms(
    bind: Callable[..., Reply], mallory: Any, path: str, place: str, key: str
) -> None:
    """What a binding carries would land on the pod."""
    reply = bind(mallory, path, "p", **{place: {key: "x"}})
    assert refused(reply, "bindings"), reply.text
    assert key in reply.json["message"]


@pytest.mark.parametrize("path", ["pods/binding", "bindings"])
def test_bindings_of_other_schedulers_pass(bind: Callable[..., Reply], mallory: Any, path: str) -> None:
    """A binding without metadata, and one with others' keys, is none of our business."""
    assert bind(mallory, path, "bare").status == 201
    assert bind(mallory, path, "labelled", labels={"rack": "7"}, annotations={"a.b/c": "d"}).status == 201


@pytest.mark.parametrize("path", ["pods/binding", "bindings"])
def test_a_scheduler_that_echoes_annotations_passes(
    bind: Callable[..., Reply], writer: Callable[[str], Any], sandbox: Sandbox, path: str
) -> None:
    """The chart gives Volcano's account the terms right."""
    volcano = "system:serviceaccount:volcano-system:volcano-scheduler"
    subject = {"kind": "ServiceAccount", "namespace": "volcano-system", "name": "volcano-scheduler"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all-but-ours"}
    sandbox.api().raw(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {"metadata": {"name": "volcano"}, "roleRef": role, "subjects": [subject]},
    )
    reply = bind(writer(volcano), path, "p", annotations={Annotation.DEADLINE: "injected"})
    assert reply.status == 201


def test_ordinary_pods_are_scheduled(sandbox: Sandbox, namespace: str) -> None:
    """The scheduler of the cluster and the node need nothing from us."""
    sandbox.api().create(f"/api/v1/namespaces/{namespace}/pods", pod("p"))
    assert sandbox.api().wait_running(namespace, "p")["spec"]["nodeName"] == "node-a"


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_very_many_keys_cost_nothing(sandbox: Sandbox, namespace: str, mallory: Any, place: str) -> None:
    """60,000 labels, or as many annotations as fit, neither get past the guard nor slow it.

    The yardstick is the same write where the guard does not look.
    """
    count = 60_000 if place == "labels" else 25_000
    many = {f"k{number}": "" for number in range(count)}
    seconds = {}
    for space in (namespace, "kube-system"):
        path = f"/api/v1/namespaces/{space}/pods"
        body = json.dumps(unscheduled(f"many-{place}", **{place: many}))
        api = sandbox.api()
        with api._session.post(api.server + path, data=body, timeout=60, stream=True) as answer:
            assert answer.status_code == 201
        seconds[space] = min(_timed(mallory, f"{path}/many-{place}") for _ in range(2))
    reply = mallory.patch(
        f"/api/v1/namespaces/{namespace}/pods/many-{place}", {"metadata": {"labels": {Label.CLASS: "x"}}}
    )
    assert refused(reply, "pods")
    # A loop over the keys takes more than half a minute where the yardstick takes one second.
    assert seconds[namespace] < 5 * seconds["kube-system"] + 5


def _timed(who: Any, path: str) -> float:
    """Seconds of one write until the first byte of the answer, which is too large to read each time."""
    api = who.sandbox.api()
    headers = {"Impersonate-User": who.user, "Content-Type": PATCH_TYPES["merge"]}
    started = time.monotonic()
    body = json.dumps({"metadata": {"annotations": {"x": str(started)}}})
    with api._session.patch(api.server + path, data=body, headers=headers, timeout=90, stream=True) as answer:
        assert answer.status_code == 200
    return time.monotonic() - started
