"""The chart, rendered by Helm and installed on a control plane of its own where no process of ours runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.api import PATCH_TYPES, Reply
from sandbox.binaries import ensure
from sandbox.cluster import Sandbox, SandboxOptions

ROOT = Path(__file__).parents[2]
CHART = ROOT / "manifests" / "chart"
OWN = "gpu-tenure-system"
NAMESPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
Render = Callable[..., list[dict[str, Any]]]

# Everything that Kubernetes' own roles could give, and none of our virtual rights.
POWERS = [
    {"apiGroups": ["", "apps", "batch", "policy"], "resources": ["*"], "verbs": ["*"]},
]
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
            "jobs": denies,
            "namespaces": True,
            "pods": denies,
            "reaper": denies,
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
        replies = {
            "bindings": probe.send("POST", f"{NAMESPACES}/default/bindings?dryRun=All", bound),
            "jobs": probe.patch(f"{job}?dryRun=All", annotation),
            "namespaces": probe.send("POST", f"{NAMESPACES}?dryRun=All", opted_out),
            "pods": probe.patch(f"{pod}?dryRun=All", patch),
            "reaper": reaper.patch(f"{pod}?dryRun=All", patch),
            "selectors": probe.send(
                "POST", f"{NAMESPACES}/default/replicationcontrollers?dryRun=All", selecting
            ),
        }
        found = {name: _refuses(reply, name) for name, reply in replies.items()}
        return found == expected


def _refuses(reply: Reply, guard: str) -> bool:
    return reply.status >= 400 and f"'gpu-tenure-guard-{guard}'" in reply.text


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A control plane for the chart alone: its guards hold for the whole cluster."""
    with Sandbox.start(SandboxOptions(prometheus=False, alertmanager=False, exporter=False)) as started:
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
    """Renders the chart with values into its objects; `check=False` gives what Helm said instead."""
    helm = ensure(os.environ, ["helm"]).path("helm")

    def call(values: Mapping[str, Any] | None = None, namespace: str = OWN) -> list[dict[str, Any]]:
        argv = [helm, "template", "gpu-tenure", str(CHART), f"--namespace={namespace}", "--values=-"]
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
