"""The guard of namespaces, on a real API server, with no process of ours running."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from policy.keys import NamespaceLabel
from sandbox.api import Reply
from sandbox.cluster import Sandbox

NAMESPACES = "/api/v1/namespaces"
LABELS = [*NamespaceLabel]
ENFORCEMENT = NamespaceLabel.ENFORCEMENT
_numbers = itertools.count(1)

pytestmark = pytest.mark.usefixtures("enforce")


def refused(reply: Reply) -> bool:
    """Whether the guard of namespaces refused."""
    return reply.status == 403 and "'gpu-tenure-guard-namespaces'" in reply.json["message"]


def relabel(who: Any, sandbox: Sandbox, name: str, path: str, labels: dict[str, str | None]) -> Reply:
    """Changes labels through one of the three paths; the last takes whole objects only."""
    if path != "namespaces/finalize":
        subresource = path.removeprefix("namespaces")
        reply: Reply = who.patch(f"{NAMESPACES}/{name}{subresource}", {"metadata": {"labels": labels}})
        return reply
    body = sandbox.api().get(f"{NAMESPACES}/{name}")
    merged = {**body["metadata"]["labels"], **labels}
    body["metadata"]["labels"] = {key: value for key, value in merged.items() if value is not None}
    replaced: Reply = who.send("PUT", f"{NAMESPACES}/{name}/finalize", body)
    return replaced


@pytest.fixture
def labelled(make_namespace: Callable[..., str]) -> str:
    """A namespace in dry-run with a policy and a quota of its own."""
    return make_namespace({ENFORCEMENT: "dry-run", NamespaceLabel.POLICY: "a", NamespaceLabel.QUOTA: "b"})


@pytest.mark.parametrize("path", ["namespaces", "namespaces/status", "namespaces/finalize"])
@pytest.mark.parametrize("key", LABELS)
def test_labels_cannot_be_changed_removed_or_added(
    sandbox: Sandbox, namespace: str, labelled: str, mallory: Any, path: str, key: str
) -> None:
    """Whoever may write namespaces still may not choose which rules hold in them."""
    for name, value in ((labelled, "enabled"), (labelled, None), (namespace, "disabled")):
        reply = relabel(mallory, sandbox, name, path, {key: value})
        assert refused(reply), (value, reply.text)
        assert key in reply.json["message"]
        assert "enforcement.gpu-tenure.io" in reply.json["message"]


@pytest.mark.parametrize("path", ["namespaces", "namespaces/status", "namespaces/finalize"])
def test_other_labels_pass(sandbox: Sandbox, labelled: str, mallory: Any, path: str) -> None:
    """The guard knows three labels and no other."""
    labels = {"team": "a", "gpu-tenure.io/note": "x"}
    assert relabel(mallory, sandbox, labelled, path, labels).status == 200


@pytest.mark.parametrize("path", ["namespaces", "namespaces/status", "namespaces/finalize"])
@pytest.mark.parametrize("key", LABELS)
def test_the_enforcement_right_lets_them_pass(
    sandbox: Sandbox,
    namespace: str,
    labelled: str,
    writer: Callable[[str], Any],
    path: str,
    key: str,
) -> None:
    """Its holder sets, changes and removes each of them."""
    for name, value in ((labelled, "enabled"), (labelled, None), (namespace, "disabled")):
        assert relabel(writer("enforcement-admin"), sandbox, name, path, {key: value}).status == 200


def test_the_right_counts_cluster_wide_only(sandbox: Sandbox, namespace: str, mallory: Any) -> None:
    """A RoleBinding in the namespace, which its own administrator could make, is worth nothing here."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}
    role = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "gpu-tenure-enforcement-admin",
    }
    body = {"metadata": {"name": "enforcement"}, "roleRef": role, "subjects": [subject]}
    sandbox.api().create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", body)
    assert refused(relabel(mallory, sandbox, namespace, "namespaces", {ENFORCEMENT: "disabled"}))


def test_the_terms_right_is_not_enough(
    sandbox: Sandbox, namespace: str, writer: Callable[[str], Any]
) -> None:
    """Whoever may change terms may not therefore opt a namespace out."""
    reply = relabel(writer("terms-admin"), sandbox, namespace, "namespaces", {ENFORCEMENT: "disabled"})
    assert refused(reply)


