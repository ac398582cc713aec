"""The guard of Kueue's limit, on a real API server: what waits in a queue keeps the end that it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from policy.keys import KUEUE_MAX_EXEC_TIME, KUEUE_QUEUE_NAME, Annotation
from policy.workloads import WORKLOADS
from sandbox.api import Reply
from sandbox.cluster import Sandbox
from tests.manifests.conftest import Render

DEADLINE = str(Annotation.DEADLINE)
KUEUE = "none: Kueue"
SPEC = {"schedulerName": "by-hand", "containers": [{"name": "c", "image": "i"}]}
SPECS: dict[str, dict[str, Any]] = {
    "api/v1/pods": {**SPEC, "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
    "apis/batch/v1/jobs": {"suspend": True, "template": {"spec": {**SPEC, "restartPolicy": "Never"}}},
    "apis/kubeflow.org/v1/pytorchjobs": {"pytorchReplicaSpecs": {}},
}


@pytest.fixture(scope="module")
def kinds(sandbox: Sandbox, install_kinds: Callable[[Sandbox], None]) -> None:
    """The kinds of other projects are there."""
    install_kinds(sandbox)


@pytest.fixture
def make(
    sandbox: Sandbox, make_namespace: Callable[..., str], request: pytest.FixtureRequest
) -> Callable[..., str]:
    """Creates an object that waits, and gives its path."""
    request.getfixturevalue("enforce")
    request.getfixturevalue("kinds")

    def call(place: str, note: str = KUEUE, limit: str = "600", **labels: str) -> str:
        root, _, plural = place.rpartition("/")
        path = f"/{root}/namespaces/{make_namespace(labels)}/{plural}"
        queued = {KUEUE_QUEUE_NAME: "q", KUEUE_MAX_EXEC_TIME: limit}
        body: dict[str, Any] = {"metadata": {"name": "w", "labels": queued, "annotations": {DEADLINE: note}}}
        if plural == "pytorchjobs":
            body |= {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
        sandbox.api().create(path, {**body, "spec": SPECS[place]})
        return f"{path}/w"

    return call


def refused(reply: Reply) -> bool:
    """Whether the guard refused; anything else must have worked."""
    if reply.status == 200:
        return False
    assert "'gpu-tenure-guard-queues'" in reply.text, reply.text
    return reply.status == 403


def labels(**values: str | None) -> dict[str, Any]:
    """A merge patch of Kueue's labels: `limit` and `queue`."""
    keys = {"limit": KUEUE_MAX_EXEC_TIME, "queue": KUEUE_QUEUE_NAME}
    return {"metadata": {"labels": {keys[name]: value for name, value in values.items()}}}


@pytest.mark.parametrize("place", SPECS)
def test_what_waits_keeps_its_end(
    make: Callable[..., str], mallory: Any, writer: Callable[[str], Any], sandbox: Sandbox, place: str
) -> None:
    """The limit only falls, and no object leaves its queue; another queue is no way out."""
    path = make(place)
    sandbox.api().wait(
        lambda: refused(mallory.patch(f"{path}?dryRun=All", labels(limit=None))), 20, "the guard is there"
    )
    for change in (
        labels(limit="601"),
        labels(limit="x"),
        labels(queue=None),
        labels(queue=None, limit=None),
    ):
        assert refused(mallory.patch(f"{path}?dryRun=All", change)), change
    for change in (labels(limit="599"), labels(queue="other"), {"metadata": {"labels": {"a": "b"}}}):
        assert not refused(mallory.patch(f"{path}?dryRun=All", change)), change
    assert not refused(writer("terms-admin").patch(path, labels(limit="9000", queue=None)))


@pytest.mark.parametrize(
    ("note", "limit", "namespace_labels"),
    [
        pytest.param("injected", "600", {}, id="a deadline of another kind"),
        pytest.param(KUEUE, "soon", {}, id="no limit that Kueue reads"),
        pytest.param(KUEUE, "600", {"gpu-tenure.io/enforcement": "dry-run"}, id="a namespace on trial"),
    ],
)
def test_other_limits_are_the_users(
    make: Callable[..., str], mallory: Any, note: str, limit: str, namespace_labels: dict[str, str]
) -> None:
    """They were not written by us."""
    path = make("apis/batch/v1/jobs", note, limit, **namespace_labels)
    assert not refused(mallory.patch(path, labels(limit="9000")))


def test_the_guard_covers_what_has_a_deadline_of_its_own(render: Render) -> None:
    """They are those that carry the note that says `none: Kueue`; else nothing is ours."""
    found = {
        profile: [
            one
            for one in render({"profile": profile})
            if one["metadata"]["name"] == "gpu-tenure-guard-queues" and "matchConstraints" in one["spec"]
        ]
        for profile in ("observe", "warn", "enforce")
    }
    assert found["observe"] == found["warn"] == []
    (guard,) = found["enforce"]
    rules = guard["spec"]["matchConstraints"]["resourceRules"]
    resources = {(rule["apiGroups"][0], name) for rule in rules for name in rule["resources"]}
    own = {(kind.group, kind.resource) for kind in WORKLOADS if kind.deadline}
    assert resources == own | {("", "pods"), ("", "pods/status"), ("batch", "jobs"), ("batch", "jobs/status")}
