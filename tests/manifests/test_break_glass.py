"""The steps of docs/break-glass.md, as they are written there, on a real API server."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import monotonic, wait
from sandbox.install import CHART, Installation, install_chart
from tests.loads import DRY_RUN, GPU_POD

PAGE = (CHART.parents[1] / "docs" / "break-glass.md").read_text()
PODS = "/api/v1/namespaces/team/pods"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/gpu-tenure"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
# Each step works within a minute, as the page says.
MINUTE = 60.0


@pytest.fixture(scope="module")
def site(kubernetes: str) -> Iterator[Installation]:
    """An enforced cluster of its own, in which things will be deleted."""
    options = SandboxOptions(prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes)
    with Sandbox.start(options) as sandbox:
        sandbox.add_node("node-a", {"nvidia.com/gpu": 8})
        sandbox.api().create_namespace("team")
        installation = install_chart(sandbox)
        installation.upgrade({"profile": "enforce"})
        installation.start_webhooks(1)
        policy = "/apis/gpu-tenure.io/v1alpha1/gpupolicies/default"
        sandbox.api().patch(policy, {"spec": {"deadline": {"default": "2h", "max": "3h"}}})
        wait(lambda: "activeDeadlineSeconds" in _pod(sandbox)["spec"], 30, "deadlines are written")
        yield installation


def _pod(sandbox: Sandbox, namespace: str = "team") -> dict[str, Any]:
    """A GPU pod as it would be admitted; empty if it is refused."""
    path = DRY_RUN.replace("/default/", f"/{namespace}/")
    reply = sandbox.api().raw("POST", path, GPU_POD)
    return reply.json if reply.status == 201 else {"spec": {}, "metadata": {}}


def said(beginning: str, **names: str) -> list[str]:
    """A command of the page, with its names filled in."""
    text = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    (command,) = {found for found in re.findall(r"`([^`]+)`", text) if found.startswith(beginning)}
    for name, value in names.items():
        command = command.replace(name, value)
    return shlex.split(command)


def run(site: Installation, command: list[str]) -> str:
    """Runs `kubectl` or `gpu-tenure` as the administrator."""
    if command[0] == "kubectl":
        return site.sandbox.kubectl(*command[1:]).stdout
    argv = [sys.executable, "-m", "cli", *command[1:], f"--kubeconfig={site.sandbox.kubeconfig('admin')}"]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


@contextmanager
def within_a_minute() -> Iterator[None]:
    """From the command to what it does, both included."""
    began = monotonic()
    yield
    took = monotonic() - began
    assert took < MINUTE, f"it took {took:.1f} s"


def test_pods_with_a_deadline_of_ours_are_listed(site: Installation) -> None:
    """By the loop of the page, in a shell."""
    api = site.sandbox.api()
    api.create(PODS, GPU_POD | {"metadata": {"name": "injected"}})
    spec = GPU_POD["spec"] | {"activeDeadlineSeconds": 90_000}
    api.create(PODS, {"metadata": {"name": "lowered"}, "spec": spec})
    spec = GPU_POD["spec"] | {"activeDeadlineSeconds": 60}
    api.create(PODS, {"metadata": {"name": "kept"}, "spec": spec})
    (script,) = re.findall(r"```sh\n(for how in.*?)```", PAGE, re.DOTALL)
    kubectl = (
        f"{site.sandbox.layout.binaries.path('kubectl')} --kubeconfig={site.sandbox.kubeconfig('admin')}"
    )
    script = f'kubectl() {{ {kubectl} "$@"; }}\n{script}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    listed = [line.split()[:2] for line in done.stdout.splitlines()]
    assert listed == [["team/injected", "7200s"], ["team/lowered", "10800s"]]


def test_a_pause_needs_no_command_of_ours(site: Installation) -> None:
    """The patch of the page, and the way back."""
    (command,) = re.findall(r"`(kubectl -n gpu-tenure-system patch configmap [^`]+)`", PAGE)
    run(site, ["gpu-tenure", "pause", "--reason", "why", "--for", "1s"])
    wait(lambda: "paused" not in run(site, ["gpu-tenure", "status"]), 20, "that pause has ended")
    run(site, shlex.split(command))
    assert "paused: why" in run(site, ["gpu-tenure", "status"])
    path = "/api/v1/namespaces/gpu-tenure-system/configmaps/gpu-tenure-pause"
    assert site.sandbox.api().get(path)["data"]["paused"] == "true"
    assert "not paused" in run(site, ["gpu-tenure", "unpause"])
    assert "paused until" in run(site, said("gpu-tenure pause"))
    assert site.sandbox.api().get(path)["data"]["reason"] == "why"
    run(site, ["gpu-tenure", "unpause"])


def test_one_namespace_is_left_out_and_comes_back(site: Installation) -> None:
    """For the next pod."""
    assert "gpu-tenure.io/policy" in _pod(site.sandbox)["metadata"]["labels"]
    with within_a_minute():
        run(site, said("kubectl label namespace NAME gpu-tenure.io/enforcement=disabled", NAME="team"))
        wait(lambda: not _pod(site.sandbox)["metadata"].get("labels"), MINUTE, "its pods are left alone")
    run(site, said("kubectl label namespace NAME gpu-tenure.io/enforcement-", NAME="team"))
    wait(lambda: bool(_pod(site.sandbox)["metadata"].get("labels")), 20, "its pods get terms again")


def test_a_dead_webhook_is_taken_out_of_the_way_and_put_back(site: Installation) -> None:
    """GPU pods wait for nobody any more; an upgrade makes again what was deleted."""
    api = site.sandbox.api()
    bindings = len(api.list(BINDINGS))
    for name in tuple(site.webhooks):
        site.sandbox.stop(name, seconds=0)
    wait(lambda: api.raw("POST", DRY_RUN, GPU_POD).status == 500, 20, "GPU pods are refused")
    with within_a_minute():
        run(site, said("kubectl delete validatingwebhookconfiguration"))
        wait(lambda: api.raw("POST", DRY_RUN, GPU_POD).status == 201, MINUTE, "GPU pods are admitted")
    with within_a_minute():
        run(site, said("kubectl delete mutatingwebhookconfiguration"))
        run(site, said("kubectl delete validatingadmissionpolicybinding"))
    assert api.list(BINDINGS) == []
    site.webhooks = {}
    site.start_webhooks(1)
    site.upgrade({})
    assert api.get(VALIDATING)
    assert len(api.list(BINDINGS)) == bindings > 0
    wait(lambda: "activeDeadlineSeconds" in _pod(site.sandbox)["spec"], 30, "deadlines are written again")


def test_the_profile_observe_refuses_and_writes_nothing(site: Installation) -> None:
    """When the webhooks have been replaced, as their Deployment does by itself."""
    with within_a_minute():
        site.upgrade({"profile": "observe"})
        for old in tuple(site.webhooks):
            site.start_webhooks(1)
            site.stop_webhooks([old])
        assert "activeDeadlineSeconds" not in _pod(site.sandbox)["spec"]
    site.upgrade({"profile": "enforce"})


def test_all_of_it_stops_within_a_minute(site: Installation) -> None:
    """A running reaper, both webhooks and the guards: no step first, and none waits for another's end."""
    api = site.sandbox.api()
    reaper = site.start_reaper("--cycle=1s", "--quiet=0s")
    wait(lambda: _paused(reaper) == "0.0", 30, "the reaper is not paused")
    site.stop_webhooks()
    site.start_webhooks(2)
    wait(lambda: "activeDeadlineSeconds" in _pod(site.sandbox)["spec"], 30, "deadlines are written")
    with within_a_minute():
        run(site, said("gpu-tenure pause"))
        run(site, said("kubectl delete validatingwebhookconfiguration"))
        run(site, said("kubectl delete mutatingwebhookconfiguration"))
        run(site, said("kubectl delete validatingadmissionpolicybinding"))
        wait(lambda: _paused(reaper) == "1.0", MINUTE, "the reaper is paused")
        wait(lambda: _pod(site.sandbox)["metadata"].get("name"), MINUTE, "GPU pods are admitted")
        wait(lambda: not _pod(site.sandbox)["metadata"].get("labels"), MINUTE, "and left alone")
    assert api.list(BINDINGS) == []


def _paused(reaper: str) -> str:
    """What the reaper shows of the pause; empty before its first cycle."""
    text = requests.get(f"{reaper}/metrics", timeout=10).text
    found = re.search(r"^gpu_tenure_reaper_paused (\S+)$", text, re.MULTILINE)
    return found[1] if found else ""
