"""Installs the chart that users install, and runs its Deployments as processes; knows no component's inside.

The one difference: the webhook is called at a loopback URL, where a balancer plays its Service.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from certs.issue import issue_ca, issue_leaf
from sandbox.balancer import Backend, Balancer
from sandbox.cluster import Sandbox
from sandbox.commands import EARLY_START, Command, container_command, listening
from sandbox.deadline import utc_now, wait
from sandbox.ports import LOOPBACK
from sandbox.startup import ROOT, answers
from sandbox.users import SYSTEM_NAMESPACE

RELEASE = "gpu-tenure"
CHART = ROOT / "manifests" / "chart"
CONFIGURATIONS = (
    "validatingwebhookconfiguration/gpu-tenure",
    "mutatingwebhookconfiguration/zz-gpu-tenure",
)
READY_SECONDS = 60.0
STOP_SECONDS = 20.0
# At the end of the sandbox nobody calls any more: there is nothing to drain.
END_SECONDS = 1.0
Values = Mapping[str, Any]


class Installation:
    """An installed chart with the components that were started for it. Make it with `install_chart`."""

    def __init__(self, sandbox: Sandbox, chart: Path, balancer: Balancer, tls: Path) -> None:
        self.sandbox = sandbox
        self.balancer = balancer
        self.tls = tls
        self.values: dict[str, Any] = {}
        self.webhooks: dict[str, Backend] = {}
        self._chart = chart

    def upgrade(self, values: Values) -> None:
        """Installs the chart, or changes its values; what `values` does not name stays as it was."""
        self.values = merge(self.values, values)
        helm = ("upgrade", RELEASE, str(self._chart), "--install", "--create-namespace")
        self.sandbox.helm(
            *helm, f"--namespace={SYSTEM_NAMESPACE}", f"--values={self._values_file(self.values)}"
        )

    def use_chart(self, chart: Path) -> None:
        """Takes another chart, a folder or an archive, from the next upgrade on."""
        self._chart = chart

    def roll_back(self, revision: int = 0) -> None:
        """Goes back to a revision of the release, or to the one before."""
        self.sandbox.helm("rollback", RELEASE, str(revision), f"--namespace={SYSTEM_NAMESPACE}")

    def uninstall(self) -> None:
        """Removes the release and ends the components; its definitions stay, as the chart says.

        Helm deletes webhook configurations last, after what they call: docs/install.md has them go first.
        """
        self.sandbox.kubectl("delete", "--ignore-not-found", *CONFIGURATIONS)
        self.sandbox.helm("uninstall", RELEASE, f"--namespace={SYSTEM_NAMESPACE}", "--wait")
        self.stop_webhooks()

    def command(self, component: str) -> Command:
        """Reads from the rendered chart how its Deployment runs a component."""
        values = merge(self.values, {"deployments": {"enabled": True}})
        helm = ("template", RELEASE, str(self._chart), f"--namespace={SYSTEM_NAMESPACE}")
        rendered = self.sandbox.helm(*helm, f"--values={self._values_file(values)}").stdout
        return deployment_command(rendered, f"{RELEASE}-{component}")

    def start_webhooks(self, replicas: int = 2, args: Sequence[str] = (), env: Values | None = None) -> None:
        """Starts more replicas of the webhook behind the balancer and returns when all are ready."""
        command = self.command("webhook")
        # Killed ones are gone for good: a Deployment would have replaced them under another name.
        self.webhooks = {name: one for name, one in self.webhooks.items() if self.sandbox.running(name)}
        for _ in range(replicas):
            port, ops_port = self.sandbox.free_port(), self.sandbox.free_port()
            name = f"webhook-{port}"
            tls = (f"--tls-cert={self.tls / 'tls.crt'}", f"--tls-key={self.tls / 'tls.key'}")
            listen = (*listening("https", port), *listening("ops", ops_port))
            self._spawn(name, "webhook", command, (*tls, *listen, *args), env or {})
            self.webhooks[name] = Backend(LOOPBACK, port, f"http://{LOOPBACK}:{ops_port}/readyz")
        self._wait_ready(*self.webhooks)
        self.balancer.set_backends(self.webhooks.values())

    def stop_webhooks(self, names: Sequence[str] = (), seconds: float = STOP_SECONDS) -> None:
        """Stops some or all replicas as a roll-out does: out of the Service first, then SIGTERM."""
        leaving = tuple(names or self.webhooks)
        self.webhooks = {name: one for name, one in self.webhooks.items() if name not in leaving}
        self.balancer.set_backends(self.webhooks.values(), wait_ready=0)
        self.sandbox.children.stop_all(leaving, seconds)

    def start_reaper(self, *args: str, env: Values | None = None, name: str = "reaper") -> str:
        """Starts a reaper on the sandbox's Prometheus; gives its ops server's address, once it answers."""
        own = (f"--prometheus-url={self.sandbox.prometheus_url}", EARLY_START)
        return self._start(name, "reaper", (*own, *args), env)

    def start_quota(self, *args: str, env: Values | None = None, name: str = "quota") -> str:
        """Starts a keeper of ledgers; gives its ops server's address, once it answers."""
        return self._start(name, "quota", args, env)

    def start_certs(self, *args: str, env: Values | None = None, name: str = "certs") -> str:
        """Starts a keeper of certificates, which are for the balancer too; gives its ops server's address.

        The chart must have been installed with `tls.source` certs.
        """
        return self._start(name, "certs", args, env)

    def _start(self, name: str, component: str, args: Sequence[str], env: Values | None) -> str:
        """Starts a component that has an ops server and nothing else, and waits until it lives."""
        ops_port = self.sandbox.free_port()
        self._spawn(name, component, self.command(component), (*listening("ops", ops_port), *args), env or {})
        url = f"http://{LOOPBACK}:{ops_port}"

        def alive() -> bool:
            self.sandbox.children.check(name)
            return answers(f"{url}/healthz")

        wait(alive, READY_SECONDS, f"{name} answers; see {self.sandbox.log(name)}")
        return url

    def _spawn(self, name: str, component: str, command: Command, args: Sequence[str], env: Values) -> None:
        argv = command.argv(self.sandbox.kubeconfig(component), *args)
        self.sandbox.spawn(name, argv, {**command.env, **env}, stop_seconds=END_SECONDS)

    def _wait_ready(self, *names: str) -> None:
        def ready() -> bool:
            for name in names:
                self.sandbox.children.check(name)
            return all(answers(self.webhooks[name].ready_url) for name in names)

        wait(ready, READY_SECONDS, "all replicas of the webhook are ready")

    def _values_file(self, values: Values) -> Path:
        path = self.sandbox.dir / "values.json"
        path.write_text(json.dumps(values))
        return path


