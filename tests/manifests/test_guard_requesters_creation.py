"""The guard of who asked, on new pods while the webhook is away: nobody takes another's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from policy.keys import Annotation
from sandbox.api import Reply
from sandbox.cluster import Sandbox
from tests.manifests.conftest import Release, bind

REQUESTER = str(Annotation.REQUESTED_BY)
GUARD = "gpu-tenure-guard-requesters"
Object = dict[str, Any]


@pytest.fixture(autouse=True)
def warn(release: Release) -> None:
    """The profile whose guards refuse as under `enforce`, and that lets GPU pods pass without the webhook."""
    release.set(profile="warn")


GPU = {"limits": {"nvidia.com/gpu": "1"}}


def pod(annotations: Object | None, resources: Object, **metadata: Any) -> Object:
    """A pod that nobody schedules."""
    container = {"name": "c", "image": "i", "resources": resources}
    return {
        "metadata": {"name": "p", "annotations": annotations, **metadata},
        "spec": {"schedulerName": "by-hand", "containers": [container]},
    }


def refused_creation(reply: Reply) -> bool:
    """Whether the guard refused a creation for somebody else; anything else must have worked."""
    if reply.status == 201:
        return False
    assert f"'{GUARD}'" in reply.text, reply.text
    assert "names somebody else. Remove it" in reply.text
    return reply.status == 403


ACCOUNT = "system:serviceaccount:{}:{}"
OWNED = {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}]}


@pytest.mark.parametrize(
    ("user", "body", "refuses"),
    [
        pytest.param("mallory", pod({REQUESTER: "dev-a"}, GPU), True, id="a person for another"),
        pytest.param("mallory", pod({REQUESTER: "mallory"}, GPU), False, id="a person for oneself"),
        pytest.param("mallory", pod({REQUESTER: ""}, GPU), False, id="a person for nobody"),
        pytest.param("mallory", pod(None, GPU), False, id="a person who says nothing"),
        pytest.param(
            "mallory", pod({REQUESTER: "dev-a"}, GPU, **OWNED), True, id="a person who forges an owner"
        ),
        pytest.param("mallory", pod({REQUESTER: "dev-a"}, {}), False, id="a pod without GPUs"),
        pytest.param("terms-admin", pod({REQUESTER: "dev-a"}, GPU), False, id="who has the right"),
        pytest.param(
            ACCOUNT.format("{}", "ci"), pod({REQUESTER: "dev-a"}, GPU), True, id="an account of the namespace"
        ),
        pytest.param(
            ACCOUNT.format("{}", "ci"),
            pod({REQUESTER: "dev-a"}, GPU, **OWNED),
            False,
            id="an operator in the namespace",
        ),
        pytest.param(
            ACCOUNT.format("ray", "operator"),
            pod({REQUESTER: "dev-a"}, GPU),
            False,
            id="an operator elsewhere",
        ),
        pytest.param(
            ACCOUNT.format("kube-system", "job-controller"),
            pod({REQUESTER: "dev-a"}, GPU),
            False,
            id="a trusted controller",
        ),
    ],
)
def test_pods_for_somebody_else(
    sandbox: Sandbox,
    namespace: str,
    writer: Callable[[str], Any],
    empower: Callable[[str], None],
    user: str,
    body: Object,
    refuses: bool,
) -> None:
    """A value that nobody overwrote, the webhook being away, is taken from people only."""
    user = user.format(namespace)
    empower(user)
    sandbox.api().raw("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "c"}})
    reply = writer(user).send("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    assert refused_creation(reply) is refuses


@pytest.fixture
def empower(sandbox: Sandbox) -> Callable[[str], None]:
    """Lets a service account create everything that has no right of ours."""

    def call(user: str) -> None:
        if user.startswith("system:"):
            bind(sandbox, user, "all-but-ours")

    return call


def test_namespaces_that_opted_out(make_namespace: Callable[..., str], mallory: Any) -> None:
    """The webhook never sees what is created there, and nobody reads who asked."""
    space = make_namespace({"gpu-tenure.io/enforcement": "disabled"})
    body = pod({REQUESTER: "dev-a"}, GPU)
    assert not refused_creation(mallory.send("POST", f"/api/v1/namespaces/{space}/pods?dryRun=All", body))


def test_who_acts_for_others(
    release: Release, sandbox: Sandbox, namespace: str, writer: Callable[[str], Any]
) -> None:
    """A portal names its users."""
    sources = [{"creator": "mallory", "annotation": "example.com/user"}]
    release.set(profile="warn", requesterSources=sources)
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    body = pod({REQUESTER: "dev-a"}, GPU)

    def passes() -> bool:
        return writer("mallory").send("POST", path, body).status == 201

    sandbox.api().wait(passes, 20, "the guard knows the portal")
    assert refused_creation(writer("probe").send("POST", path, body))


def test_observing_warns(release: Release, namespace: str, mallory: Any) -> None:
    """Nothing is refused there."""
    release.set(profile="observe")
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    reply = mallory.send("POST", path, pod({REQUESTER: "dev-a"}, GPU))
    assert reply.status == 201
    assert any("names somebody else" in warning for warning in reply.warnings)
