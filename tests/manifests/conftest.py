"""The chart, rendered by Helm and installed on a control plane of its own where no process of ours runs."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs.issue import issue_ca, issue_leaf
from policy.workloads import WORKLOADS
from sandbox.api import PATCH_TYPES, Reply
from sandbox.binaries import ensure
from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import utc_now

ROOT = Path(__file__).parents[2]
CHART = ROOT / "manifests" / "chart"
OWN = "gpu-tenure-system"
NAMESPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
Asked = list[tuple[str, str]]
Render = Callable[..., list[dict[str, Any]]]

# Everything that Kubernetes' own roles could give, and none of our virtual rights.
POWERS = [
    {"apiGroups": ["", "apps", "batch", "policy"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": sorted({kind.group for kind in WORKLOADS}), "resources": ["*"], "verbs": ["*"]},
]
GPU_SPEC = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
PROBE_SPEC = {"schedulerName": "by-hand", "containers": [{"name": "c", "image": "i"}]}


@dataclass(frozen=True)
class Writer:
    """Sends requests as some user."""

    sandbox: Sandbox
    user: str

    def send(self, method: str, path: str, body: Any = None, kind: str = "merge") -> Reply:
        """Sends one request; `kind` is that of a patch. A refusal is an answer, not an error."""
        headers = {"Impersonate-User": self.user}
        if method == "PATCH":
            headers["Content-Type"] = PATCH_TYPES[kind]
        return self.sandbox.api().raw(method, path, body, headers, timeout=90)

    def patch(self, path: str, body: Any, kind: str = "merge") -> Reply:
        """Patches an object."""
        return self.send("PATCH", path, body, kind)


class Release:
    """The installed chart, whose values tests change."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.values: dict[str, Any] = {}

    def set(self, **values: Any) -> None:
        """Installs or upgrades with these values and no others; returns when they count."""
        if values == self.values:
            return
        # Nothing ever listens on port 1: what passes and what is refused is the API server's own doing.
        own = {"deployments": {"enabled": False}, "webhook": {"url": "https://127.0.0.1:1"}}
        path = self.sandbox.dir / "chart-values.json"
        path.write_text(json.dumps({**own, **values}))
        self.sandbox.helm(
            *("upgrade", "gpu-tenure", str(CHART), "--install", "--create-namespace"),
            *(f"--namespace={OWN}", f"--values={path}"),
        )
        self.values = values
        self.sandbox.api().wait(self._settled, 20, "the guards are those of these values")

    def _settled(self) -> bool:
        """Probes every guard with dry runs: they reach the API server's caches one by one, in a moment."""
        denies = self.values.get("profile", "observe") != "observe"
        key = "gpu-tenure.io/class"
        expected = {
            "bindings": denies,
            "bypass": self.values.get("bypass", {}).get("action") == "deny",
            "jobs": denies,
            "namespaces": True,
            "pods": denies,
            "reaper": denies,
            "requesters": denies,
            "selectors": True,
        }
        probe, patch = Writer(self.sandbox, "probe"), {"metadata": {"labels": {key: "x", "probe": "x"}}}
        reaper = Writer(self.sandbox, f"system:serviceaccount:{OWN}:gpu-tenure-reaper")
        pod, job = f"{NAMESPACES}/default/pods/probe", "/apis/batch/v1/namespaces/default/jobs/probe"
        annotation = {"metadata": {"annotations": {"gpu-tenure.io/deadline": "kept"}}}
        bound = {"metadata": {"name": "x", "labels": {key: "x"}}, "target": {"kind": "Node", "name": "x"}}
        opted_out = {"metadata": {"name": "x", "labels": {"gpu-tenure.io/enforcement": "disabled"}}}
        template = {"metadata": {"labels": {key: "x"}}, "spec": PROBE_SPEC}
        selecting = {"metadata": {"name": "x"}, "spec": {"selector": {key: "x"}, "template": template}}
        asking = {"metadata": {"annotations": {"gpu-tenure.io/requested-by": "x"}}}
        placed = {"metadata": {"name": "placed"}, "spec": {**PROBE_SPEC, "nodeName": "x"}}
        replies = {
            "bypass": probe.send("POST", f"{NAMESPACES}/default/pods?dryRun=All", placed),
            "bindings": probe.send("POST", f"{NAMESPACES}/default/bindings?dryRun=All", bound),
            "jobs": probe.patch(f"{job}?dryRun=All", annotation),
            "namespaces": probe.send("POST", f"{NAMESPACES}?dryRun=All", opted_out),
            "pods": probe.patch(f"{pod}?dryRun=All", patch),
            "reaper": reaper.patch(f"{pod}?dryRun=All", patch),
            "requesters": probe.patch(f"{job}?dryRun=All", {"spec": {"template": asking}}),
            "selectors": probe.send(
                "POST", f"{NAMESPACES}/default/replicationcontrollers?dryRun=All", selecting
            ),
        }
        found = {name: _refuses(reply, name) for name, reply in replies.items()}
        return found == expected


