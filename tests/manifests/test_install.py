"""The chart installed, changed and removed by Helm on a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from policy.keys import Label, NamespaceLabel
from sandbox.cluster import Sandbox

OWN = "gpu-tenure-system"
NAMESPACES = "/api/v1/namespaces"
PAUSE = f"{NAMESPACES}/{OWN}/configmaps/gpu-tenure-pause"
POLICY = "/apis/gpu-tenure.io/v1alpha1/gpupolicies/default"
GUARDS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
CORE, APPS, BATCH, OURS = "", "apps", "batch", "gpu-tenure.io"

VALUES: dict[str, dict[str, Any]] = {
    "observe": {"profile": "observe"},
    "warn": {"profile": "warn"},
    "enforce": {"profile": "enforce"},
    "with Deployments": {"deployments": {"enabled": True}, "webhook": {"url": ""}, "tls": {"caBundle": ""}},
    "other namespaces": {"excludedNamespaces": ["kube-system"], "reaper": {"ownerResources": []}},
    "schedulers by name": {"schedulers": ["volcano", "system:serviceaccount:a:b"]},
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_server_accepts_every_object(sandbox: Sandbox, release: Any, values: dict[str, Any]) -> None:
    """Helm's upgrade succeeds, and the API server finds nothing to remark in any expression."""
    release.set(**values)
    guards = sandbox.api().list(GUARDS)
    assert len(guards) == (9 if values.get("profile") == "enforce" else 8)

    def checked() -> bool:
        status = [guard.get("status", {}) for guard in sandbox.api().list(GUARDS)]
        return all(
            one.get("observedGeneration") == guard["metadata"]["generation"]
            for one, guard in zip(status, sandbox.api().list(GUARDS), strict=True)
        )

    sandbox.api().wait(checked, 20, "the API server has checked the types of every guard")
    for guard in sandbox.api().list(GUARDS):
        assert guard["status"]["typeChecking"] == {}, guard["metadata"]["name"]


def test_kubectl_can_apply_what_helm_renders(
    sandbox: Sandbox, release: Any, render: Callable[..., Any]
) -> None:
    """Also with the namespace; the policies need their definition first, which the release has made."""
    release.set(profile="enforce")
    values = {"profile": "enforce", "namespace": {"create": True}, "webhook": {"url": "https://127.0.0.1:1"}}
    objects: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": render(values)}
    done = sandbox.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-"),
        stdin=json.dumps(objects),
    )
    assert done.stdout.count("serverside-applied") == len(objects["items"])


def test_observe_warns_where_it_does_not_refuse(
    sandbox: Sandbox, release: Any, namespace: str, mallory: Any
) -> None:
    """A change of terms passes with a warning; namespaces and selectors are refused all the same."""
    release.set(profile="observe")
    path = f"{NAMESPACES}/{namespace}/pods"
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    sandbox.api().create(path, body)
    reply = mallory.patch(f"{path}/p", {"metadata": {"labels": {Label.IDLE_AFTER: "9h"}}})
    assert reply.status == 200
    assert any("A pod keeps the terms it was created with" in warning for warning in reply.warnings)
    opted_out = {"metadata": {"labels": {NamespaceLabel.ENFORCEMENT: "disabled"}}}
    assert mallory.patch(f"{NAMESPACES}/{namespace}", opted_out).status == 403
    selector = {"matchLabels": {Label.CLASS: "batch"}}
    template = {"metadata": {"labels": selector["matchLabels"]}, "spec": body["spec"]}
    workload = {"metadata": {"name": "w"}, "spec": {"selector": selector, "template": template}}
    reply = mallory.send("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All", workload)
    assert reply.status == 422


def test_an_upgrade_ends_no_pause(sandbox: Sandbox, release: Any) -> None:
    """What somebody stopped stays stopped until somebody starts it."""
    api = sandbox.api()
    release.set(profile="enforce")
    assert api.get(PAUSE)["data"]["paused"] == "false"
    api.patch(PAUSE, {"data": {"paused": "true", "reason": "migration", "until": None}})
    release.set(profile="warn")
    assert api.get(PAUSE)["data"] == {"paused": "true", "reason": "migration"}
    api.patch(PAUSE, {"data": {"paused": "false"}})


def test_an_upgrade_changes_no_policy(sandbox: Sandbox, release: Any) -> None:
    """The shipped policy is the administrator's from the moment it exists; deleted, it comes back."""
    api = sandbox.api()
    release.set(profile="enforce")
    uid = api.get(POLICY)["metadata"]["uid"]
    api.patch(POLICY, {"spec": {"priority": 7}})
    release.set(profile="warn")
    kept = api.get(POLICY)
    assert (kept["metadata"]["uid"], kept["spec"]["priority"]) == (uid, 7)
    api.delete(POLICY)
    release.set(profile="enforce")
    assert api.get(POLICY)["spec"]["priority"] == 0


