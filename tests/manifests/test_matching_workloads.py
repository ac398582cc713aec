"""Which workloads the API server sends to the mutating webhook, told by a server that records what comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from policy.workloads import WORKLOADS
from sandbox.api import Reply
from sandbox.cluster import Sandbox

Object = dict[str, Any]
GPU = {"limits": {"nvidia.com/gpu": "1"}}
CPU = {"limits": {"cpu": "1"}}


def container(resources: Object) -> Object:
    """A container with these resources."""
    return {"name": "c", "image": "i", "resources": resources}


def template(resources: Object, **spec: Any) -> Object:
    """A pod template with these resources."""
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container(resources)], **spec}}


def selecting(resources: Object) -> Object:
    """The specification of a built-in kind with a selector."""
    return {"selector": {"matchLabels": {"a": "b"}}, "template": template(resources)}


def cluster(resources: Object) -> Object:
    """Ray's cluster whose second group of workers has these resources."""
    workers = [
        {"groupName": str(number), "template": template(part)} for number, part in ((0, CPU), (1, resources))
    ]
    return {"headGroupSpec": {"template": template(CPU)}, "workerGroupSpecs": workers}


def flow(resources: Object) -> Object:
    """Argo's flow whose second step has these resources."""
    return {"templates": [{"name": "a", "steps": []}, {"name": "b", "container": container(resources)}]}


SPECS: dict[str, Callable[[Object], Object]] = {
    "apps/v1/deployments": selecting,
    "apps/v1/replicasets": selecting,
    "apps/v1/statefulsets": lambda part: {**selecting(part), "serviceName": "s"},
    "apps/v1/daemonsets": selecting,
    "v1/replicationcontrollers": lambda part: {"selector": {"a": "b"}, "template": template(part)},
    "batch/v1/cronjobs": lambda part: {
        "schedule": "0 0 1 1 *",
        "jobTemplate": {"spec": {"template": template(part, restartPolicy="Never")}},
    },
    "jobset.x-k8s.io/v1alpha2/jobsets": lambda part: {
        "replicatedJobs": [{"name": "a", "template": {"spec": {"template": template(part)}}}]
    },
    "leaderworkerset.x-k8s.io/v1/leaderworkersets": lambda part: {
        "leaderWorkerTemplate": {"size": 2, "workerTemplate": template(part)}
    },
    "batch.volcano.sh/v1alpha1/jobs": lambda part: {"tasks": [{"replicas": 2, "template": template(part)}]},
    "ray.io/v1/rayclusters": cluster,
    "ray.io/v1/rayjobs": lambda part: {"rayClusterSpec": cluster(part)},
    "ray.io/v1/rayservices": lambda part: {"rayClusterConfig": cluster(part)},
    "kubeflow.org/v1/pytorchjobs": lambda part: {
        "pytorchReplicaSpecs": {"Master": {"template": template(CPU)}, "Worker": {"template": template(part)}}
    },
    "kubeflow.org/v1/notebooks": lambda part: {"template": template(part)},
    "argoproj.io/v1alpha1/workflows": flow,
    "argoproj.io/v1alpha1/cronworkflows": lambda part: {"schedule": "0 0 1 1 *", "workflowSpec": flow(part)},
}
"""By group, version and resource: the specification of a workload whose pods have these resources."""

Create = Callable[..., Reply]
Asked = list[tuple[str, str]]


@pytest.fixture(scope="module", autouse=True)
def kinds(sandbox: Sandbox, install_kinds: Callable[[Sandbox], None]) -> None:
    """The kinds of other projects are there."""
    install_kinds(sandbox)


def resource_of(place: str) -> str:
    """The place of a resource as `create` wants it."""
    version, _, plural = place.rpartition("/")
    return f"/{'api' if version == 'v1' else 'apis'}/{version}|{plural}"


def made(create: Create, place: str, spec: Object) -> Reply:
    """Creates a workload of these specifications, keeping nothing."""
    version, _, plural = place.rpartition("/")
    group = version.rpartition("/")[0]
    kind = next(row.kind for row in WORKLOADS if (row.group, row.resource) == (group, plural))
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    return create(body, resource=resource_of(place))


@pytest.mark.parametrize("place", SPECS)
def test_workloads_of_gpu_pods_are_reviewed(asked: Asked, create: Create, place: str) -> None:
    """Once by the mutating configuration, whatever other one is asked."""
    reply = made(create, place, SPECS[place](GPU))
    assert reply.status == 201, reply.text
    assert [path for path, _ in asked].count("/mutate") == 1


@pytest.mark.parametrize("place", SPECS)
def test_workloads_of_other_pods_never_wait_for_us(asked: Asked, create: Create, place: str) -> None:
    """Nor do those that are empty, as far as their kind allows it."""
    reply = made(create, place, SPECS[place](CPU))
    assert reply.status == 201, reply.text
    if place.count("/") == 2 and not place.startswith(("apps/", "batch/")):
        assert made(create, place, {}).status in {201, 422}
    assert asked == []


@pytest.mark.parametrize(
    "spec",
    [
        {"templates": [{"script": container(GPU)}]},
        {"templates": [{"initContainers": [container(GPU)]}]},
        {"templates": [{"container": container(CPU), "sidecars": [container(CPU), container(GPU)]}]},
        {"templates": [{"containerSet": {"containers": [container(CPU), container(GPU)]}}]},
    ],
    ids=["a script", "an init container", "a sidecar", "a set of containers"],
)
def test_every_kind_of_container_of_a_workflow_is_seen(asked: Asked, create: Create, spec: Object) -> None:
    """A template of Argo's holds containers in many places."""
    assert made(create, "argoproj.io/v1alpha1/workflows", spec).status == 201
    assert asked


def test_what_controllers_make_is_not_reviewed_again(asked: Asked, sandbox: Sandbox, namespace: str) -> None:
    """A ReplicaSet keeps what the template of its Deployment says: a change would make another for ever."""
    path = f"/apis/apps/v1/namespaces/{namespace}"
    body = {"metadata": {"name": "d"}, "spec": {**selecting(GPU), "replicas": 0}}
    sandbox.api().create(f"{path}/deployments", body)
    sandbox.api().wait(lambda: sandbox.api().list(f"{path}/replicasets"), 20, "the ReplicaSet is made")
    assert [name for way, name in asked if way == "/mutate"] == ["Deployment/d"]


def test_the_rules_are_those_of_the_table(render: Callable[..., list[Object]]) -> None:
    """A kind that is only in the one or only in the other would be decided about in vain, or never."""
    (configuration,) = [one for one in render() if one["kind"] == "MutatingWebhookConfiguration"]
    selected = {
        (group, resource)
        for webhook in configuration["webhooks"]
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert selected == {(kind.group, kind.resource) for kind in WORKLOADS} | {("", "pods"), ("batch", "jobs")}
