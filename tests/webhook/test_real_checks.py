"""Images and rights behind a real API server: updates, role bindings, workloads, and a dead webhook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile
from sandbox.api import PATCH_TYPES, Reply
from sandbox.balancer import Mode

if TYPE_CHECKING:
    from tests.webhook.conftest import Site

Object = dict[str, Any]
Make = Callable[..., Object]
POLICY, POLICIES = "checks", "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
LABELS = {"checks": "yes"}
GOOD, BAD = "reg.example/ml/x:1", "reg.example.evil.test/ml/x:1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def checked(site: Site) -> Iterator[Site]:
    """The webhook under `enforce`, with a policy that limits images and demands the right to use it."""
    site.set_profile(Profile.ENFORCE)
    api = site.sandbox.api()
    spec = {
        "priority": 2000,
        "namespaceSelector": {"matchLabels": LABELS},
        "images": {"allowed": ["reg.example"]},
        "requireUse": True,
    }
    body = {"apiVersion": "gpu-tenure.io/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": POLICY}}
    api.create(POLICIES, {**body, "spec": spec})
    if api.raw("GET", "/api/v1/namespaces/checks").status == 404:
        api.create_namespace("checks", LABELS)
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": gpu_spec(BAD),
    }
    path = "/api/v1/namespaces/checks/pods"
    api.wait(lambda: site.create(path, probe, dry_run=True).status == 403, 20, "the policy counts")
    yield site
    api.delete(f"{POLICIES}/{POLICY}")


def gpu_spec(image: str) -> Object:
    """The specification of a GPU pod that nobody schedules."""
    container = {"name": "main", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"schedulerName": "nobody", "restartPolicy": "Never", "containers": [container]}


def gpu_pod(image: str = GOOD, name: str = "p") -> Object:
    """A GPU pod."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": gpu_spec(image)}


@pytest.fixture
def space(checked: Site, make_namespace: Callable[..., str]) -> str:
    """A fresh namespace under the policy, where `dev-x` may edit everything."""
    name = make_namespace(LABELS)
    bind(checked, name, "edit", "dev-x")
    return name


def bind(site: Site, namespace: str, role: str, user: str) -> None:
    """Gives a user a cluster's role in one namespace."""
    body = {
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    site.sandbox.api().create(f"{RBAC}/namespaces/{namespace}/rolebindings", body)


def send(site: Site, path: str, body: Object, user: str = "dev-x") -> Reply:
    """Creates an object as somebody."""
    return site.sandbox.api().raw("POST", path, body, {"Impersonate-User": user})


def patch(site: Site, path: str, body: Object) -> Reply:
    """Patches an object as the administrator, to whom only images matter."""
    headers = {"Content-Type": PATCH_TYPES["strategic"]}
    return site.sandbox.api().raw("PATCH", path, body, headers)


def test_an_image_that_is_not_allowed_is_refused(checked: Site, space: str) -> None:
    """With a sentence that names the image and what is allowed; an allowed one passes."""
    path = f"/api/v1/namespaces/{space}/pods"
    reply = checked.create(path, gpu_pod(BAD))
    assert reply.status == 403
    expected = f"GPUPolicy {POLICY} does not allow the image of container main ({BAD})"
    assert expected in reply.json["message"]
    assert checked.create(path, gpu_pod()).status == 201


@pytest.mark.parametrize(
    ("subresource", "field", "name"),
    [("", "containers", "main"), ("/ephemeralcontainers", "ephemeralContainers", "debug")],
    ids=["an image that changes", "an ephemeral container"],
)
def test_images_that_come_later_are_refused(
    checked: Site, space: str, subresource: str, field: str, name: str
) -> None:
    """The pod runs on as it is; an allowed image passes."""
    path = f"/api/v1/namespaces/{space}/pods"
    assert checked.create(path, gpu_pod()).status == 201
    for image, status in ((BAD, 403), ("reg.example/other", 200)):
        body = {"spec": {field: [{"name": name, "image": image}]}}
        reply = patch(checked, f"{path}/p{subresource}", body)
        assert reply.status == status, reply.text


@pytest.mark.parametrize("role", ["gpu-tenure-policy-user", None], ids=["with the right", "without it"])
def test_the_right_is_given_by_a_role_binding(
    checked: Site, space: str, make_namespace: Callable[..., str], role: str | None
) -> None:
    """In its namespace, and in no other; whoever lacks it is told how to come by it."""
    if role is not None:
        bind(checked, space, role, "dev-x")
    other = make_namespace(LABELS)
    bind(checked, other, "edit", "dev-x")
    for name, may in ((space, role is not None), (other, False)):
        reply = send(checked, f"/api/v1/namespaces/{name}/pods", gpu_pod())
        assert reply.status == (201 if may else 403), reply.text
        if not may:
            assert f"dev-x may not use GPUPolicy {POLICY} in namespace {name}" in reply.json["message"]


def deployment() -> Object:
    """A Deployment of one GPU pod."""
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {**gpu_spec(GOOD), "restartPolicy": "Always"},
    }
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def test_workloads_need_the_right_of_who_sends_them(checked: Site, space: str) -> None:
    """With it, the pods come from a controller that nobody asks."""
    path = f"/apis/apps/v1/namespaces/{space}/deployments"
    reply = send(checked, path, deployment())
    assert reply.status == 403
    assert "dev-x may not use GPUPolicy" in reply.json["message"]
    bind(checked, space, "gpu-tenure-policy-user", "dev-x")
    api = checked.sandbox.api()
    # A refusal is remembered for a moment.
    api.wait(lambda: send(checked, path, deployment()).status == 201, 20, "the right counts")
    api.wait(lambda: api.list(f"/api/v1/namespaces/{space}/pods"), 30, "its pod is made")


def test_with_the_webhook_dead_pods_run_on(checked: Site, space: str) -> None:
    """New GPU pods wait under `enforce`, as was chosen; workloads do not, nor does anything that exists."""
    path = f"/api/v1/namespaces/{space}/pods"
    assert checked.create(path, gpu_pod()).status == 201
    checked.set_modes(Mode.REFUSE, Mode.REFUSE)
    try:
        assert checked.create(path, gpu_pod(name="q")).status == 500
        workloads = f"/apis/apps/v1/namespaces/{space}/deployments"
        assert send(checked, workloads, deployment()).status == 201
        plain = gpu_pod(name="cpu")
        plain["spec"]["containers"][0].pop("resources")
        assert checked.create(path, plain).status == 201
        body = {"spec": {"containers": [{"name": "main", "image": "elsewhere.example/x"}]}}
        assert patch(checked, f"{path}/p", body).status == 200
    finally:
        checked.set_modes(Mode.PASS, Mode.PASS)
