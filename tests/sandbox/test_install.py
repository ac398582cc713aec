"""The chart is installed as users install it, and its components run as its Deployments say."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from sandbox.balancer import Mode
from sandbox.commands import Command
from sandbox.deadline import wait
from sandbox.install import Installation, deployment_command, merge, write_certificates

RENDERED = """
kind: Service
metadata: {name: gpu-tenure-webhook}
---
---
kind: Deployment
metadata: {name: gpu-tenure-webhook}
spec:
  template:
    spec:
      containers:
        - name: webhook
          args: [webhook, --profile=warn]
          env:
            - {name: GPU_TENURE_WEBHOOK_A, value: "1"}
            - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
"""


def test_a_component_runs_as_its_deployment_says() -> None:
    """Arguments and environment come from the rendered chart."""
    expected = {"GPU_TENURE_WEBHOOK_A": "1", "POD_NAMESPACE": "gpu-tenure-system"}
    found = deployment_command(RENDERED, "gpu-tenure-webhook")
    assert found == Command(("webhook", "--profile=warn"), expected)
    with pytest.raises(ValueError, match="no Deployment gpu-tenure-reaper"):
        deployment_command(RENDERED, "gpu-tenure-reaper")


@pytest.mark.parametrize(
    ("below", "above", "expected"),
    [
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}, id="mappings by key"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists are replaced"),
        pytest.param({"a": {"b": 1}}, {"a": None}, {"a": None}, id="null wins"),
    ],
)
def test_values_are_merged_as_helm_does(
    below: dict[str, Any], above: dict[str, Any], expected: object
) -> None:
    """A change names only what it changes."""
    assert merge(below, above) == expected


def test_the_certificate_is_good_for_service_and_loopback(tmp_path: Path) -> None:
    """A server loads it, and a client that trusts the CA can be made."""
    write_certificates(tmp_path, datetime.now(UTC))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert ssl.create_default_context(cafile=str(tmp_path / "ca.crt")).cert_store_stats()["x509_ca"] == 1


def test_the_webhook_configurations_point_at_the_balancer(installation: Installation) -> None:
    """With the CA that signed what the replicas serve."""
    api = installation.sandbox.api()
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-gpu-tenure"
    for webhook in api.get(path)["webhooks"]:
        assert webhook["clientConfig"]["url"].startswith(installation.balancer.url())
        assert webhook["clientConfig"]["caBundle"] == installation.values["tls"]["caBundle"]


def test_guards_hold_while_no_process_of_ours_runs(installation: Installation, namespace: str) -> None:
    """A developer who may edit a namespace object still cannot opt out."""
    sandbox = installation.sandbox
    rules = [
        {
            "apiGroups": [""],
            "resources": ["namespaces"],
            "verbs": ["get", "patch"],
            "resourceNames": [namespace],
        }
    ]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    sandbox.api().create(f"{rbac}/clusterroles", {"metadata": {"name": namespace}, "rules": rules})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dev-b"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace}
    sandbox.api().create(
        f"{rbac}/clusterrolebindings",
        {"metadata": {"name": namespace}, "roleRef": role, "subjects": [subject]},
    )
    opt_out = {"metadata": {"labels": {"gpu-tenure.io/enforcement": "disabled"}}}
    headers = {"Content-Type": "application/merge-patch+json"}

    def refused() -> bool:
        reply = sandbox.api("dev-b").raw(
            "PATCH", f"/api/v1/namespaces/{namespace}?dryRun=All", opt_out, headers
        )
        return reply.status >= 400 and "gpu-tenure-guard-namespaces" in reply.text

    try:
        wait(refused, 20, "the guard is in force")
    finally:
        sandbox.api().delete(f"{rbac}/clusterrolebindings/{namespace}")
        sandbox.api().delete(f"{rbac}/clusterroles/{namespace}")


DRAIN = ["--drain=1s"]
GPU_POD = {
    "metadata": {"generateName": "p-"},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    },
}


@pytest.fixture(scope="module")
def replicas(installation: Installation) -> Iterator[Installation]:
    """The installed chart with two replicas of the webhook, stopped after the last test here."""
    installation.start_webhooks(2, DRAIN)
    yield installation
    installation.stop_webhooks()


@pytest.fixture
def webhooks(replicas: Installation) -> Iterator[Installation]:
    """The same, with the balancer as it was after each test."""
    yield replicas
    replicas.balancer.mode = Mode.PASS


def labels_of_a_new_pod(installation: Installation, namespace: str) -> dict[str, str]:
    """Creates a GPU pod, which must be admitted, and gives its labels."""
    reply = installation.sandbox.api().raw("POST", f"/api/v1/namespaces/{namespace}/pods", GPU_POD)
    assert reply.status == 201, reply.text
    labels: dict[str, str] = reply.json["metadata"].get("labels") or {}
    return labels


def test_gpu_pods_meet_the_real_webhook(webhooks: Installation, namespace: str) -> None:
    """Through the API server, the balancer, TLS and RBAC of the chart; a killed replica is not missed."""
    wait(lambda: labels_of_a_new_pod(webhooks, namespace), 20, "the configuration is in force")
    webhooks.sandbox.kill(next(iter(webhooks.webhooks)))
    assert all("gpu-tenure.io/policy" in labels_of_a_new_pod(webhooks, namespace) for _ in range(4))
    webhooks.start_webhooks(1, DRAIN)
    assert len(webhooks.balancer.ready_backends) == len(webhooks.webhooks) == 2


@pytest.mark.parametrize("mode", [Mode.BLACK_HOLE, Mode.REFUSE], ids=lambda mode: mode.value)
def test_a_webhook_that_is_away_is_passed_over(webhooks: Installation, namespace: str, mode: Mode) -> None:
    """In the profile `observe` a pod is created all the same, without terms."""
    wait(lambda: labels_of_a_new_pod(webhooks, namespace), 20, "the configuration is in force")
    webhooks.balancer.mode = mode
    assert labels_of_a_new_pod(webhooks, namespace) == {}
    webhooks.balancer.mode = Mode.PASS
    assert labels_of_a_new_pod(webhooks, namespace) != {}


def test_the_reaper_runs_with_its_own_rights(installation: Installation) -> None:
    """It answers on its ops port, and says in its log that it works."""
    url = installation.start_reaper("--cycle=1s")
    try:
        assert requests.get(f"{url}/healthz", timeout=5).status_code == 200
        wait(lambda: requests.get(f"{url}/readyz", timeout=5).status_code == 200, 30, "the reaper is ready")
    finally:
        installation.sandbox.stop("reaper")
