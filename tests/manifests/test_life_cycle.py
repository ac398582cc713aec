"""An installation's whole life on a real API server: no moment in which pods cannot be created.

Pods are created all the while, and never wait for what is not there yet or not there any more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.install import CHART, Installation, install_chart
from tests.loads import CPU_POD, PodLoad

MANIFESTS = CHART.parent
PREVIOUS = Path(__file__).parent / "data" / "gpu-tenure-0.0.9.tgz"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{CONFIGURATIONS}/mutatingwebhookconfigurations"
VALIDATING = f"{CONFIGURATIONS}/validatingwebhookconfigurations"
GUARDS = f"{CONFIGURATIONS}/validatingadmissionpolicies"
POLICY = "/apis/gpu-tenure.io/v1alpha1/gpupolicies/default"
DRAIN = "--drain=2s"


@pytest.fixture
def cluster(kubernetes: str) -> Iterator[Sandbox]:
    """A control plane of its own: what is installed and removed concerns the whole cluster."""
    options = SandboxOptions(prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes)
    with Sandbox.start(options) as started:
        yield started


def certificates(sandbox: Sandbox, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs `gpu-tenure certs` as the administrator."""
    argv = [sys.executable, "-m", "cli", "certs", *args, f"--kubeconfig={sandbox.kubeconfig('admin')}"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, env=dict(os.environ))


def bundles(sandbox: Sandbox) -> list[str]:
    """The caBundle of every webhook."""
    found = [*sandbox.api().list(MUTATING), *sandbox.api().list(VALIDATING)]
    webhooks = [webhook for configuration in found for webhook in configuration["webhooks"]]
    return [webhook["clientConfig"].get("caBundle", "") for webhook in webhooks]


def test_with_kubectl_alone(cluster: Sandbox) -> None:
    """Applied to a fresh cluster, completed, applied again, deleted: as docs/install.md says."""
    file = str(MANIFESTS / "install.yaml")
    apply = ("apply", "--server-side", "-f", file)
    gpu, cpu = PodLoad(cluster.api()), PodLoad(cluster.api(), CPU_POD)
    with gpu.running(), cpu.running():
        gpu.goes_on()
        cluster.kubectl(*apply)
        gpu.goes_on()
        wait_for = ("wait", "--for=condition=Established", "crd/gpupolicies.gpu-tenure.io", "--timeout=30s")
        cluster.kubectl(*wait_for)
        cluster.kubectl("create", "-f", str(MANIFESTS / "examples" / "policies" / "default.yaml"))
        certificates(cluster, "ensure", "--settle=0s")
        assert all(bundles(cluster))
        # Again: what certs wrote stays, and the administrator's policy too.
        cluster.api().patch(POLICY, {"spec": {"priority": 7}})
        before = bundles(cluster)
        cluster.kubectl(*apply)
        assert bundles(cluster) == before
        assert cluster.api().get(POLICY)["spec"]["priority"] == 7
        gpu.goes_on()
        cluster.kubectl("delete", "-f", file, "--wait=false")
        gpu.goes_on()
    assert gpu.refused() == []
    assert cpu.refused() == []
    assert cluster.api().list(GUARDS) == []


def test_a_kustomization_starts_from_it(cluster: Sandbox, tmp_path: Path) -> None:
    """Another image and profile by patches, as docs/install.md shows."""
    base, overlay = tmp_path / "base", tmp_path / "overlay"
    base.mkdir()
    overlay.mkdir()
    for name in ("install.yaml", "kustomization.yaml"):
        (base / name).write_text((MANIFESTS / name).read_text())
    (overlay / "kustomization.yaml").write_text(
        json.dumps(
            {
                "resources": ["../base"],
                "images": [{"name": "gpu-tenure", "newName": "registry.example.com/gpu-tenure"}],
            }
        )
    )
    built = cluster.kubectl("kustomize", str(overlay)).stdout
    assert built.count("image: registry.example.com/gpu-tenure:") == 3
    done = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=_namespaced(built))
    assert "gpu-tenure-webhook" in done.stdout


def _namespaced(text: str) -> str:
    """What a dry run can take: the namespace would only exist afterwards."""
    return text.replace("namespace: gpu-tenure-system", "namespace: default")


def test_from_the_previous_chart_and_back_under_load(cluster: Sandbox) -> None:
    """An upgrade, a rollback and the upgrade again under enforce: no creation fails or misses its terms."""
    values: dict[str, Any] = {"profile": "observe"}
    installation = install_chart(cluster, values, PREVIOUS, tls_source=None)
    installation.start_webhooks(2, [DRAIN])
    installation.upgrade({"profile": "enforce"})
    load = PodLoad(cluster.api())
    with load.running():
        load.goes_on()
        installation.use_chart(CHART)
        installation.upgrade({"tls": {"source": "secret"}})
        _replace(installation, load)
        installation.roll_back()
        load.goes_on()
        installation.upgrade({})
        load.goes_on()
    assert load.failures() == []
    (configuration,) = cluster.api().list(VALIDATING)
    pods = next(one for one in configuration["webhooks"] if one["name"] == "validate.gpu-tenure.io")
    assert pods["failurePolicy"] == "Fail"
    assert all(bundles(cluster))


def _replace(installation: Installation, load: PodLoad) -> None:
    """Replaces the replicas as a Deployment does."""
    for old in tuple(installation.webhooks):
        installation.start_webhooks(1, [DRAIN])
        installation.stop_webhooks([old], 30)
        load.goes_on()


def test_a_first_installation_and_an_uninstallation_under_load(cluster: Sandbox) -> None:
    """Even with the profile enforce at once: pods wait for nothing that has not been there before."""
    gpu, cpu = PodLoad(cluster.api()), PodLoad(cluster.api(), CPU_POD)
    with gpu.running(), cpu.running():
        gpu.goes_on()
        installation = install_chart(cluster, {"profile": "enforce"})
        gpu.goes_on()
        installation.start_webhooks(2, [DRAIN])
        installation.upgrade({})
        gpu.goes_on()
        installation.uninstall()
        gpu.goes_on()
    assert gpu.refused() == []
    assert cpu.refused() == []
    assert cluster.api().list(GUARDS) == []
    assert cluster.api().list(VALIDATING) == []
