"""An installation of its own on a real control plane, which tests of the doctor break and mend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import requests

from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import wait
from sandbox.install import Installation, install_chart
from sandbox.secret_volume import SecretVolume

OWN = "gpu-tenure-system"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{OWN}/deployments"
SECRETS = f"/api/v1/namespaces/{OWN}/secrets"
SERVING = f"{SECRETS}/gpu-tenure-webhook-tls"
TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
EXPORTERS = ("dcgm", "hami")
POD_LABELS = ("exported_namespace", "exported_pod", "exported_container")
FAST = ("--cycle=1s", "--quiet=0s", "--no-dry-run", "--profile=warn")


class Site:
    """An installation, and the doctor as people run it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.api = sandbox.api()
        self.installed: Installation | None = None
        self.before: dict[str, Any] = {}

    @property
    def installation(self) -> Installation:
        """The installation, once there is one."""
        assert self.installed is not None
        return self.installed

    def run(self, *args: str, user: str = "admin", url: str | None = "") -> subprocess.CompletedProcess[str]:
        """Runs it; `url` is Prometheus' address, empty for the sandbox's own and None for no flag."""
        argv = [sys.executable, "-m", "cli", "doctor", f"--kubeconfig={self.sandbox.kubeconfig(user)}", *args]
        if url is not None:
            argv.append(f"--prometheus-url={url or self.sandbox.prometheus_url}")
        wide = {**os.environ, "COLUMNS": "160"}
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=wide)

    def json(self, *args: str, user: str = "admin", url: str | None = "") -> dict[str, Any]:
        """Runs it and gives its answer."""
        done = self.run("--output=json", *args, user=user, url=url)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found | {"code": done.returncode}

    def finding(self, check: str, *args: str, **given: Any) -> dict[str, Any]:
        """Runs it and gives the worst finding of a check."""
        found = self.json(*args, **given)
        (first, *_) = [one for one in found["findings"] if one["check"] == check]
        return {**first, "code": found["code"]}

    def expose(self, *, named: bool) -> None:
        """Has Prometheus scrape one exporter of each kind, with or without the labels that name pods."""
        jobs = [one for one in self.sandbox.scrape_jobs if one.name in EXPORTERS]
        drop = () if named else POD_LABELS
        self.sandbox.configure_prometheus([replace(one, drop_labels=drop) for one in jobs])

    def wait_for_sample(self, expression: str) -> None:
        """Returns when Prometheus has an answer to an expression."""

        def answered() -> bool:
            url = f"{self.sandbox.prometheus_url}/api/v1/query"
            answer = requests.get(url, {"query": expression}, timeout=10).json()
            return bool(answer["data"]["result"])

        wait(answered, 60, f"Prometheus has {expression}")

    def pod(self, name: str, **notes: str) -> None:
        """Makes a pod with a GPU that runs, and has run for an hour."""
        marks = {"started-ago": "60m", "activity": "busy", **notes}
        body = {
            "metadata": {
                "name": name,
                "annotations": {f"sandbox.gpu-tenure.io/{key}": text for key, text in marks.items()},
            },
            "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
                ],
            },
        }
        self.api.create(PODS, body)
        self.api.wait_running(TEAM, name)

    def in_deployments(self, count: int) -> bool:
        """Whether so many Deployments of ours have all their replicas ready."""
        found = self.api.list(DEPLOYMENTS)
        ready = [
            one for one in found if one.get("status", {}).get("readyReplicas") == one["spec"]["replicas"]
        ]
        return len(found) == len(ready) == count


@pytest.fixture(scope="module")
def site(kubernetes: str) -> Iterator[Site]:
    """The whole chart: kwok plays the pods of its Deployments, and processes hold the Leases.

    At first the exporters name no pods; `named` mends that.
    """
    with Sandbox.start(SandboxOptions(alertmanager=True, kubernetes=kubernetes)) as sandbox:
        sandbox.add_node("cpu-a", {})
        sandbox.add_node("gpu-a", {"nvidia.com/gpu": 8}, taints=[TAINT])
        sandbox.api().create_namespace(TEAM)
        values: Mapping[str, Any] = {
            "profile": "warn",
            "deployments": {"enabled": True},
            "quota": {"enabled": True, "replicas": 1},
            "tls": {"source": "certs", "caBundle": ""},
            "reaper": {
                "dryRun": False,
                "alertmanager": {"urls": [sandbox.alertmanager_url]},
                "receiver": {"tokenSecretName": "receiver"},
                "env": {"GPU_TENURE_REAPER_EARLY_START": "365d"},
            },
        }
        found = Site(sandbox)
        found.before = found.json()
        found.installed = install_chart(sandbox, values, tls_source="certs")
        found.expose(named=False)
        found.api.create(SECRETS, {"metadata": {"name": "receiver"}, "stringData": {"token": "t"}})
        yield found


@pytest.fixture(scope="module")
def running(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The same with all components at work."""
    site.installation.start_certs("--interval=1s", "--settle=2s")
    with SecretVolume(site.api, SERVING, tmp_path_factory.mktemp("volume")) as volume:
        volume.wait_for("tls.crt")
        site.installation.tls = volume.folder
        site.installation.start_webhooks(1)
        site.installation.start_quota()
        site.installation.start_reaper(*FAST)
        wait(lambda: site.in_deployments(4), 60, "all Deployments are ready")
        yield site
