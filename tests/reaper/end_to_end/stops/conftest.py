"""The installation under the profile that enforces, with a policy that stops and kinds of other projects."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox.install import Installation
from tests.reaper.end_to_end.stops.owners import KINDS, POLICY, Owners


@pytest.fixture(scope="module")
def stopping(reaping: Installation, install_kinds: Callable[[Any], None]) -> Iterator[Installation]:
    """The chart with the policy of these tests, further kinds, and the guards refusing."""
    install_kinds(reaping.sandbox)
    api = reaping.sandbox.api()
    path = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
    api.create(path, POLICY)
    before = {"profile": reaping.values.get("profile", "observe"), "reaper": {"stop": {"kinds": []}}}
    reaping.upgrade({"profile": "enforce", "reaper": {"stop": {"kinds": KINDS}}})
    reaping.start_webhooks(1)
    api.wait(lambda: _guarded(reaping), 20, "the guard of the reaper is in force for these kinds")
    yield reaping
    reaping.stop_webhooks()
    reaping.upgrade(before)
    api.delete(f"{path}/end-to-end-stop")


def _guarded(installation: Installation) -> bool:
    """Whether the API server has taken up the guard; it does so about once a second, not at the write."""
    body = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "guarded"},
        "spec": {"pytorchReplicaSpecs": {}, "runPolicy": {"activeDeadlineSeconds": 60}},
    }
    api, reaper = installation.sandbox.api(), installation.sandbox.api("reaper")
    path = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
    api.create(path, body)
    patch = {"Content-Type": "application/merge-patch+json"}
    beside = {"spec": {"runPolicy": {"activeDeadlineSeconds": 61}}}
    answer = reaper.raw("PATCH", f"{path}/guarded?dryRun=All", beside, patch)
    api.delete(f"{path}/guarded")
    return "gpu-tenure-guard-reaper" in answer.text


@pytest.fixture
def owners(stopping: Installation, make_stage: Callable[..., Any]) -> Owners:
    """A namespace under the policy that stops."""
    assert stopping.values["profile"] == "enforce"
    return Owners(make_stage({"end-to-end": "false", "end-to-end-stop": "true"}))


@pytest.fixture
def tenure(stopping: Installation, owners: Owners) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line as one of the developers, in the namespace of the test."""

    def run(*args: str, user: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        kubeconfig = str(stopping.sandbox.kubeconfig(user))
        argv = [sys.executable, "-m", "cli", *args, "-n", owners.namespace, "--kubeconfig", kubeconfig]
        return subprocess.run(argv, capture_output=True, text=True, check=check, timeout=60)

    return run


@pytest.fixture
def roles(owners: Owners) -> None:
    """Developer a may edit the namespace, developer b only view it."""
    rbac = "rbac.authorization.k8s.io"
    for user, role in (("dev-a", "edit"), ("dev-b", "view")):
        body = {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        }
        owners.api.create(owners.path(f"{rbac}/v1", "rolebindings"), body)
