"""The commands `keep` and `history` on a real API server, with the rights of an ordinary developer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from cli.cluster import namespace_of
from sandbox.install import Installation

KEEP = "gpu-tenure.io/keep-until"
Run = Callable[..., subprocess.CompletedProcess[str]]


def run(*args: str, kubeconfig: Path | str = "/nonexistent") -> subprocess.CompletedProcess[str]:
    """Runs the command line."""
    argv = [sys.executable, "-m", "cli", *args, "--kubeconfig", str(kubeconfig)]
    wide = {**os.environ, "COLUMNS": "220"}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=wide)


@pytest.fixture
def as_developer(installation: Installation, namespace: str) -> Run:
    """Runs the command line as somebody who may edit one namespace, and nothing else."""
    installation.sandbox.api().grant_edit(namespace, "dev-a")
    kubeconfig = installation.sandbox.kubeconfig("dev-a")
    return lambda *args: run(*args, kubeconfig=kubeconfig)


def make_pod(installation: Installation, namespace: str, name: str, resource: str = "nvidia.com/gpu") -> Any:
    """Makes a pod that nobody schedules."""
    spec = {
        "schedulerName": "nobody",
        "containers": [{"name": "main", "image": "x", "resources": {"limits": {resource: "1"}}}],
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    return installation.sandbox.api().create(path, {"metadata": {"name": name}, "spec": spec})


def test_a_developer_keeps_a_pod_and_is_told_what_it_means(
    installation: Installation, namespace: str, as_developer: Run
) -> None:
    """The time is written as it counts; rights that are missing are said."""
    make_pod(installation, namespace, "notebook")
    done = as_developer("keep", "pod/notebook", "--for", "96h", "-n", namespace)
    assert done.returncode == 0, done.stderr
    written = installation.sandbox.api().get(f"/api/v1/namespaces/{namespace}/pods/notebook")
    assert written["metadata"]["annotations"][KEEP] in done.stdout
    assert "not for 96h: a snooze lasts 24h at most" in done.stdout
    assert "No action is announced for it" in done.stdout


def test_what_cannot_be_kept_ends_with_a_sentence(
    installation: Installation, namespace: str, as_developer: Run
) -> None:
    """Pods without GPUs, pods that are not there, pods that one may not see."""
    make_pod(installation, namespace, "plain", "memory")
    done = as_developer("keep", "plain", "--for", "1h", "-n", namespace)
    assert (done.returncode, "holds no GPU" in done.stdout) == (1, True)
    done = as_developer("keep", "missing", "--for", "1h", "-n", namespace)
    assert (done.returncode, "not found" in done.stderr) == (1, True)
    done = as_developer("keep", "other", "--for", "1h", "-n", "kube-system")
    assert (done.returncode, "403" in done.stderr) == (1, True)
    assert done.stderr.startswith("error: ")


REFUSED = [
    pytest.param(("keep", "p", "--for", "soon"), ["--for"], id="no duration"),
    pytest.param(("keep", "a/b/c", "--for", "0s"), ["--for", "POD"], id="no time and no name"),
    pytest.param(("keep", "p", "--for", "1h"), ["--kubeconfig"], id="no such kubeconfig"),
    pytest.param(("history", "--since", "ever"), ["--since"], id="history of no time"),
    pytest.param(("history",), ["--kubeconfig"], id="history of no cluster"),
]


@pytest.mark.parametrize(("args", "said"), REFUSED)
def test_bad_input_is_refused_with_exit_code_two(args: tuple[str, ...], said: list[str]) -> None:
    """One line per error."""
    done = run(*args)
    assert done.returncode == 2
    assert [line.split(":")[1].strip() for line in done.stderr.splitlines()] == said


def reclaim(name: str, phase: str, decided: str, **status: Any) -> dict[str, Any]:
    """Gives a record with its status."""
    spec = {
        "action": "evict",
        "pod": {"name": name, "uid": f"uid-{name}", "node": "node-a"},
        "owner": {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train"},
        "requester": "ann",
        "verdict": {"reason": "BelowThreshold", "sentence": "240 of 240 samples below 5 %"},
        "devices": 2,
        "idleSince": "2020-01-01T00:00:00Z",
        "decidedAt": decided,
        "policy": "default",
        "howToGetBack": "Job train may create it again by itself.",
        "logsURL": f"https://logs.example.com/{name}",
    }
    status = {"phase": phase, "completedAt": decided, **status}
    return {"metadata": {"name": f"pod-uid-{name}"}, "spec": spec, "status": status}


@pytest.fixture
def recorded(installation: Installation, namespace: str) -> str:
    """A namespace with three records."""
    api = installation.sandbox.api()
    path = f"/apis/gpu-tenure.io/v1alpha1/namespaces/{namespace}/gpureclaims"
    now = api.raw("GET", "/version").headers["Date"]
    hour_ago = (parsedate_to_datetime(now) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    killed = {"endedAt": hour_ago, "containers": [{"name": "main", "exitCode": 143}]}
    for body in (
        reclaim("a", "Accepted", hour_ago, **killed, activeAgainAt=hour_ago),
        reclaim("b", "Blocked", hour_ago, message="a budget"),
        reclaim("old", "Accepted", "2020-01-02T00:00:00Z"),
    ):
        made = api.create(path, {**body, "apiVersion": "gpu-tenure.io/v1alpha1", "kind": "GPUReclaim"})
        api.patch(f"{path}/{made['metadata']['name']}/status", {"status": body["status"]})
    return namespace


def test_a_developer_reads_what_was_taken_back(recorded: str, as_developer: Run) -> None:
    """Who, what, when, how it ended and how to get it back; nothing older than was asked for."""
    done = as_developer("history", "-n", recorded, "--since", "7d", "--output", "json")
    assert done.returncode == 0, done.stderr
    found = {one["pod"]: one for one in json.loads(done.stdout)}
    assert set(found) == {"a", "b"}
    assert found["a"]["containers"][0]["exitCode"] == 143
    assert 1.9 < found["a"]["reclaimedDeviceHours"] < 2.2
    assert found["b"]["reclaimedDeviceHours"] == 0
    assert (found["a"]["owner"], found["a"]["requester"], found["a"]["node"]) == (
        "Job train",
        "ann",
        "node-a",
    )
    table = as_developer("history", "-n", recorded).stdout
    for text in (
        "evicted, used again",
        "evict: Blocked",
        "143",
        "https://logs.example.com/a",
        "may create it",
    ):
        assert text in table
    assert "2 GPUs of 1 pod taken back, 2.0 GPU-hours reclaimed; 1 used again within an hour" in table
    assert (
        "Nothing was taken back within 1m." in as_developer("history", "-n", recorded, "--since", "1m").stdout
    )


def test_whoever_may_not_read_all_is_told_to_name_a_namespace(as_developer: Run) -> None:
    """No table of nothing, which would look like an answer."""
    done = as_developer("history")
    assert done.returncode == 1
    assert "name one with -n" in done.stderr


CONTEXTS = """
current-context: two
contexts:
- {name: one, context: {namespace: first}}
- {name: two, context: {namespace: second}}
- {name: three, context: {}}
"""

NAMESPACES = [
    pytest.param(None, "second", id="of the current context"),
    pytest.param("one", "first", id="of the context that was asked for"),
    pytest.param("three", "default", id="default where a context names none"),
    pytest.param("four", "default", id="default for no such context"),
]


@pytest.mark.parametrize(("context", "expected"), NAMESPACES)
def test_the_namespace_is_that_of_kubectl(tmp_path: Path, context: str | None, expected: str) -> None:
    """From the kubeconfig; one that cannot be read is no namespace."""
    path = tmp_path / "config"
    path.write_text(CONTEXTS)
    assert namespace_of(path, context, {}) == expected
    assert namespace_of(None, context, {"KUBECONFIG": f"{tmp_path}/none:{path}"}) == expected
    path.write_text("- [")
    assert namespace_of(path, context, {}) == "default"
