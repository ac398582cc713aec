"""The reaper as its Deployment runs it, on a real control plane and Prometheus, with shortened times."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import requests

from reaper.exporters import SOURCES
from sandbox.cluster import Sandbox
from sandbox.faults import FaultProxy
from sandbox.history import write_history
from sandbox.install import Installation

AFTER_MINUTES = 3
POLICY = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "end-to-end"},
    "spec": {
        "priority": 1,
        # The tests write the labels themselves; nothing else in the cluster is selected.
        "namespaceSelector": {"matchLabels": {"end-to-end": "true"}},
        "idle": {"action": "evict", "after": f"{AFTER_MINUTES}m", "grace": "4s", "warmUp": "5s"},
        "classes": {"serving": {"idle": {"action": "evict", "after": f"{AFTER_MINUTES}m"}}},
        "bounds": {"exemption": "30d", "grace": "10m"},
        "contact": {"text": "Ask in gpu-help."},
    },
}
TERMS = {
    "gpu-tenure.io/policy": "end-to-end",
    "gpu-tenure.io/class": "batch",
    "gpu-tenure.io/idle-action": "evict",
    "gpu-tenure.io/idle-after": f"{AFTER_MINUTES}m",
    "gpu-tenure.io/idle-utilization": "5",
    "gpu-tenure.io/idle-statistic": "maximum",
    "gpu-tenure.io/idle-grace": "4s",
    "gpu-tenure.io/idle-warm-up": "5s",
}
SHORTENED = (
    "--cycle=1s",
    "--quiet=0s",
    "--device-percent=100",
    "--actions-per-cycle=50",
    "--actions-per-namespace=50",
    "--brake-idle-percent=101",
    "--brake-unknown-percent=101",
    "--brake-fall-percent=101",
    "--brake-release=0s",
)
# One exporter is asked about instead of all: for tests whose times leave no room for hundreds of queries.
DCGM_ALONE = "--sources=" + json.dumps(
    [{"name": source.name, "enabled": False} for source in SOURCES if source.name != "dcgm"]
)
PREFER_OTHERS = {"key": "end-to-end", "effect": "PreferNoSchedule"}
WARNED = "gpu-tenure.io/reclaim-at"


class Stage:
    """Pods with terms in one namespace and on one node, and what became of them.

    Devices of a node of their own were held by nobody else within the window.
    """

    def __init__(self, sandbox: Sandbox, namespace: str, node: str) -> None:
        self.sandbox = sandbox
        self.namespace = namespace
        self.node = node
        self.api = sandbox.api()
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def pod(
        self,
        name: str,
        activity: str = "idle",
        limits: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **metadata: Any,
    ) -> dict[str, Any]:
        """Makes a pod that has been running for an hour, and waits until it runs."""
        notes = {
            "sandbox.gpu-tenure.io/started-ago": "60m",
            "sandbox.gpu-tenure.io/activity": activity,
            **(annotations or {}),
        }
        resources = {"limits": {key: str(value) for key, value in (limits or {"nvidia.com/gpu": 1}).items()}}
        body = {
            "metadata": {"name": name, "labels": TERMS | (labels or {}), "annotations": notes, **metadata},
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"kubernetes.io/hostname": self.node},
                "containers": [{"name": "main", "image": "registry.example/x:1", "resources": resources}],
            },
        }
        self.api.create(self.pods, body)
        made: dict[str, Any] = self.api.wait_running(self.namespace, name)
        return made

    def history(self, *others: str) -> None:
        """Fills the window of every pod of this namespace, and of others."""
        write_history(self.sandbox, minutes=AFTER_MINUTES + 1, namespaces=[self.namespace, *others])

    def find(self, name: str) -> dict[str, Any] | None:
        """Gives a pod, or None."""
        found: dict[str, Any] | None = self.api.find(f"{self.pods}/{name}")
        return found

    def annotations(self, name: str) -> dict[str, str]:
        """Gives the annotations of a pod; empty if it is gone."""
        found = self.find(name)
        return found["metadata"].get("annotations", {}) if found else {}

    def annotate(self, name: str, key: str, value: str) -> None:
        """Changes an annotation of ours, as a user does."""
        self.api.patch(f"{self.pods}/{name}", {"metadata": {"annotations": {f"gpu-tenure.io/{key}": value}}})

    def active(self, name: str, activity: str) -> None:
        """Changes what a pod's devices do from now on."""
        note = {"sandbox.gpu-tenure.io/activity": activity}
        self.api.patch(f"{self.pods}/{name}", {"metadata": {"annotations": note}})

    def wait_warned(self, *names: str, seconds: float = 25) -> None:
        """Waits until pods carry a warning."""
        self.api.wait(
            lambda: all(WARNED in self.annotations(name) for name in names), seconds, f"{names} are warned"
        )

    def wait_gone(self, *names: str, seconds: float = 30) -> None:
        """Waits until pods are gone."""
        self.api.wait(lambda: not any(self.find(name) for name in names), seconds, f"{names} are gone")

    def records(self) -> list[dict[str, Any]]:
        """Gives the GPUReclaims of the namespace."""
        path = f"/apis/gpu-tenure.io/v1alpha1/namespaces/{self.namespace}/gpureclaims"
        # Right after its definition was written the API server asks to wait.
        self.api.wait(lambda: self.api.raw("GET", path).status != 429, 20, "records can be listed")
        return self.api.list(path)

    def events(self, name: str) -> list[str]:
        """Gives the notes of the Events on a pod."""
        listed = self.api.list(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")
        return [one.get("note", "") for one in listed if one["regarding"]["name"] == name]


@pytest.fixture(scope="module")
def reaping(installation: Installation) -> Iterator[Installation]:
    """The installed chart with the policy of these tests."""
    api = installation.sandbox.api()
    path = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
    api.create(path, POLICY)
    yield installation
    api.delete(f"{path}/end-to-end")


@pytest.fixture
def make_stage(reaping: Installation, make_namespace: Callable[..., str]) -> Iterator[Callable[..., Stage]]:
    """Makes namespaces with a node of their own each, which goes after the test.

    Each has hundreds of series, and Prometheus would answer later and later if all of them stayed.
    """
    nodes: list[str] = []

    def make(labels: Mapping[str, str] | None = None) -> Stage:
        namespace = make_namespace(labels={"end-to-end": "true", **(labels or {})})
        node = f"node-of-{namespace.split('-')[0]}"
        resources = {"nvidia.com/gpu": 40, "nvidia.com/gpumem": 320000, "nvidia.com/gpucores": 400}
        name = {"kubernetes.io/hostname": node}
        reaping.sandbox.add_node(node, resources, labels=name, taints=[PREFER_OTHERS])
        nodes.append(node)
        return Stage(reaping.sandbox, namespace, node)

    yield make
    for node in nodes:
        reaping.sandbox.api().delete(f"/api/v1/nodes/{node}")


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """A namespace and a node of its own."""
    return make_stage()


@pytest.fixture
def terms() -> Mapping[str, str]:
    """The labels of a pod that may be evicted."""
    return TERMS


class Running:
    """A reaper process and what it says of itself."""

    def __init__(self, sandbox: Sandbox, name: str, url: str) -> None:
        self._sandbox = sandbox
        self._name = name
        self.url = url

    def value(self, metric: str, **labels: str) -> float:
        """Gives a value of its metrics; 0 if there is none."""
        text = requests.get(f"{self.url}/metrics", timeout=5).text
        wanted = "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else ""
        found = re.search(rf"^{re.escape(metric + wanted)} (\S+)$", text, re.MULTILINE)
        return float(found.group(1)) if found else 0.0

    def ready(self) -> tuple[int, str]:
        """Gives the status and the text of its readiness."""
        answer = requests.get(f"{self.url}/readyz", timeout=5)
        return answer.status_code, answer.text

    def wait_cycles(self, count: int, result: str = "complete", seconds: float = 40) -> None:
        """Waits until so many more cycles ended in this way."""

        def done() -> float:
            return self.value("gpu_tenure_reaper_cycles_total", result=result)

        before = done()
        self._sandbox.api().wait(lambda: done() >= before + count, seconds, f"{count} cycles are {result}")

    def wait_first_cycle(self) -> None:
        """Waits until a cycle is complete, be it already: for reapers whose next one is far."""
        self._sandbox.api().wait(
            lambda: self.value("gpu_tenure_reaper_cycles_total", result="complete") >= 1,
            40,
            "a first cycle is complete",
        )

    def log(self) -> str:
        """Gives everything it wrote."""
        return self._sandbox.log(self._name).read_text()

    def wait_log(self, text: str, seconds: float = 30) -> None:
        """Waits until it wrote something."""
        self._sandbox.api().wait(lambda: text in self.log(), seconds, f"{self._name} says {text}")

    def kill(self) -> None:
        """Kills it without warning."""
        self._sandbox.kill(self._name)


@pytest.fixture
def start_reaper(reaping: Installation) -> Iterator[Callable[..., Running]]:
    """Starts the reaper for real, with shortened times; it ends with the test."""
    started: list[str] = []

    def start(*args: str, name: str = "reaper") -> Running:
        reaping.sandbox.log(name).unlink(missing_ok=True)
        url = reaping.start_reaper("--profile=enforce", "--no-dry-run", *SHORTENED, *args, name=name)
        started.append(name)
        return Running(reaping.sandbox, name, url)

    yield start
    for name in started:
        if reaping.sandbox.running(name):
            reaping.sandbox.stop(name)


@pytest.fixture
def gpu_tenure(reaping: Installation) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line as the administrator; fails if it does."""
    kubeconfig = str(reaping.sandbox.kubeconfig("admin"))

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "cli", *args, "--kubeconfig", kubeconfig]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)

    return run


@pytest.fixture
def reap_once(reaping: Installation) -> Callable[..., int]:
    """Runs `gpu-tenure reaper --once` with the reaper's own rights; gives its exit code."""
    kubeconfig = str(reaping.sandbox.kubeconfig("reaper"))
    own = (
        "--early-start=365d",
        f"--kubeconfig={kubeconfig}",
        f"--prometheus-url={reaping.sandbox.prometheus_url}",
    )

    def run(*args: str) -> int:
        argv = [sys.executable, "-m", "cli", "reaper", "--once", "--profile=enforce", "--no-dry-run"]
        return subprocess.run([*argv, *own, *SHORTENED, *args], check=False, timeout=60).returncode

    return run


@pytest.fixture
def prometheus_proxy(reaping: Installation) -> Iterator[FaultProxy]:
    """Stands between the reaper and Prometheus."""
    with FaultProxy(reaping.sandbox.prometheus_url) as proxy:
        yield proxy
