"""`certs ensure` and `inspect` on a real API server, beside a Deployment with settings of its own."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest

from certs.bundle import read_certificates
from sandbox.cluster import Sandbox

ENV = {
    "NAMES": "host.example.com",
    "AUTHORITY_SECRET": "our-ca",
    "SERVING_SECRET": "our-tls",
    "MUTATING": "none-of-ours",
    "VALIDATING": "none-of-ours",
    "CA_LIFE": "1000d",
    "SETTLE": "1s",
    "PROBE": "none",
    "LOG_FORMAT": "json",
    "A_SETTING_OF_ANOTHER_VERSION": "1",
}


@pytest.fixture
def installed(sandbox: Sandbox, namespace: str) -> Iterator[str]:
    """The namespace of a Deployment that no pod comes of."""
    labels = {"app.kubernetes.io/name": "gpu-tenure", "app.kubernetes.io/component": "certs"}
    env = [{"name": f"GPU_TENURE_CERTS_{name}", "value": value} for name, value in ENV.items()]
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    sandbox.api().create(path, {"metadata": {"name": "gpu-tenure-certs", "labels": labels}, "spec": spec})
    yield namespace
    sandbox.api().raw("DELETE", f"{path}/gpu-tenure-certs")


def run(
    sandbox: Sandbox, *args: str, user: str = "admin", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command of the certificates."""
    argv = [sys.executable, "-m", "cli", "certs", *args, f"--kubeconfig={sandbox.kubeconfig(user)}"]
    env = {
        **os.environ,
        "COLUMNS": "160",
        **{f"GPU_TENURE_CERTS_{key}": one for key, one in variables.items()},
    }
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=env)


def test_ensure_and_inspect_take_the_settings_of_the_installation(sandbox: Sandbox, installed: str) -> None:
    """Its namespace, Secrets, names and lives: nothing of it is called a problem."""
    done = run(sandbox, "ensure")
    assert done.returncode == 0, done.stderr
    assert f"note: settings of the Deployment {installed}/gpu-tenure-certs: " in done.stderr
    assert "GPU_TENURE_CERTS_CA_LIFE=1000d" in done.stderr
    secrets = f"/api/v1/namespaces/{installed}/secrets"
    data = {
        name: base64.b64decode(sandbox.api().get(f"{secrets}/{name}")["data"]["tls.crt"])
        for name in ("our-ca", "our-tls")
    }
    (ca,), (leaf,) = map(read_certificates, data.values())
    assert ca.not_after - leaf.not_after > timedelta(days=900)
    assert "host.example.com" in leaf.names
    shown = json.loads(run(sandbox, "inspect", "--output=json").stdout)
    # The test installs no webhook.
    assert shown["problems"] == ["no webhook configuration is installed: nothing calls the webhook"]
    assert shown["reason"] == "nothing to do"


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_what_is_given_wins(sandbox: Sandbox, installed: str, by: str) -> None:
    """The rest is the installation's."""
    assert run(sandbox, "ensure").returncode == 0
    flags = ["--serving-secret=another"] if by == "flag" else []
    variables = {} if by == "flag" else {"SERVING_SECRET": "another"}
    shown = run(sandbox, "inspect", f"--namespace={installed}", *flags, **variables)
    assert shown.returncode == 1
    assert "SERVING_SECRET" not in shown.stderr
    assert "AUTHORITY_SECRET=our-ca" in shown.stderr


def test_where_it_is_not_readable_that_is_said(sandbox: Sandbox, installed: str) -> None:
    """With what is taken in its place; and so it is where there is none."""
    said = run(sandbox, "inspect", f"--namespace={installed}", user="certs").stderr
    assert "note: Deployments are not readable with your rights (403); settings are those given" in said
    said = run(sandbox, "inspect", "--namespace=default").stderr
    assert "note: there is no Deployment gpu-tenure-certs in the namespace default" in said