def _refuses(reply: Reply, guard: str) -> bool:
    return reply.status >= 400 and f"'gpu-tenure-guard-{guard}'" in reply.text


@pytest.fixture(scope="session")
def sandbox(kubernetes: str) -> Iterator[Sandbox]:
    """A control plane for the chart alone: its guards hold for the whole cluster."""
    options = SandboxOptions(prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes)
    with Sandbox.start(options) as started:
        started.add_node("node-a", {"nvidia.com/gpu": 64})
        api = started.api()
        api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "all-but-ours"}, "rules": POWERS})
        api.create(f"{NAMESPACES}/default/pods", {"metadata": {"name": "probe"}, "spec": PROBE_SPEC})
        job = {"suspend": True, "template": {"spec": {**PROBE_SPEC, "restartPolicy": "Never"}}}
        api.create("/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "probe"}, "spec": job})
        for user in ("mallory", "terms-admin", "enforcement-admin", "probe"):
            bind(started, user, "all-but-ours")
        yield started


@pytest.fixture(scope="session")
def release(sandbox: Sandbox) -> Release:
    """The chart, installed with the profile `enforce`; the first test that wants another sets it."""
    release = Release(sandbox)
    release.set(profile="enforce")
    bind(sandbox, "terms-admin", "gpu-tenure-terms-admin")
    bind(sandbox, "enforcement-admin", "gpu-tenure-enforcement-admin")
    return release


@pytest.fixture
def enforce(release: Release) -> Release:
    """The chart with the profile `enforce`."""
    release.set(profile="enforce")
    return release


@pytest.fixture
def writer(sandbox: Sandbox) -> Callable[[str], Writer]:
    """Gives a writer by user name."""
    return lambda user: Writer(sandbox, user)


@pytest.fixture
def mallory(sandbox: Sandbox) -> Writer:
    """Whoever may write everything, but has none of our rights."""
    return Writer(sandbox, "mallory")


@pytest.fixture
def reaper(sandbox: Sandbox) -> Writer:
    """The reaper's identity with the rights of its account."""
    return Writer(sandbox, f"system:serviceaccount:{OWN}:gpu-tenure-reaper")


@pytest.fixture(scope="session")
def render() -> Render:
    """Renders the chart with values into its objects, as a first installation or an upgrade."""
    helm = ensure(os.environ, ["helm"]).path("helm")

    def call(
        values: Mapping[str, Any] | None = None, namespace: str = OWN, *, upgrade: bool = False
    ) -> list[dict[str, Any]]:
        argv = [helm, "template", "gpu-tenure", str(CHART), f"--namespace={namespace}", "--values=-"]
        argv += ["--is-upgrade"] * upgrade
        done = subprocess.run(
            argv, input=json.dumps(values or {}), capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise ValueError(done.stderr)
        return [obj for obj in yaml.safe_load_all(done.stdout) if obj]

    return call


def bind(sandbox: Sandbox, user: str, role: str) -> None:
    """Gives a user a role in the whole cluster."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    body = {
        "metadata": {"name": f"{role}-{user}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    sandbox.api().create(f"{RBAC}/clusterrolebindings", body)


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
    ca = issue_ca("recorder", now, timedelta(days=1))
    leaf = issue_leaf(ca, ["localhost"], ["127.0.0.1"], now, timedelta(days=1))
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
def asking(release: Release, recorder: Recorder, sandbox: Sandbox) -> Callable[..., Asked]:
    """Installs the chart with further values and gives what the recorder is asked from then on.

    The profile is `enforce`: there a CEL error refuses the object.
    """
    probe = {"metadata": {"generateName": "p-"}, "spec": GPU_SPEC}
    path = f"{NAMESPACES}/default/pods?dryRun=All"

    def called() -> bool:
        recorder.asked.clear()
        return sandbox.api().raw("POST", path, probe).status == 201 and len(recorder.asked) == 2

    def install(**values: Any) -> Asked:
        bundle = {"source": "secret", "caBundle": base64.b64encode(recorder.ca).decode()}
        release.set(profile="enforce", webhook={"url": recorder.url}, tls=bundle, **values)
        sandbox.api().wait(called, 20, "both configurations call the recorder")
        recorder.asked.clear()
        return recorder.asked

    return install


@pytest.fixture
def asked(asking: Callable[..., Asked]) -> Asked:
    """What the recorder was asked since the test began."""
    return asking()


@pytest.fixture
def create(sandbox: Sandbox, namespace: str) -> Callable[..., Reply]:
    """Tries to create a pod or Job in the test's namespace or another, keeping nothing."""

    def call(body: dict[str, Any], space: str = "", resource: str = "/api/v1|pods") -> Reply:
        base, _, plural = resource.partition("|")
        return sandbox.api().raw("POST", f"{base}/namespaces/{space or namespace}/{plural}?dryRun=All", body)

    return call