def test_an_ordinary_developer_cannot_opt_out(sandbox: Sandbox, namespace: str) -> None:
    """With the role `admin` in the namespace RBAC itself refuses, without asking any guard."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dev-a"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    body = {"metadata": {"name": "admin"}, "roleRef": role, "subjects": [subject]}
    sandbox.api().create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", body)
    patch = {"metadata": {"labels": {ENFORCEMENT: "disabled"}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    assert sandbox.api("dev-a").raw("PATCH", f"{NAMESPACES}/{namespace}", patch, headers).status == 403


@pytest.fixture
def create(sandbox: Sandbox) -> Iterator[Callable[..., Reply]]:
    """Creates namespaces as somebody, and removes them."""
    made: list[str] = []

    def call(who: Any, labels: dict[str, str] | None) -> Reply:
        name = f"created-{next(_numbers)}"
        made.append(name)
        metadata = {"name": name} if labels is None else {"name": name, "labels": labels}
        reply: Reply = who.send("POST", NAMESPACES, {"metadata": metadata})
        return reply

    yield call
    for name in made:
        sandbox.api().raw("DELETE", f"{NAMESPACES}/{name}")


@pytest.mark.parametrize("key", LABELS)
def test_a_namespace_is_not_born_with_them(
    create: Callable[..., Reply], mallory: Any, writer: Callable[[str], Any], key: str
) -> None:
    """On CREATE the right is needed as on UPDATE."""
    assert refused(create(mallory, {key: "disabled"}))
    assert create(writer("enforcement-admin"), {key: "disabled"}).status == 201


@pytest.mark.parametrize("labels", [None, {}, {"team": "a"}], ids=["absent", "empty", "others"])
def test_ordinary_namespaces_are_created(
    create: Callable[..., Reply], mallory: Any, labels: dict[str, str] | None
) -> None:
    """Whatever the labels look like."""
    assert create(mallory, labels).status == 201


def test_a_generated_name_passes(mallory: Any) -> None:
    """A namespace whose name the API server makes up is guarded and created like any other."""
    path = f"{NAMESPACES}?dryRun=All"
    metadata: dict[str, Any] = {"generateName": "made-up-"}
    assert mallory.send("POST", path, {"metadata": metadata}).status == 201
    assert refused(
        mallory.send("POST", path, {"metadata": {**metadata, "labels": {ENFORCEMENT: "disabled"}}})
    )


@pytest.mark.parametrize("value", ["off", "", "Disabled", "enforce"])
def test_no_other_value_can_be_set(sandbox: Sandbox, namespace: str, value: str) -> None:
    """Not even by the administrator, on CREATE or UPDATE."""
    patch = {"metadata": {"labels": {ENFORCEMENT: value}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    reply = sandbox.api().raw("PATCH", f"{NAMESPACES}/{namespace}", patch, headers)
    assert reply.status == 422
    assert "must be enabled, dry-run or disabled" in reply.json["message"]
    body = {"metadata": {"name": "odd", "labels": {ENFORCEMENT: value}}}
    assert sandbox.api().raw("POST", f"{NAMESPACES}?dryRun=All", body).status == 422


def test_a_value_from_before_the_guard_blocks_nothing(sandbox: Sandbox, namespace: str, mallory: Any) -> None:
    """A namespace that carries an odd value already can be written, repaired and deleted."""
    guard = (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/gpu-tenure-guard-namespaces"
    )
    api = sandbox.api()
    binding = api.get(guard)
    odd = {"metadata": {"labels": {ENFORCEMENT: "off"}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    api.delete(guard)
    try:
        path = f"{NAMESPACES}/{namespace}"
        api.wait(lambda: api.raw("PATCH", path, odd, headers).status == 200, 10, "nobody guards namespaces")
    finally:
        metadata = {key: binding["metadata"][key] for key in ("name", "labels", "annotations")}
        api.create(guard.rpartition("/")[0], {"metadata": metadata, "spec": binding["spec"]})
    other = {"metadata": {"labels": {ENFORCEMENT: "out"}}}
    dry = f"{path}?dryRun=All"
    api.wait(lambda: api.raw("PATCH", dry, other, headers).status == 422, 10, "namespaces are guarded again")
    assert relabel(mallory, sandbox, namespace, "namespaces", {"team": "a"}).status == 200
    assert relabel(mallory, sandbox, namespace, "namespaces/finalize", {"team": "b"}).status == 200
    api.delete_namespace(namespace)
    assert api.find(path) is None
