"""Which objects the API server sends to the webhook, told by a server that records what comes."""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from certs.issue import issue_ca, issue_leaf
from policy.resources import TABLE
from sandbox.api import Reply
from sandbox.cluster import Sandbox
from sandbox.deadline import utc_now

GPUS = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/mig-3g.40gb.me",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "amd.com/gpu",
]
NOT_GPUS = ["nvidia.com/hostdev", "nvidia.com/gpus", "xnvidia.com/gpu", "nvidia.com/mig-", "amd.com/cpu"]


@dataclass
class Recorder:
    """A webhook that allows everything and remembers what it was asked.

    Attributes:
        url: Its address.
        ca: The PEM of the CA that signed its certificate.
        asked: Path and object kind/name of each review.
    """

    url: str
    ca: bytes
    asked: list[tuple[str, str]] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(body)["request"]
        recorder: Recorder = self.server.recorder  # type: ignore[attr-defined]
        name = request.get("name") or request["object"]["metadata"].get("generateName", "")
        recorder.asked.append((self.path.partition("?")[0], f"{request['kind']['kind']}/{name}"))
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        answer["response"] = {"uid": request["uid"], "allowed": True}  # type: ignore[assignment]
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Says nothing."""


@pytest.fixture(scope="module")
def recorder(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """The recording server, behind TLS as a webhook has to be."""
    folder: Path = tmp_path_factory.mktemp("tls")
    now = utc_now()
    ca = issue_ca("recorder", now, days=1)
    leaf = issue_leaf(ca, ["localhost"], ["127.0.0.1"], now, days=1)
    (folder / "cert").write_bytes(leaf.cert_pem)
    (folder / "key").write_bytes(leaf.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    server = ThreadingHTTPServer(("127.0.0.1", sandbox.free_port()), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    server.recorder = Recorder(f"https://127.0.0.1:{server.server_port}", ca.cert_pem)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.recorder  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def asked(release: Any, recorder: Recorder, sandbox: Sandbox) -> list[tuple[str, str]]:
    """What the recorder was asked since the test began; under `enforce` a CEL error refuses the object."""
    release.set(
        profile="enforce",
        webhook={"url": recorder.url},
        tls={"caBundle": base64.b64encode(recorder.ca).decode()},
    )
    probe = pod({"limits": {"nvidia.com/gpu": "1"}})
    path = "/api/v1/namespaces/default/pods?dryRun=All"

    def called() -> bool:
        recorder.asked.clear()
        return sandbox.api().raw("POST", path, probe).status == 201 and len(recorder.asked) == 2

    sandbox.api().wait(called, 20, "both configurations call the recorder")
    recorder.asked.clear()
    return recorder.asked


def pod(resources: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of one container with these resources."""
    container = {"name": "c", "image": "i", "resources": resources or {}}
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": [container], **spec}}


def job(spec: dict[str, Any], name: str = "j") -> dict[str, Any]:
    """A suspended Job of such pods."""
    template = {"spec": {**spec, "restartPolicy": "Never"}}
    return {"metadata": {"name": name}, "spec": {"suspend": True, "template": template}}


@pytest.fixture
def create(sandbox: Sandbox, namespace: str) -> Callable[..., Reply]:
    """Tries to create a pod or Job in the test's namespace or another, keeping nothing."""

    def call(body: dict[str, Any], space: str = "", resource: str = "/api/v1|pods") -> Reply:
        base, _, plural = resource.partition("|")
        return sandbox.api().raw("POST", f"{base}/namespaces/{space or namespace}/{plural}?dryRun=All", body)

    return call


GPU_PODS: dict[str, dict[str, Any]] = {
    **{f"limits of {name}": pod({"limits": {name: "1"}}) for name in GPUS},
    "requests in a companion's shape": pod(
        {"requests": {"nvidia.com/gpucores": "50"}, "limits": {"nvidia.com/gpucores": "50"}}
    ),
    "in an init container": pod(
        None, initContainers=[{"name": "i", "image": "i", "resources": {"limits": {"amd.com/gpu": "1"}}}]
    ),
    "in the last of many containers": pod(
        None,
        containers=[
            *({"name": f"c{number}", "image": "i"} for number in range(99)),
            {"name": "last", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
        ],
    ),
    "beside other resources": pod({"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}),
    "none of it (zero devices)": pod({"limits": {"nvidia.com/gpu": "0"}}),
    "one container too many to be read": pod(
        None, containers=[{"name": f"c{number}", "image": "i"} for number in range(101)]
    ),
    "hidden behind very many names": pod({"limits": {f"example.com/r{number}": "1" for number in range(17)}}),
}


@pytest.mark.parametrize("body", GPU_PODS.values(), ids=GPU_PODS)
def test_gpu_pods_are_reviewed(
    asked: list[tuple[str, str]], create: Callable[..., Reply], body: dict[str, Any]
) -> None:
    """Once by each configuration."""
    assert create(body).status == 201
    assert [path for path, _ in asked] == ["/mutate", "/validate"]


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


ALMOST = [f"nvidia.com/mig-{'A' * 50}{number:02d}" for number in range(16)]


@pytest.mark.parametrize(
    "body",
    [big(100, 1_000), big(100, 10_000), big(100, 100, ALMOST)],
    ids=["100 containers, 1,000 variables", "ten times the variables", "the most expensive that is read"],
)
def test_large_cpu_pods_stay_within_the_cost_limit(
    asked: list[tuple[str, str]], create: Callable[..., Reply], body: dict[str, Any]
) -> None:
    """A condition beyond its limit is an error, and under `enforce` an error refuses the pod."""
    reply = create(body)
    assert reply.status == 201, reply.text
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
    """By the mutating configuration alone."""
    assert create(job(spec), resource="/apis/batch/v1|jobs").status == 201
    assert asked == ([("/mutate", "Job/j")] if reviewed else [])


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


def test_conditions_and_policy_know_the_same_names(render: Callable[..., list[dict[str, Any]]]) -> None:
    """Every row of the table stands in every condition, as a name or as a pattern, and nothing else does."""
    plain = {rule.pattern.replace("\\.", ".") for rule in TABLE if _is_plain(rule.pattern)}
    patterns = {rule.pattern for rule in TABLE if not _is_plain(rule.pattern)}
    conditions = [
        condition["expression"]
        for obj in render()
        for webhook in obj.get("webhooks", [])
        for condition in webhook["matchConditions"]
    ]
    assert len(conditions) == 3
    for expression in conditions:
        (names,) = re.findall(r"name in (\[.*?\])", expression)
        assert set(json.loads(names)) == plain
        assert set(re.findall(r"matches\(r'\^\((.*?)\)\$'\)", expression)) == patterns


def _is_plain(pattern: str) -> bool:
    return re.fullmatch(r"(\w|/|-|\\\.)+", pattern) is not None
