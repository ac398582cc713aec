"""The removal of docs/install.md while pods are created, with webhooks that end with their Deployment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import wait
from sandbox.install import CHART
from sandbox.kubelet.run import Kubelet
from tests.loads import CPU_POD, DRY_RUN, GPU_POD, POLICY, PodLoad

PAGE = (CHART.parents[1] / "docs" / "install.md").read_text()
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
PODS = "/api/v1/namespaces/gpu-tenure-system/pods"


def removal() -> list[list[str]]:
    """The commands of the page, in their order."""
    (block,) = re.findall(r"^## Remove\n.*?```sh\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    return [shlex.split(line, comments=True) for line in block.splitlines()]


@pytest.fixture
def cluster(kubernetes: str) -> Iterator[Sandbox]:
    """A cluster that enforces, by the chart as it is: what it installs runs."""
    options = SandboxOptions(
        prometheus=False, alertmanager=False, exporter=False, kubelet=True, kubernetes=kubernetes
    )
    with Sandbox.start(options) as sandbox, Kubelet(sandbox):
        sandbox.add_node("node-a", {"nvidia.com/gpu": 8})
        helm = ("upgrade", "gpu-tenure", str(CHART), "--install", "--create-namespace")
        enforce = (*helm, "--namespace=gpu-tenure-system", "--set=profile=enforce")
        sandbox.helm(*enforce)
        sandbox.helm(*enforce)
        wait(lambda: _has_terms(sandbox), 120, "pods get their terms")
        yield sandbox


def _has_terms(sandbox: Sandbox) -> bool:
    """Whether both webhooks are called: the API server trusts them and they are ready."""
    reply = sandbox.api().raw("POST", DRY_RUN, GPU_POD)
    return reply.status == 201 and POLICY in (reply.json["metadata"].get("labels") or {})


def _fails_closed(sandbox: Sandbox) -> bool:
    (configuration,) = sandbox.api().list(VALIDATING)
    return any(webhook["failurePolicy"] == "Fail" for webhook in configuration["webhooks"])


def test_by_the_steps_of_the_page_no_creation_fails(cluster: Sandbox) -> None:
    """Helm alone would delete what is called before what calls it."""
    assert _fails_closed(cluster)
    gpu, cpu = PodLoad(cluster.api()), PodLoad(cluster.api(), CPU_POD)
    with gpu.running(), cpu.running():
        gpu.goes_on()
        for tool, *args in removal():
            {"kubectl": cluster.kubectl, "helm": cluster.helm}[tool](*args)
            gpu.goes_on()
        wait(lambda: cluster.api().list(PODS) == [], 90, "nothing of ours runs")
        gpu.goes_on()
    assert gpu.refused() == []
    assert cpu.refused() == []
    assert cluster.api().list(VALIDATING) == []
