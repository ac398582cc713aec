"""The guard of deadlines on kinds of other projects that end by a field of their own, on a real server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from policy.keys import Annotation
from policy.workloads import WORKLOADS, WorkloadKind
from sandbox.api import Reply
from sandbox.cluster import Sandbox
from tests.manifests.conftest import Render

DEADLINE = str(Annotation.DEADLINE)
BOUNDED = [kind for kind in WORKLOADS if kind.deadline]
VERSIONS = {"rayjobs": "v1", "pytorchjobs": "v1", "workflows": "v1alpha1"}
"""Those of which the tests have schemas."""
Object = dict[str, Any]


@pytest.fixture(scope="module")
def kinds(sandbox: Sandbox, install_kinds: Callable[[Sandbox], None]) -> None:
    """The kinds of other projects are there."""
    install_kinds(sandbox)


def spec_of(kind: WorkloadKind, seconds: int | None) -> Object:
    """A specification, or a merge patch of one, with this deadline."""
    spec: Object = {"pytorchReplicaSpecs": {}} if kind.kind == "PyTorchJob" else {}
    *above, last = str(kind.deadline).removeprefix("spec.").split(".")
    inner = spec
    for key in above:
        inner = inner.setdefault(key, {})
    inner[last] = seconds
    return spec


@pytest.fixture
def make(sandbox: Sandbox, namespace: str) -> Callable[..., str]:
    """Creates a workload and gives its path."""

    def call(kind: WorkloadKind, note: str | None, seconds: int | None) -> str:
        version = f"{kind.group}/{VERSIONS[kind.resource]}"
        path = f"/apis/{version}/namespaces/{namespace}/{kind.resource}"
        annotations = {} if note is None else {DEADLINE: note}
        metadata = {"name": "w", "annotations": annotations}
        body = {"apiVersion": version, "kind": kind.kind, "metadata": metadata}
        sandbox.api().create(path, {**body, "spec": spec_of(kind, seconds)})
        return f"{path}/w"

    return call


def refused(reply: Reply) -> bool:
    """Whether the guard refused."""
    return reply.status == 403 and "'gpu-tenure-guard-jobs'" in reply.text


@pytest.mark.usefixtures("enforce", "kinds")
@pytest.mark.parametrize(
    "kind", [kind for kind in BOUNDED if kind.resource in VERSIONS], ids=lambda kind: kind.kind
)
def test_a_deadline_of_ours_only_falls(
    make: Callable[..., str], mallory: Any, writer: Callable[[str], Any], kind: WorkloadKind
) -> None:
    """It is neither raised nor removed, nor is the note that says whose it is; an administrator may."""
    path = make(kind, "injected", 3600)
    for seconds, allowed in ((3601, False), (None, False), (1800, True)):
        reply = mallory.patch(path, {"spec": spec_of(kind, seconds)})
        assert refused(reply) is not allowed, reply.text
        assert allowed or f"This {kind.kind} has a deadline: {kind.deadline} may be lowered" in reply.text
        assert not allowed or reply.status == 200
    for note in (None, "none: ClassNotBatch"):
        assert refused(mallory.patch(path, {"metadata": {"annotations": {DEADLINE: note}}}))
    assert mallory.patch(path, {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert writer("terms-admin").patch(path, {"spec": spec_of(kind, 7200)}).status == 200


@pytest.mark.usefixtures("enforce", "kinds")
@pytest.mark.parametrize(
    ("note", "seconds"),
    [(None, 3600), ("would-inject", 3600), ("injected", None)],
    ids=["nobody wrote a note", "a deadline was only announced", "an administrator took ours away"],
)
def test_other_deadlines_are_the_users(
    make: Callable[..., str], mallory: Any, note: str | None, seconds: int | None
) -> None:
    """Where enforcement is off, and where an administrator took ours away."""
    kind = next(kind for kind in BOUNDED if kind.kind == "RayJob")
    assert mallory.patch(make(kind, note, seconds), {"spec": spec_of(kind, 7200)}).status == 200


def test_every_kind_with_a_field_of_its_own_is_guarded(render: Render) -> None:
    """The table of kinds says which they are."""
    guards = {one["metadata"]["name"]: one for one in render() if one["kind"] == "ValidatingAdmissionPolicy"}
    rules = guards["gpu-tenure-guard-jobs"]["spec"]["matchConstraints"]["resourceRules"]
    found = {(rule["apiGroups"][0], name) for rule in rules for name in rule["resources"]}
    jobs = {("batch", "jobs"), ("batch", "jobs/status")}
    assert found == {(kind.group, kind.resource) for kind in BOUNDED} | jobs
    fields = {kind.deadline for kind in BOUNDED if kind.group == "kubeflow.org"}
    assert fields == {"spec.runPolicy.activeDeadlineSeconds"}
    assert {kind.deadline for kind in BOUNDED} - fields == {"spec.activeDeadlineSeconds"}
