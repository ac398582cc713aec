"""Which objects the API server sends to the webhook, told by a server that records what comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from policy.resources import TABLE, Unit
from sandbox.api import Reply
from sandbox.cluster import Sandbox

GPUS = [
    *dict.fromkeys(name for rule in TABLE if rule.unit is not Unit.NOTHING for name in rule.examples),
    "nvidia.com/mig-3g.40gb.me",
    "huawei.com/Ascend910B3-memory",
    "cambricon.com/mlu370-s4",
]
NOT_GPUS = [
    "gpu.intel.com/i915_monitoring",
    "gpu.intel.com/xe_monitoring",
    "cambricon.com/mlu_monitoring",
    "huawei.com/Ascend",
    "huawei.com/Ascend-x",
    "amd.com/cpx_nps3",
    "koordinator.sh/gpu-cores",
    "example.com/gpu-fraction",
    "deviceclass.resource.kubernetes.io/nic.example.com",
    "nvidia.com/hostdev",
    "nvidia.com/gpus",
    "xnvidia.com/gpu",
    "nvidia.com/mig-",
    "amd.com/cpu",
]


def pod(resources: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of one container with these resources."""
    container = {"name": "c", "image": "i", "resources": resources or {}}
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": [container], **spec}}


def annotated(key: str, value: str) -> dict[str, Any]:
    """A pod without resources that has an annotation."""
    return pod() | {"metadata": {"generateName": "p-", "annotations": {key: value}}}


def job(spec: dict[str, Any], name: str = "j") -> dict[str, Any]:
    """A suspended Job of such pods."""
    template = {"spec": {**spec, "restartPolicy": "Never"}}
    return {"metadata": {"name": name}, "spec": {"suspend": True, "template": template}}