def install_chart(
    sandbox: Sandbox, values: Values | None = None, chart: Path = CHART, *, tls_source: str | None = "secret"
) -> Installation:
    """Installs the chart into the sandbox, without Deployments; nothing runs until it is started.

    `tls_source` None is for charts that know of no other than the Secret.
    """
    tls = sandbox.dir / "webhook-tls"
    tls.mkdir(exist_ok=True)
    write_certificates(tls, utc_now())
    balancer = Balancer(sandbox.free_port())
    sandbox.on_close(balancer.close)
    installation = Installation(sandbox, chart, balancer, tls)
    bundle = base64.b64encode((tls / "ca.crt").read_bytes()).decode()
    own = {
        "deployments": {"enabled": False},
        "webhook": {"url": balancer.url()},
        "tls": {"caBundle": bundle} | ({"source": tls_source} if tls_source else {}),
        "reaper": {"prometheusURL": sandbox.prometheus_url},
    }
    installation.upgrade(merge(own, values or {}))
    return installation


def write_certificates(folder: Path, now: datetime) -> None:
    """Writes a CA (`ca.crt`) and a leaf (`tls.crt`, `tls.key`) for the Service's name and for loopback."""
    ca = issue_ca("gpu-tenure sandbox", now, timedelta(days=2))
    names = [f"gpu-tenure-webhook.{SYSTEM_NAMESPACE}.svc", "localhost"]
    leaf = issue_leaf(ca, names, [LOOPBACK], now, timedelta(days=2))
    (folder / "ca.crt").write_bytes(ca.cert_pem)
    (folder / "tls.crt").write_bytes(leaf.cert_pem)
    (folder / "tls.key").write_bytes(leaf.key_pem)


def deployment_command(rendered: str, name: str) -> Command:
    """Finds a Deployment among rendered manifests and reads how it runs its first container."""
    for obj in yaml.safe_load_all(rendered):
        if obj and obj["kind"] == "Deployment" and obj["metadata"]["name"] == name:
            container = obj["spec"]["template"]["spec"]["containers"][0]
            return container_command(container, SYSTEM_NAMESPACE, name)
    msg = f"the chart renders no Deployment {name}"
    raise ValueError(msg)


def merge(below: Values, above: Values) -> dict[str, Any]:
    """Merges values as Helm does: mappings by key, everything else replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return merged
