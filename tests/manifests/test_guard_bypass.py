"""The guard against GPUs that nobody counts, on a real API server, and its twin that works offline."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policy.bypass import CDI, DEVICE_PATHS, ENVIRONMENT, RUNTIMES, Bypass, find_bypasses
from sandbox.api import Reply
from sandbox.cluster import Sandbox

GUARD = "gpu-tenure-guard-bypass"
TEMPLATE = Path(__file__).parents[2] / "manifests" / "chart" / "templates" / "guards" / "bypass.yaml"
Object = dict[str, Any]
MESSAGES = {
    Bypass.ENVIRONMENT: "An environment variable such as NVIDIA_VISIBLE_DEVICES",
    Bypass.DEVICE_PATH: "A hostPath volume leads",
    Bypass.PRIVILEGED: "A privileged container",
    Bypass.RUNTIME_CLASS: "This runtimeClassName",
    Bypass.CDI: "An annotation of cdi.k8s.io",
    Bypass.NODE_NAME: "A preset nodeName",
}


def pod(container: Object | None = None, annotations: Object | None = None, **spec: Any) -> Object:
    """A pod that no scheduler touches; `container` is added to its only one."""
    only = {"name": "c", "image": "i", **(container or {})}
    body = {"schedulerName": "by-hand", "containers": [only], **spec}
    return {"metadata": {"generateName": "p-", "annotations": annotations or {}}, "spec": body}


def env(name: str, value: str | None = None, **more: Any) -> Object:
    """A container with one variable."""
    return {"env": [{"name": name, **({} if value is None else {"value": value}), **more}]}


def host(path: str, **container: Any) -> Object:
    """A pod with a volume of the node."""
    mount = {"name": "h", "mountPath": "/h"}
    return pod({"volumeMounts": [mount], **container}, volumes=[{"name": "h", "hostPath": {"path": path}}])


PRIVILEGED = {"securityContext": {"privileged": True}}
GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
FOUND: dict[str, tuple[Object, Bypass]] = {
    **{f"{name} for all": (pod(env(name, "all")), Bypass.ENVIRONMENT) for name in ENVIRONMENT},
    "a single device": (pod(env("NVIDIA_VISIBLE_DEVICES", "0")), Bypass.ENVIRONMENT),
    "a value spelled otherwise": (pod(env("NVIDIA_VISIBLE_DEVICES", "None")), Bypass.ENVIRONMENT),
    "a value with a space": (pod(env("NVIDIA_VISIBLE_DEVICES", " ")), Bypass.ENVIRONMENT),
    "a value from the pod": (
        pod(env("NVIDIA_VISIBLE_DEVICES", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}})),
        Bypass.ENVIRONMENT,
    ),
    "a variable in a GPU pod": (pod({**env("NVIDIA_VISIBLE_DEVICES", "all"), **GPU}), Bypass.ENVIRONMENT),
    "a variable of an init container": (
        pod(initContainers=[{"name": "i", "image": "i", **env("NVIDIA_VISIBLE_DEVICES", "all")}]),
        Bypass.ENVIRONMENT,
    ),
    "the second of two": (
        pod({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": v} for v in ("void", "all")]}),
        Bypass.ENVIRONMENT,
    ),
    "a device": (host("/dev/nvidia0"), Bypass.DEVICE_PATH),
    "a device behind two slashes": (host("//dev//nvidia0"), Bypass.DEVICE_PATH),
    "a device behind a dot": (host("/./dev/./nvidia0"), Bypass.DEVICE_PATH),
    "the devices of AMD": (host("/dev/kfd"), Bypass.DEVICE_PATH),
    "a directory of devices": (host("/dev/dri/"), Bypass.DEVICE_PATH),
    "another process's root": (host("/proc/1/root/dev/nvidia0"), Bypass.DEVICE_PATH),
    "the driver's root": (host("/run/nvidia/driver"), Bypass.DEVICE_PATH),
    "the list of CDI devices": (host("/var/run/cdi"), Bypass.DEVICE_PATH),
    "the sockets of device plugins": (host("/var/lib/kubelet/device-plugins"), Bypass.DEVICE_PATH),
    "privileged with all devices": (host("/dev", **PRIVILEGED), Bypass.PRIVILEGED),
    "privileged with the whole node": (host("/", **PRIVILEGED), Bypass.PRIVILEGED),
    "privileged with dots for the whole node": (host("/.//./", **PRIVILEGED), Bypass.PRIVILEGED),
    "a CDI annotation": (pod(annotations={"cdi.k8s.io/x": "nvidia.com/gpu=all"}), Bypass.CDI),
    "a CDI annotation of a vendor": (pod(annotations={"nvidia.cdi.k8s.io/pod": "all"}), Bypass.CDI),
    "a node of the user's choice": (pod(nodeName="node-a"), Bypass.NODE_NAME),
}
PASSING: dict[str, Object] = {
    "an ordinary pod": pod(),
    "a GPU pod": pod(GPU),
    "no devices by void": pod(env("NVIDIA_VISIBLE_DEVICES", "void")),
    "no devices by none": pod(env("NVIDIA_VISIBLE_DEVICES", "none")),
    "no devices by an empty value": pod(env("NVIDIA_VISIBLE_DEVICES", "")),
    "no devices by no value": pod(env("NVIDIA_VISIBLE_DEVICES")),
    "a choice among its own devices": pod({**env("CUDA_VISIBLE_DEVICES", "0"), **GPU}),
    "a variable that sounds alike": pod(env("MY_NVIDIA_VISIBLE_DEVICES", "all")),
    "shared memory of the node": host("/dev/shm"),
    "devices without privileges": host("/dev"),
    "a path that sounds alike": host("/data/dev/nvidia0"),
    "privileged with data": host("/data", **PRIVILEGED),
    "privileged alone": pod(PRIVILEGED),
    "another annotation": pod(annotations={"example.com/cdi": "x"}),
}


@pytest.fixture
def denied(release: Any) -> Any:
    """The chart with the guard that refuses."""
    release.set(profile="warn", bypass={"action": "deny"})
    return release


def refused(reply: Reply, bypass: Bypass) -> bool:
    """Whether the guard refused for this reason."""
    return reply.status == 403 and f"'{GUARD}'" in reply.text and MESSAGES[bypass] in reply.text


def send(who: Any, namespace: str, body: Object) -> Reply:
    """Creates a pod that leaves no trace."""
    reply: Reply = who.send("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    return reply


@pytest.mark.usefixtures("denied")
@pytest.mark.parametrize(("body", "bypass"), FOUND.values(), ids=FOUND)
def test_every_way_around_is_refused(namespace: str, mallory: Any, body: Object, bypass: Bypass) -> None:
    """With the reason; and the same is found offline."""
    reply = send(mallory, namespace, body)
    assert refused(reply, bypass), reply.text
    assert find_bypasses(body, is_gpu=False) == (bypass,)


@pytest.mark.usefixtures("denied")
@pytest.mark.parametrize("body", PASSING.values(), ids=PASSING)
def test_honest_pods_pass(namespace: str, mallory: Any, body: Object) -> None:
    """In silence; and nothing is found offline."""
    reply = send(mallory, namespace, body)
    assert reply.status == 201, reply.text
    assert "Warning" not in reply.headers
    assert find_bypasses(body, is_gpu=True) == ()


@pytest.mark.usefixtures("denied")
def test_a_runtime_class_is_for_pods_that_ask(sandbox: Sandbox, namespace: str, mallory: Any) -> None:
    """On many clusters GPU pods need it; others get GPUs by it."""
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    sandbox.api().raw("POST", path, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
    sandbox.api().raw("POST", path, {"metadata": {"name": "gvisor"}, "handler": "runsc"})
    body = pod(runtimeClassName="nvidia")
    assert refused(send(mallory, namespace, body), Bypass.RUNTIME_CLASS)
    assert find_bypasses(body, is_gpu=False) == (Bypass.RUNTIME_CLASS,)
    asking = pod(GPU, runtimeClassName="nvidia")
    assert send(mallory, namespace, asking).status == 201
    assert find_bypasses(asking, is_gpu=True) == ()
    assert send(mallory, namespace, pod(runtimeClassName="gvisor")).status == 201


@pytest.mark.usefixtures("denied")
def test_ephemeral_containers_are_looked_at_alone(sandbox: Sandbox, mallory: Any, namespace: str) -> None:
    """A debugging container gets no GPUs either; what its pod is like is no longer the question."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    body = pod(env("NVIDIA_VISIBLE_DEVICES", "void"))
    body["metadata"] = {"name": "p"}
    sandbox.api().create(path, body)
    debug: Object = {"name": "d", "image": "i"}
    for container, bypass in (
        ({**debug, **env("NVIDIA_VISIBLE_DEVICES", "all")}, Bypass.ENVIRONMENT),
        (debug, None),
    ):
        patch = {"spec": {"ephemeralContainers": [container]}}
        reply = mallory.patch(f"{path}/p/ephemeralcontainers?dryRun=All", patch, "strategic")
        assert refused(reply, bypass) if bypass else reply.status == 200, reply.text