ALLOWED: list[tuple[str, str, str, str, str]] = [
    ("webhook", "watch", OURS, "gpupolicies", ""),
    ("webhook", "watch", CORE, "namespaces", ""),
    ("webhook", "list", CORE, "resourcequotas", ""),
    ("webhook", "create", "authorization.k8s.io", "subjectaccessreviews", ""),
    ("reaper", "watch", CORE, "pods", ""),
    ("reaper", "patch", CORE, "pods", "team"),
    ("reaper", "create", CORE, "pods/eviction", "team"),
    ("reaper", "list", "policy", "poddisruptionbudgets", "team"),
    ("reaper", "watch", CORE, "namespaces", ""),
    ("reaper", "create", "events.k8s.io", "events", "team"),
    ("reaper", "patch", "events.k8s.io", "events", "team"),
    ("reaper", "watch", OURS, "gpupolicies", ""),
    ("reaper", "patch", OURS, "gpupolicies/status", ""),
    ("reaper", "create", OURS, "gpureclaims", "team"),
    ("reaper", "patch", OURS, "gpureclaims/status", "team"),
    ("reaper", "delete", OURS, "gpureclaims", "team"),
    ("reaper", "update", OURS, "terms", "team"),
    ("reaper", "get", APPS, "replicasets", "team"),
    ("reaper", "get", BATCH, "jobs", "team"),
    ("reaper", "patch", APPS, "deployments", "team"),
    ("reaper", "patch", BATCH, "jobs", "team"),
    ("reaper", "get", "ray.io", "rayclusters", "team"),
    ("reaper", "create", "coordination.k8s.io", "leases", OWN),
    ("reaper", "update", "coordination.k8s.io", "leases:gpu-tenure-reaper", OWN),
    ("reaper", "get", CORE, "configmaps:gpu-tenure-pause", OWN),
]
REFUSED: list[tuple[str, str, str, str, str]] = [
    ("webhook", "get", CORE, "pods", "team"),
    ("webhook", "get", CORE, "secrets", OWN),
    ("webhook", "update", OURS, "terms", "team"),
    ("webhook", "patch", CORE, "pods", "team"),
    ("webhook", "use", OURS, "gpupolicies", "team"),
    ("webhook", "create", "authorization.k8s.io", "localsubjectaccessreviews", "team"),
    ("reaper", "delete", CORE, "pods", "team"),
    ("reaper", "update", CORE, "pods/status", "team"),
    ("reaper", "create", CORE, "pods/exec", "team"),
    ("reaper", "create", CORE, "pods/binding", "team"),
    ("reaper", "get", CORE, "secrets", OWN),
    ("reaper", "patch", CORE, "namespaces", ""),
    ("reaper", "update", OURS, "enforcement", ""),
    ("reaper", "update", OURS, "gpupolicies", ""),
    ("reaper", "patch", CORE, "configmaps:gpu-tenure-pause", OWN),
    ("reaper", "get", CORE, "configmaps:other", OWN),
    ("reaper", "update", "coordination.k8s.io", "leases:other", OWN),
    ("reaper", "create", "coordination.k8s.io", "leases", "kube-system"),
]
ROWS = [(*row, True) for row in ALLOWED] + [(*row, False) for row in REFUSED]


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize(
    ("component", "verb", "group", "resource", "space", "allowed"),
    ROWS,
    ids=[f"{row[0]} {'may' if row[5] else 'may not'} {row[1]} {row[3]} in {row[4] or 'all'}" for row in ROWS],
)
def test_components_may_do_what_they_do_and_no_more(
    sandbox: Sandbox, component: str, verb: str, group: str, resource: str, space: str, allowed: bool
) -> None:
    """Asked of the API server, as it will be when the component calls."""
    resource, _, name = resource.partition(":")
    resource, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": space}
    attributes |= {"subresource": subresource, "name": name}
    account = f"system:serviceaccount:{OWN}:gpu-tenure-{component}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{OWN}", "system:authenticated"]
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "groups": groups, "resourceAttributes": attributes},
    }
    review = sandbox.api().create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    assert review["status"]["allowed"] is allowed


def test_viewers_of_a_namespace_see_its_reclaims(sandbox: Sandbox, release: Any, namespace: str) -> None:
    """Whoever may view a namespace may read what was taken back there, and nobody else's."""
    release.set(profile="enforce")
    api = sandbox.api()
    api.grant_edit(namespace, "dev-b")
    path = "/apis/gpu-tenure.io/v1alpha1/namespaces/{}/gpureclaims"

    def read(space: str) -> int:
        return sandbox.api("dev-b").raw("GET", path.format(space)).status

    api.wait(lambda: read(namespace) == 200, 20, "the role is aggregated")
    assert read("default") == 403


def test_an_uninstallation_keeps_what_people_wrote_and_stops_nothing(
    sandbox: Sandbox, release: Any, namespace: str, mallory: Any
) -> None:
    """Pods and labels are free again, policies stay, and it can be installed anew."""
    release.set(profile="enforce")
    sandbox.helm("uninstall", "gpu-tenure", f"--namespace={OWN}", "--wait")
    api = sandbox.api()
    release.values = {}
    assert api.list(GUARDS) == []
    assert api.get(POLICY)["spec"]
    opted_out = {"metadata": {"labels": {NamespaceLabel.ENFORCEMENT: "disabled"}}}
    path = f"{NAMESPACES}/{namespace}"
    api.wait(lambda: mallory.patch(path, opted_out).status == 200, 20, "no guard holds any more")
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    path = f"{NAMESPACES}/default/pods?dryRun=All"
    api.wait(lambda: mallory.send("POST", path, pod).status == 201, 20, "no webhook is called any more")
    release.set(profile="enforce")
