"""A real control plane as child processes that end with their parent; knows no part of gpu-tenure."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import requests

from sandbox.api import Api
from sandbox.binaries import ensure
from sandbox.children import Children
from sandbox.deadline import wait
from sandbox.faults import FaultProxy
from sandbox.nodes import node_object, takes_pods
from sandbox.parts import EXPORTER, PARTS, Layout
from sandbox.ports import LOOPBACK, PortBlock
from sandbox.prometheus import ScrapeJob, alertmanager_config, prometheus_config
from sandbox.sources import scrape_jobs
from sandbox.startup import child_environment, launch, start_all, wait_ready, write_files
from sandbox.users import User, kubeconfig, make_users

COMMAND_SECONDS = 120.0


class CommandError(RuntimeError):
    """A command line tool failed; the message holds what it wrote."""


@dataclass(frozen=True)
class SandboxOptions:
    """What a sandbox consists of.

    Attributes:
        prometheus: Whether Prometheus runs from the start (it can be started later).
        alertmanager, exporter: The same for Alertmanager and for the exporter simulator.
        audit: Whether the API server writes `logs/audit.jsonl`.
        scrape_interval_seconds: Prometheus' scrape and evaluation interval.
        rule_files: Rule files that Prometheus loads.
        kubelet: Whether pods of our namespace are left to `sandbox.kubelet`, which runs them as processes.
        kubernetes: Another pinned Kubernetes release, such as `v1.34.4`; empty for the default.
        environ: The environment in which programs are looked up and built.
    """

    prometheus: bool = True
    alertmanager: bool = True
    exporter: bool = True
    audit: bool = False
    scrape_interval_seconds: float = 1.0
    rule_files: tuple[str, ...] = ()
    kubelet: bool = False
    kubernetes: str = ""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class Sandbox:
    """A running control plane. Make it with `Sandbox.start`; leave it by `with` or `close`."""

    def __init__(
        self,
        options: SandboxOptions,
        layout: Layout,
        children: Children,
        ports: PortBlock,
        users: dict[str, User],
    ) -> None:
        self.options = options
        self.layout = layout
        self.children = children
        self.users = users
        exporter = f"{LOOPBACK}:{layout.ports[EXPORTER]}"
        self.scrape_jobs = scrape_jobs(exporter, str(layout.targets) if options.kubelet else "")
        self.rule_files = list(options.rule_files)
        self._ports = ports
        self._apis: dict[str, Api] = {}
        self._closers: list[Callable[[], object]] = []

    @classmethod
    def start(cls, options: SandboxOptions | None = None) -> Sandbox:
        """Builds what is missing, starts everything and returns when all parts are ready."""
        options = options or SandboxOptions()
        binaries = ensure(options.environ, kubernetes=options.kubernetes)
        rng = random.SystemRandom()
        ports = PortBlock.reserve(rng)
        children = Children.start([ports.guard])
        try:
            taken = {name: ports.take(keep=True) for name in ("etcd-peer", *PARTS)}
            interval = options.scrape_interval_seconds
            layout = Layout(children.folder, taken, binaries, options.audit, interval, options.kubelet)
            sandbox = cls(options, layout, children, ports, make_users(rng))
            write_files(layout, sandbox.users)
            sandbox.configure_prometheus()
            sandbox.configure_alertmanager("")
            wanted = {
                "prometheus": options.prometheus,
                "alertmanager": options.alertmanager,
                EXPORTER: options.exporter,
            }
            start_all(children, layout, [part for part, asked in wanted.items() if asked])
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            wait(lambda: sandbox.api().find(account), 60, "the controllers work: they make service accounts")
        except BaseException:
            children.close()
            ports.close()
            raise
        return sandbox

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends everything and removes the folder; a second call does nothing."""
        for closer in reversed(self._closers):
            with contextlib.suppress(OSError):
                closer()
        self._closers.clear()
        for api in self._apis.values():
            api.close()
        self.children.close()
        self._ports.close()

    def on_close(self, closer: Callable[[], object]) -> None:
        """Calls this before the parts end, last one first."""
        self._closers.append(closer)

    @property
    def dir(self) -> Path:
        """The folder of this sandbox; it is removed at the end."""
        return self.children.folder

    @property
    def api_url(self) -> str:
        """The address of the API server."""
        return self.layout.api_url

    @property
    def prometheus_url(self) -> str:
        """The address of Prometheus."""
        return self.layout.url("prometheus")

    @property
    def alertmanager_url(self) -> str:
        """The address of Alertmanager."""
        return self.layout.url("alertmanager")

    @property
    def exporter_url(self) -> str:
        """The address of the exporter simulator."""
        return self.layout.url(EXPORTER)

    def kubeconfig(self, user: str = "admin", server: str = "") -> Path:
        """Gives the kubeconfig of a user; `server` is that of a proxy with the same certificate."""
        if not server:
            return self.layout.kubeconfig(user)
        path = self.layout.kubeconfig(f"{user}-via-{server.rsplit(':', 1)[-1]}")
        path.write_text(kubeconfig(self.users[user], server, self.layout.ca))
        return path

    def api(self, user: str = "admin") -> Api:
        """Gives the client of a user."""
        if user not in self._apis:
            self._apis[user] = Api(self.api_url, self.users[user].token, self.layout.ca)
        return self._apis[user]

    def kubectl(
        self, *args: str, user: str = "admin", stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as a user; CommandError holds what it said on failure."""
        argv = [self.layout.binaries.path("kubectl"), f"--kubeconfig={self.kubeconfig(user)}", *args]
        return self._command(argv, {}, stdin, check)

    def helm(
        self, *args: str, user: str = "admin", stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs Helm as a user."""
        argv = [self.layout.binaries.path("helm"), *args]
        return self._command(argv, {"KUBECONFIG": str(self.kubeconfig(user))}, stdin, check)

    def promtool(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs promtool."""
        return self._command([self.layout.binaries.path("promtool"), *args], {}, None, check)

    def add_node(
        self,
        name: str,
        resources: Mapping[str, int | str],
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> dict[str, Any]:
        """Makes a node with these extended resources and returns when pods can be scheduled there."""
        self.api().create("/api/v1/nodes", node_object(name, resources, labels, annotations, taints))

        def schedulable() -> dict[str, Any] | None:
            node: dict[str, Any] = self.api().get(f"/api/v1/nodes/{name}")
            return node if takes_pods(node, len(taints)) else None

        return wait(schedulable, 30, f"node {name} takes pods")

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stop_seconds: float = 10.0,
    ) -> int:
        """Starts a child of your own, which ends with the sandbox; gives its process id."""
        return self.children.spawn(
            name, argv, {**child_environment(self.dir), **(env or {})}, cwd, stop_seconds
        )

    def free_port(self) -> int:
        """Gives a free loopback port that belongs to this sandbox until it ends."""
        return self._ports.take()

    def running(self, part: str) -> bool:
        """Says whether a part runs."""
        return self.children.running(part)

    def stop(self, part: str, seconds: float = 10.0) -> None:
        """Stops a part gracefully and returns when it is gone."""
        self.children.stop(part, seconds)

    def kill(self, part: str) -> None:
        """Kills a part (SIGKILL) and returns when it is gone."""
        self.children.kill(part)

    def suspend(self, part: str) -> None:
        """Freezes a part: connections stay open and nobody answers."""
        self.children.suspend(part)

    def resume(self, part: str) -> None:
        """Lets a frozen part go on."""
        self.children.resume(part)

    def log(self, part: str) -> Path:
        """The file with everything that a part wrote."""
        return self.children.log(part)

    def start_part(self, part: str, ready: bool = True) -> None:
        """Starts a part on its port and data of before, and returns when it is ready."""
        launch(self.children, self.layout, part)
        if ready:
            wait_ready(self.children, self.layout, part)

    def api_proxy(self) -> FaultProxy:
        """Puts a fault proxy in front of the API server, with its certificate; the caller closes it."""
        return FaultProxy(self.api_url, self.layout.ca, self.layout.key)

    def configure_prometheus(
        self, jobs: Sequence[ScrapeJob] | None = None, rule_files: Sequence[str] | None = None
    ) -> None:
        """Writes another configuration and has Prometheus load it, if it runs."""
        if jobs is not None:
            self.scrape_jobs = list(jobs)
        if rule_files is not None:
            self.rule_files = list(rule_files)
        alertmanager = f"{LOOPBACK}:{self.layout.ports['alertmanager']}" if self.options.alertmanager else ""
        text = prometheus_config(
            self.scrape_jobs, self.options.scrape_interval_seconds, self.rule_files, alertmanager
        )
        (self.dir / "prometheus.yml").write_text(text)
        if self.running("prometheus"):
            requests.post(f"{self.prometheus_url}/-/reload", timeout=30).raise_for_status()

    def configure_alertmanager(self, webhook_url: str) -> None:
        """Sends all alerts to a webhook from now on."""
        (self.dir / "alertmanager.yml").write_text(alertmanager_config(webhook_url))
        if self.running("alertmanager"):
            requests.post(f"{self.alertmanager_url}/-/reload", timeout=30).raise_for_status()

    def _command(
        self, argv: Sequence[str], env: Mapping[str, str], stdin: str | None, check: bool
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            argv,
            env={**child_environment(self.dir), **env},
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if check and done.returncode != 0:
            command = f"{Path(argv[0]).name} {' '.join(argv[1:])}"
            msg = f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
            raise CommandError(msg)
        return done