def workload(kind: str, template: Object) -> tuple[str, Object]:
    """The path of a kind and an object of it."""
    template = {**template, "metadata": {"labels": {"a": "b"}}}
    selector = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    once = {"template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}}
    specs: dict[str, tuple[str, Object]] = {
        "deployments": ("apis/apps", selector),
        "replicasets": ("apis/apps", selector),
        "statefulsets": ("apis/apps", {**selector, "serviceName": "s"}),
        "daemonsets": ("apis/apps", selector),
        "replicationcontrollers": ("api", {"selector": {"a": "b"}, "template": template}),
        "jobs": ("apis/batch", once),
        "cronjobs": ("apis/batch", {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": once}}),
    }
    root, spec = specs[kind]
    return f"/{root}/v1/namespaces/%s/{kind}?dryRun=All", {"metadata": {"name": "w"}, "spec": spec}


KINDS = (
    "deployments", "replicasets", "statefulsets", "daemonsets", "replicationcontrollers", "jobs", "cronjobs"
)  # fmt: skip


@pytest.mark.usefixtures("denied")
@pytest.mark.parametrize("kind", KINDS)
def test_workloads_are_refused_as_their_pods_would_be(namespace: str, mallory: Any, kind: str) -> None:
    """Whoever makes the workload reads it, instead of a controller."""
    for body, bypass in ((host("/dev//nvidia0"), Bypass.DEVICE_PATH), (pod(GPU), None)):
        path, made = workload(kind, body)
        reply = mallory.send("POST", path % namespace, made)
        assert refused(reply, bypass) if bypass else reply.status == 201, reply.text


def test_by_default_it_only_warns(release: Any, namespace: str, mallory: Any) -> None:
    """Under every profile: the administrator chooses to refuse."""
    release.set(profile="enforce")
    body = FOUND["a device"][0]

    def warned() -> bool:
        reply = send(mallory, namespace, body)
        return reply.status == 201 and MESSAGES[Bypass.DEVICE_PATH] in reply.headers.get("Warning", "")

    release.sandbox.api().wait(warned, 20, "the guard warns")


def test_excluded_and_excepted_namespaces_are_left_alone(
    release: Any, mallory: Any, make_namespace: Callable[..., str]
) -> None:
    """Those of all guards, and those of this one."""
    storage, other = make_namespace(), make_namespace()
    release.set(profile="enforce", bypass={"action": "deny", "exceptNamespaces": [storage]})
    body = FOUND["privileged with all devices"][0]
    release.sandbox.api().wait(lambda: send(mallory, storage, body).status == 201, 20, "the exception counts")
    assert send(mallory, "kube-system", body).status == 201
    assert refused(send(mallory, other, body), Bypass.PRIVILEGED)


def test_it_can_be_left_out(render: Callable[..., list[Object]]) -> None:
    """Then nothing of it is rendered."""
    kept = [obj["metadata"]["name"] for obj in render({"bypass": {"action": "off"}})]
    assert GUARD not in kept
    found = [obj for obj in render() if obj["metadata"]["name"] == GUARD]
    assert [obj["kind"].removeprefix("ValidatingAdmissionPolicy") for obj in found] == ["", "Binding"]
    assert found[1]["spec"]["validationActions"] == ["Warn", "Audit"]


def large(containers: int, variables: int, value: str) -> Object:
    """A pod of many containers and variables, of which the very last one may hand out devices."""
    plain = [{"name": f"V{n}"} for n in range(variables - 1)]
    last = {"name": "NVIDIA_VISIBLE_DEVICES", "value": value}
    made = [{"name": f"c{n}", "image": "i", "env": [*plain, last]} for n in range(containers)]
    for container in made[:-1]:
        container["env"] = [*plain, {**last, "value": "void"}]
    return pod(containers=made)


LARGE = {"100 containers": (100, 10), "1,000 variables": (1, 1000), "100 containers of 1,000": (100, 1000)}


@pytest.mark.usefixtures("denied")
@pytest.mark.parametrize(("containers", "variables"), LARGE.values(), ids=LARGE)
def test_size_hides_nothing(namespace: str, mallory: Any, containers: int, variables: int) -> None:
    """The last of very many variables is found, within the cost limit and within a moment."""
    assert refused(send(mallory, namespace, large(containers, variables, "all")), Bypass.ENVIRONMENT)
    started = time.monotonic()
    assert send(mallory, namespace, large(containers, variables, "void")).status == 201
    elsewhere = time.monotonic()
    assert send(mallory, "kube-system", large(containers, variables, "void")).status == 201
    ended = time.monotonic()
    assert elsewhere - started < 3 * (ended - elsewhere) + 1


TOO_LARGE: dict[str, Object] = {
    "101 containers": large(101, 1, "void"),
    "1,001 variables": large(1, 1001, "void"),
    "251 annotations": pod(annotations={f"k{n}": "" for n in range(251)}),
    "25,000 annotations": pod(annotations={f"k{n}": "" for n in range(25_000)}),
    "251 volumes": pod(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(251)]),
}


@pytest.mark.usefixtures("denied")
@pytest.mark.parametrize("body", TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_is_too_large_to_read_is_no_way_past(namespace: str, mallory: Any, body: Object) -> None:
    """It is refused unread, and quickly: no error of cost lets it pass."""
    started = time.monotonic()
    reply = send(mallory, namespace, body)
    assert reply.status == 403, reply.text[:300]
    assert "more than the guard of GPUs reads" in reply.text
    assert time.monotonic() - started < 10


@pytest.mark.usefixtures("denied")
def test_very_many_labels_cost_nothing(namespace: str, mallory: Any) -> None:
    """The guard never looks at labels."""
    body = pod()
    body["metadata"]["labels"] = {f"k{n}": "" for n in range(20_000)}
    assert send(mallory, namespace, body).status == 201


def test_the_guard_and_the_offline_rules_are_one_list() -> None:
    """Names, paths and runtimes are written twice, and alike."""
    text = TEMPLATE.read_text()
    (names,) = re.findall(r'^\[("AMD_.*)\]$', text, re.MULTILINE)
    assert tuple(name.strip(' "') for name in names.split(",")) == ENVIRONMENT
    lines = text.splitlines()
    assert DEVICE_PATHS in lines
    assert RUNTIMES in lines
    assert f'key.contains("{CDI}")' in text


@pytest.mark.parametrize(
    "value",
    [None, 5, "x", [], {}, [5], [[]], {"env": 5}, {"hostPath": 5}, [{"env": [None, 5, {}]}], [{"path": 1}]],
)
def test_nothing_fails_offline(value: Any) -> None:
    """Whatever stands where, there are findings or none."""
    fields = ("containers", "initContainers", "volumes", "runtimeClassName", "nodeName", "resourceClaims")
    body = pod()
    for field in fields:
        changed = copy.deepcopy(body)
        changed["spec"][field] = value
        assert isinstance(find_bypasses(changed, is_gpu=False), tuple)
    assert find_bypasses({"spec": value, "metadata": value}, is_gpu=False) == ()
