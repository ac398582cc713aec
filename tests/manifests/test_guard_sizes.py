"""The guards and objects with very many labels or annotations: none gets past, and none takes its time.

The yardstick is the same write where the guard does not look.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from policy.keys import Annotation, Label, NamespaceLabel
from sandbox.api import Reply
from sandbox.cluster import Sandbox

MANY = {f"k{number}": "" for number in range(20_000)}
_numbers = itertools.count(1)
Object = dict[str, Any]

pytestmark = pytest.mark.usefixtures("enforce")


def refused(reply: Reply, guard: str) -> bool:
    """Whether this guard refused."""
    return reply.status in {403, 422} and f"'gpu-tenure-guard-{guard}'" in reply.text


def seconds_of(call: Callable[[], Reply], status: int) -> float:
    """The quicker of two calls that answer with this status."""
    times = []
    for _ in range(2):
        started = time.monotonic()
        reply = call()
        times.append(time.monotonic() - started)
        assert reply.status == status, reply.text[:300]
    return min(times)


def test_a_job_with_very_many_labels(sandbox: Sandbox, namespace: str, mallory: Any) -> None:
    """Its deadline stays, and other changes cost what they always do."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": "many", "labels": MANY, "annotations": {Annotation.DEADLINE: "injected"}}
    body = {
        "metadata": metadata,
        "spec": {"suspend": True, "template": template, "activeDeadlineSeconds": 60},
    }
    seconds = {}
    change = {"metadata": {"annotations": {"a": "b"}}}
    for space in (namespace, "kube-system"):
        path = f"/apis/batch/v1/namespaces/{space}/jobs"
        assert sandbox.api().raw("POST", path, body).status == 201
        seconds[space] = seconds_of(lambda path=path: mallory.patch(f"{path}/many", change), 200)  # type: ignore[misc]
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/many"
    assert refused(mallory.patch(path, {"spec": {"activeDeadlineSeconds": 90}}), "jobs")
    assert refused(mallory.patch(path, {"metadata": {"annotations": {Annotation.DEADLINE: None}}}), "jobs")
    assert seconds[namespace] < 3 * seconds["kube-system"] + 1


def test_a_namespace_with_very_many_labels(sandbox: Sandbox, mallory: Any) -> None:
    """It opts out no sooner than another."""
    name = f"many-{next(_numbers)}"
    body = {"metadata": {"name": name, "labels": MANY}}
    assert sandbox.api().raw("POST", "/api/v1/namespaces", body).status == 201
    path = f"/api/v1/namespaces/{name}"
    change = {"metadata": {"labels": {NamespaceLabel.ENFORCEMENT: "disabled"}}}
    assert refused(mallory.patch(path, change), "namespaces")
    plain = seconds_of(lambda: mallory.patch(f"{path}?dryRun=All", {"metadata": {"labels": {"a": "b"}}}), 200)
    few = {"metadata": {"labels": {"a": "b"}}}
    unguarded = seconds_of(lambda: mallory.patch("/api/v1/namespaces/kube-system?dryRun=All", few), 200)
    assert plain < 3 * unguarded + 5
    sandbox.api().raw("DELETE", path)


@pytest.mark.parametrize("path", ["pods/binding", "bindings"])
def test_a_binding_with_very_many_annotations(
    sandbox: Sandbox, namespace: str, mallory: Any, path: str
) -> None:
    """A key of ours among thousands is found."""
    base = f"/api/v1/namespaces/{namespace}"
    spec = {"schedulerName": "by-hand", "containers": [{"name": "c", "image": "i"}]}
    sandbox.api().create(f"{base}/pods", {"metadata": {"name": "p"}, "spec": spec})
    annotations = {f"k{number}": "" for number in range(10_000)} | {Annotation.DEADLINE: "kept"}
    body = {
        "metadata": {"name": "p", "annotations": annotations},
        "target": {"kind": "Node", "name": "node-a"},
    }
    target = f"{base}/pods/p/binding" if path == "pods/binding" else f"{base}/bindings"
    started = time.monotonic()
    assert refused(mallory.send("POST", target, body), "bindings")
    assert time.monotonic() - started < 10


def test_a_selector_with_very_many_labels(namespace: str, mallory: Any) -> None:
    """A label of ours among thousands is found."""
    labels = {f"k{number}": "" for number in range(5_000)} | {str(Label.CLASS): "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets?dryRun=All"
    started = time.monotonic()
    assert refused(mallory.send("POST", path, {"metadata": {"name": "r"}, "spec": spec}), "selectors")
    assert time.monotonic() - started < 20