GPU_PODS: dict[str, dict[str, Any]] = {
    **{f"limits of {name}": pod({"limits": {name: "1"}}) for name in GPUS},
    "requests in a companion's shape": pod(
        {"requests": {"nvidia.com/gpucores": "50"}, "limits": {"nvidia.com/gpucores": "50"}}
    ),
    "in an init container": pod(
        None, initContainers=[{"name": "i", "image": "i", "resources": {"limits": {"amd.com/gpu": "1"}}}]
    ),
    "a part of a card for KAI": annotated("gpu-fraction", "0.5"),
    "memory of a card for KAI": annotated("gpu-memory", "2000"),
    "a claim, whose devices are not in the pod": pod(
        None, resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}]
    ),
    "in the last of many containers": pod(
        None,
        containers=[
            *({"name": f"c{number}", "image": "i"} for number in range(499)),
            {"name": "last", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
        ],
    ),
    "beside other resources": pod({"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}),
    "none of it (zero devices)": pod({"limits": {"nvidia.com/gpu": "0"}}),
    "one container too many to be read": pod(
        None, containers=[{"name": f"c{number}", "image": "i"} for number in range(501)]
    ),
    "a name too many in a container to be read": pod(
        {"limits": {f"example.com/r{number}": "1" for number in range(65)}}
    ),
    "the last of the most names that are read": pod(
        {
            "limits": dict.fromkeys(
                [*(f"example.com/r{number}" for number in range(63)), "nvidia.com/gpu"], "1"
            )
        }
    ),
    "a vendor's name too many in all": pod(
        None,
        containers=[
            {"name": f"c{number}", "image": "i", "resources": {"limits": {f"a.example/{number}": "1"}}}
            for number in range(501)
        ],
    ),
}


@pytest.mark.parametrize("body", GPU_PODS.values(), ids=GPU_PODS)
def test_gpu_pods_are_reviewed(
    asked: list[tuple[str, str]], create: Callable[..., Reply], body: dict[str, Any]
) -> None:
    """Once by each configuration."""
    assert create(body).status == 201
    assert [path for path, _ in asked] == ["/mutate", "/validate"]


def test_devices_of_a_runtime_class(
    asked: list[tuple[str, str]], create: Callable[..., Reply], sandbox: Sandbox
) -> None:
    """Its overhead is in the pod before webhooks are called."""
    runtime = {
        "metadata": {"name": "vm-gpu"},
        "handler": "vm",
        "overhead": {"podFixed": {"nvidia.com/gpu": "1"}},
    }
    sandbox.api().create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    assert create(pod(None, runtimeClassName="vm-gpu")).status == 201
    assert [path for path, _ in asked] == ["/mutate", "/validate"]


def test_devices_of_a_limit_range(
    asked: list[tuple[str, str]], create: Callable[..., Reply], sandbox: Sandbox, namespace: str
) -> None:
    """Its defaults are in every container before webhooks are called."""
    limits = {"limits": [{"type": "Container", "default": {"nvidia.com/gpu": "1"}}]}
    path = f"/api/v1/namespaces/{namespace}/limitranges"
    sandbox.api().create(path, {"metadata": {"name": "one-each"}, "spec": limits})

    def defaulted() -> bool:
        reply = create(pod())
        return "nvidia.com/gpu" in reply.json["spec"]["containers"][0]["resources"].get("limits", {})

    sandbox.api().wait(defaulted, 20, "the LimitRange gives defaults")
    asked.clear()
    assert create(pod()).status == 201
    assert [path for path, _ in asked] == ["/mutate", "/validate"]


def test_devices_of_the_pod_as_a_whole(asked: list[tuple[str, str]], create: Callable[..., Reply]) -> None:
    """The API server refuses them, after the mutating webhooks."""
    body = pod()
    body["spec"]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    assert create(body).status == 422
    assert [path for path, _ in asked] == ["/mutate"]


CPU_PODS: dict[str, dict[str, Any]] = {
    "nothing": pod(),
    "cpu and memory": pod({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}}),
    **{f"limits of {name}": pod({"limits": {name: "1"}}) for name in NOT_GPUS if not name.endswith("-")},
    "empty resources": pod({"limits": {}, "requests": {}}),
    "null resources": pod({"limits": None, "requests": None}),
    "no init containers": pod(None, initContainers=None),
    "a GPU's name elsewhere": pod(None, nodeSelector={"nvidia.com/gpu": "true"}),
}


@pytest.mark.parametrize("body", CPU_PODS.values(), ids=CPU_PODS)
def test_other_pods_never_wait_for_us(
    asked: list[tuple[str, str]], create: Callable[..., Reply], body: dict[str, Any]
) -> None:
    """Whatever their shape."""
    reply = create(body)
    assert reply.status == 201, reply.text
    assert asked == []


def big(containers: int, variables: int, names: Sequence[str] = ("cpu", "memory")) -> dict[str, Any]:
    """A CPU pod with so many containers and environment entries, and as many init containers."""
    amounts = dict.fromkeys(names, "1")
    each = [
        {
            "name": f"c{number}",
            "image": "i",
            "resources": {"limits": amounts, "requests": amounts},
            "env": [{"name": f"E{entry}", "value": "v" * 60} for entry in range(variables // containers)],
        }
        for number in range(containers)
    ]
    return pod(None, containers=each, initContainers=[{**one, "name": f"i-{one['name']}"} for one in each])


ALMOST = {
    "names almost of MIG": [f"nvidia.com/mig-{'A' * 56}{number}" for number in range(8)],
    "names almost of Ascend": [f"huawei.com/Ascend-{'A' * 54}{number}" for number in range(8)],
    "the longest names": [f"{'.'.join(['a' * 58] * 4)}/{'A' * 62}{number}" for number in range(8)],
}
LARGE = {
    "100 containers, 1,000 variables": big(100, 1_000),
    "ten times the variables": big(100, 10_000),
    "the most containers that are read": big(
        500, 500, ("cpu", "memory", "ephemeral-storage", "a.example/fuse")
    ),
    "nine names of vendors in one": big(1, 1, [f"a.example/r{number}" for number in range(9)]),
    **{f"the most that is read in few: {what}": big(62, 62, names) for what, names in ALMOST.items()},
    **{f"the most that is read in many: {what}": big(500, 500, names[:1]) for what, names in ALMOST.items()},
}


@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
def test_large_cpu_pods_stay_within_the_cost_limit(
    asked: list[tuple[str, str]], create: Callable[..., Reply], body: dict[str, Any]
) -> None:
    """A condition beyond its limit is an error, and under `enforce` an error refuses the pod."""
    reply = create(body)
    assert reply.status == 201, reply.text[:500]
    assert asked == []


def test_a_pod_without_containers_is_refused_for_that(
    asked: list[tuple[str, str]], create: Callable[..., Reply]
) -> None:
    """At the mutating stage it is not validated yet: the conditions read null without an error."""
    reply = create({"metadata": {"name": "p"}, "spec": {}})
    assert reply.status == 422
    assert "spec.containers: Required value" in reply.json["message"]
    assert asked == []


def test_only_creations_are_reviewed(
    asked: list[tuple[str, str]], sandbox: Sandbox, namespace: str, mallory: Any
) -> None:
    """Not updates, not status, not bindings, not evictions, not deletions."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    body = pod({"limits": {"nvidia.com/gpu": "1"}}) | {"metadata": {"name": "p"}}
    sandbox.api().create(path, body)
    sandbox.api().wait_running(namespace, "p")
    assert asked == [("/mutate", "Pod/p"), ("/validate", "Pod/p")]
    assert mallory.patch(f"{path}/p", {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert sandbox.api().evict(namespace, "p").status == 201
    sandbox.api().wait(lambda: sandbox.api().find(f"{path}/p") is None, 20, "the pod is gone")
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("spec", "reviewed"),
    [
        (GPU_PODS["limits of nvidia.com/gpu"]["spec"], True),
        (GPU_PODS["in an init container"]["spec"], True),
        (CPU_PODS["cpu and memory"]["spec"], False),
        (big(100, 1_000)["spec"], False),
    ],
    ids=["a GPU Job", "a Job with a GPU in an init container", "a CPU Job", "a large CPU Job"],
)
def test_gpu_jobs_are_reviewed(
    asked: list[tuple[str, str]], create: Callable[..., Reply], spec: dict[str, Any], reviewed: bool
) -> None:
    """By both configurations."""
    assert create(job(spec), resource="/apis/batch/v1|jobs").status == 201
    assert asked == ([("/mutate", "Job/j"), ("/validate", "Job/j")] if reviewed else [])


@pytest.mark.parametrize("kind", ["pod", "job"])
@pytest.mark.parametrize(
    ("labels", "reviewed"),
    [
        ({}, True),
        ({"gpu-tenure.io/enforcement": "enabled"}, True),
        ({"gpu-tenure.io/enforcement": "dry-run"}, True),
        ({"gpu-tenure.io/enforcement": "disabled"}, False),
    ],
    ids=["no label", "enabled", "dry-run", "disabled"],
)
def test_a_namespace_may_be_opted_out(
    asked: list[tuple[str, str]],
    create: Callable[..., Reply],
    make_namespace: Callable[..., str],
    kind: str,
    labels: dict[str, str],
    reviewed: bool,
) -> None:
    """`disabled` alone keeps the API server from calling us."""
    space, body = make_namespace(labels), GPU_PODS["limits of nvidia.com/gpu"]
    reply = create(body, space) if kind == "pod" else create(job(body["spec"]), space, "/apis/batch/v1|jobs")
    assert reply.status == 201
    assert bool(asked) is reviewed


@pytest.mark.parametrize("space", ["kube-system", "gpu-tenure-system"])
def test_excluded_namespaces_are_not_reviewed(
    asked: list[tuple[str, str]], create: Callable[..., Reply], space: str
) -> None:
    """By their name, which nobody can change."""
    assert create(GPU_PODS["limits of nvidia.com/gpu"], space).status == 201
    assert asked == []


def test_a_pod_cannot_opt_itself_out(asked: list[tuple[str, str]], create: Callable[..., Reply]) -> None:
    """No label of a pod keeps it from being reviewed."""
    labels = {"gpu-tenure.io/enforcement": "disabled", "gpu-tenure.io/exempt": "true"}
    body = GPU_PODS["limits of nvidia.com/gpu"] | {"metadata": {"name": "p", "labels": labels}}
    assert create(body).status == 201
    assert len(asked) == 2
