"""An installation's whole life on a real API server: no moment in which pods cannot be created.

Pods are created all the while, and never wait for what is not there yet or not there any more.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import wait
from sandbox.install import CHART, Installation, install_chart
from tests.loads import CPU_POD, DRY_RUN, GPU_POD, PodLoad

MANIFESTS = CHART.parent
PREVIOUS = Path(__file__).parent / "data" / "gpu-tenure-0.0.9.tgz"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{CONFIGURATIONS}/mutatingwebhookconfigurations"
VALIDATING = f"{CONFIGURATIONS}/validatingwebhookconfigurations"
GUARDS = f"{CONFIGURATIONS}/validatingadmissionpolicies"
POLICY = "/apis/gpu-tenure.io/v1alpha1/gpupolicies/default"
CONFIG_MAPS = "/api/v1/namespaces/gpu-tenure-system/configmaps"
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


def test_profiles_with_kubectl_alone(cluster: Sandbox) -> None:
    """Rendered and applied over install.yaml, as docs/install.md says; what others wrote stays."""
    cluster.kubectl("apply", "--server-side", "-f", str(MANIFESTS / "install.yaml"))
    certificates(cluster, "ensure", "--settle=0s")
    pause = {"metadata": {"name": "gpu-tenure-pause"}, "data": {"paused": "true", "reason": "why"}}
    cluster.api().create(CONFIG_MAPS, pause)
    before = bundles(cluster)
    assert (_denies(cluster), _pods_wait(cluster)) == (False, False)
    for profile, waits in (("warn", False), ("enforce", True)):
        _apply_rendered(cluster, profile)
        assert (_denies(cluster), _pods_wait(cluster)) == (True, waits)
        assert bundles(cluster) == before
        assert cluster.api().get(f"{CONFIG_MAPS}/gpu-tenure-pause")["data"] == pause["data"]
        assert _profiles(cluster) == {profile}

    def refused() -> bool:
        # No webhook runs here: what waits for one is refused, and the API server says by whom.
        return "validate.gpu-tenure.io" in cluster.api().raw("POST", DRY_RUN, GPU_POD).text

    wait(refused, 20, "GPU pods wait for the webhook")
    assert cluster.api().raw("POST", DRY_RUN, CPU_POD).status == 201


def _apply_rendered(cluster: Sandbox, profile: str) -> None:
    """Runs the command of the page in a shell, with its profile replaced."""
    page = (MANIFESTS.parent / "docs" / "install.md").read_text()
    (script,) = re.findall(r"```sh\n(helm template .*?)```", page, re.DOTALL)
    assert "profile=enforce" in script
    binaries = cluster.layout.binaries
    kubectl = f"{binaries.path('kubectl')} --kubeconfig={cluster.kubeconfig('admin')}"
    tools = (
        f'kubectl() {{ {kubectl} "$@"; }}\nhelm() {{ {binaries.path("helm")} "$@"; }}\nset -e -o pipefail\n'
    )
    argv = ["bash", "-c", tools + script.replace("profile=enforce", f"profile={profile}")]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False, cwd=MANIFESTS.parent
    )
    assert done.returncode == 0, done.stderr


def _denies(cluster: Sandbox) -> bool:
    """Whether the guard of pods denies."""
    found = cluster.api().get(f"{CONFIGURATIONS}/validatingadmissionpolicybindings/gpu-tenure-guard-pods")
    return "Deny" in found["spec"]["validationActions"]


def _pods_wait(cluster: Sandbox) -> bool:
    """Whether GPU pods wait for the webhook."""
    (configuration,) = cluster.api().list(VALIDATING)
    return any(webhook["failurePolicy"] == "Fail" for webhook in configuration["webhooks"])


def _profiles(cluster: Sandbox) -> set[str]:
    """What the webhook's Deployment and the switches say."""
    deployment = cluster.api().get(
        "/apis/apps/v1/namespaces/gpu-tenure-system/deployments/gpu-tenure-webhook"
    )
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    env = {one["name"]: one.get("value") for one in container["env"]}
    published = cluster.api().get(f"{CONFIG_MAPS}/gpu-tenure-switches")["data"]["profile"]
    return {env["GPU_TENURE_WEBHOOK_PROFILE"], published}


def test_a_kustomization_starts_from_it(cluster: Sandbox, tmp_path: Path) -> None:
    """Another image by a kustomization, as docs/install.md shows."""
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
