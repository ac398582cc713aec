"""Which updates of pods and which workloads the API server has checked, told by a server that records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.api import Reply
from sandbox.cluster import Sandbox

Object = dict[str, Any]
Create = Callable[..., Reply]
Asked = list[tuple[str, str]]
GPU = {"limits": {"nvidia.com/gpu": "1"}}
LABELS = {"a": "b"}


def pod(resources: Object) -> Object:
    """A pod that no scheduler touches, with an init container."""
    container = {"name": "c", "image": "old", "resources": resources}
    spec = {"containers": [container], "initContainers": [{"name": "i", "image": "old"}]}
    return {"metadata": {"name": "p"}, "spec": {**spec, "schedulerName": "by-hand"}}


@pytest.fixture
def change(asked: Asked, sandbox: Sandbox, namespace: str, mallory: Any) -> Callable[..., Asked]:
    """Creates a pod, changes it, and gives what was asked about the change."""

    def call(resources: Object, patch: Object, subresource: str = "") -> Asked:
        path = f"/api/v1/namespaces/{namespace}/pods"
        sandbox.api().create(path, pod(resources))
        asked.clear()
        reply = mallory.patch(f"{path}/p{subresource}", patch, "strategic")
        assert reply.status == 200, reply.text
        return asked

    return call


NEW_IMAGE = {"name": "c", "image": "new"}
CHANGES: dict[str, tuple[Object, str]] = {
    "an image": ({"spec": {"containers": [NEW_IMAGE]}}, ""),
    "the image of an init container": ({"spec": {"initContainers": [{"name": "i", "image": "new"}]}}, ""),
    "an ephemeral container": (
        {"spec": {"ephemeralContainers": [{"name": "d", "image": "new"}]}},
        "/ephemeralcontainers",
    ),
}
OTHERS: dict[str, tuple[Object, str]] = {
    "a label": ({"metadata": {"labels": LABELS}}, ""),
    "an annotation": ({"metadata": {"annotations": LABELS}}, ""),
    "the same image": ({"spec": {"containers": [{"name": "c", "image": "old"}]}}, ""),
    "a deadline": ({"spec": {"activeDeadlineSeconds": 60}}, ""),
    "a status": ({"status": {"reason": "x"}}, "/status"),
    "no ephemeral container": ({"spec": {"ephemeralContainers": []}}, "/ephemeralcontainers"),
    "more cpu": (
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}},
        "/resize",
    ),
}


@pytest.mark.parametrize(("patch", "subresource"), CHANGES.values(), ids=CHANGES)
def test_new_images_of_gpu_pods_are_checked(
    change: Callable[..., Asked], patch: Object, subresource: str
) -> None:
    """Once, by the validating configuration."""
    assert change(GPU, patch, subresource) == [("/validate", "Pod/p")]


@pytest.mark.parametrize(("patch", "subresource"), CHANGES.values(), ids=CHANGES)
def test_other_pods_change_their_images_freely(
    change: Callable[..., Asked], patch: Object, subresource: str
) -> None:
    """Nobody waits for us."""
    assert change({}, patch, subresource) == []


@pytest.mark.parametrize(("patch", "subresource"), OTHERS.values(), ids=OTHERS)
def test_other_updates_are_not_seen(
    asked: Asked, sandbox: Sandbox, namespace: str, mallory: Any, patch: Object, subresource: str
) -> None:
    """Whether the API server accepts them or not."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    sandbox.api().create(path, pod(GPU))
    asked.clear()
    mallory.patch(f"{path}/p{subresource}", patch, "strategic")
    assert asked == []


def workload(resources: Object, **spec: Any) -> Object:
    """A workload of pods with these resources."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": pod(resources)["spec"]["containers"]}}
    return {
        "metadata": {"name": "w"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


@pytest.mark.parametrize(("resources", "checked"), [(GPU, 1), ({}, 0)], ids=["GPUs", "no GPUs"])
@pytest.mark.parametrize("kind", ["deployments", "replicasets", "daemonsets", "statefulsets"])
def test_workloads_are_checked_where_they_make_gpu_pods(
    asked: Asked, create: Create, kind: str, resources: Object, checked: int
) -> None:
    """Once, beside what the mutating configuration asks."""
    more = {"serviceName": "s"} if kind == "statefulsets" else {}
    reply = create(workload(resources, **more), resource=f"/apis/apps/v1|{kind}")
    assert reply.status == 201, reply.text
    assert [path for path, _ in asked].count("/validate") == checked


def test_what_controllers_make_is_not_checked(asked: Asked, sandbox: Sandbox, namespace: str) -> None:
    """Its sender was asked about with the workload; the pods themselves are checked."""
    path = f"/apis/apps/v1/namespaces/{namespace}"
    sandbox.api().create(f"{path}/deployments", workload(GPU, replicas=1))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    sandbox.api().wait(lambda: sandbox.api().list(pods), 20, "the pod is made")
    checked = [name.partition("/")[0] for way, name in asked if way == "/validate"]
    assert sorted(checked) == ["Deployment", "Pod"]


def test_updates_of_workloads_are_not_seen(
    asked: Asked, sandbox: Sandbox, namespace: str, mallory: Any
) -> None:
    """Nothing that runs ever hangs on us."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    sandbox.api().create(path, workload(GPU, replicas=0))
    asked.clear()
    assert mallory.patch(f"{path}/w", {"spec": {"replicas": 0, "paused": True}}).status == 200
    assert [name for _, name in asked if name.startswith("Deployment")] == []


def test_both_configurations_see_the_same_kinds(render: Callable[..., list[Object]]) -> None:
    """What is created as a GPU object is both completed and checked."""
    seen: dict[str, set[tuple[str, str]]] = {}
    for obj in render():
        for webhook in obj.get("webhooks", []):
            for rule in webhook["rules"]:
                if rule["operations"] == ["CREATE"]:
                    pairs = {(group, name) for group in rule["apiGroups"] for name in rule["resources"]}
                    seen.setdefault(obj["kind"], set()).update(pairs)
    assert seen["MutatingWebhookConfiguration"] == seen["ValidatingWebhookConfiguration"]
