"""Starts the three servers on one core, in front of a real control plane; measures nothing."""

from __future__ import annotations

import functools
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import msgspec

from bench.doors import DOORS
from bench.figures import CONTROLLER_RUNTIME, OURS, PLAIN
from bench.gate import Post
from bench.policies import NAMESPACE_LABELS, comparator_policy, gpu_policy
from bench.processes import Cores, pinned
from bench.programs import Programs
from bench.reviews import NAMESPACE
from runtime.catalog import POLICIES_PATH
from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import wait
from sandbox.install import Installation, install_chart
from sandbox.ports import LOOPBACK
from sandbox.startup import answers

READY_SECONDS = 30.0
IDLE_PARTS = ("kwok", "scheduler", "controller-manager")
"""Parts that the webhook does not need; they would only disturb the measurement."""
CONTROL_PLANE = ("apiserver", "etcd")


@dataclass(frozen=True)
class Server:
    """A server that answers reviews; `ready_url` is where it says so, empty if listening is all."""

    name: str
    pid: int
    address: str
    ca: Path
    ready_url: str = ""


@dataclass(frozen=True)
class Bench:
    """The running servers, and the control plane behind ours."""

    sandbox: Sandbox
    servers: tuple[Server, ...]
    programs: Programs
    cores: Cores

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Freezes the control plane meanwhile, so that its housekeeping takes no time from anybody."""
        for part in CONTROL_PLANE:
            self.sandbox.suspend(part)
        try:
            yield
        finally:
            for part in reversed(CONTROL_PLANE):
                self.sandbox.resume(part)


@contextmanager
def running(programs: Programs, cores: Cores) -> Iterator[Bench]:
    """Starts the control plane and the servers, and ends them."""
    options = SandboxOptions(prometheus=False, alertmanager=False, exporter=False)
    with Sandbox.start(options) as sandbox:
        installation = _install(sandbox)
        tls = installation.tls
        (tls / "policy.json").write_bytes(msgspec.json.encode(comparator_policy()))
        servers = (
            _start_ours(installation, tls, cores),
            _start_comparator(sandbox, CONTROLLER_RUNTIME, programs.path("controller_runtime"), tls, cores),
            _start_comparator(sandbox, PLAIN, programs.path("plain"), tls, cores),
        )
        for server in servers:
            what = f"{server.name} is ready"
            wait(functools.partial(_ready, sandbox, server), READY_SECONDS, what)
        for part in IDLE_PARTS:
            sandbox.stop(part)
        yield Bench(sandbox, servers, programs, cores)


def poster(server: Server) -> Post:
    """Gives a function that sends one review over a connection of its own."""
    return functools.partial(_post, server)


def _post(server: Server, body: bytes) -> bytes:
    context = ssl.create_default_context(cafile=str(server.ca))
    url = f"https://{server.address}/mutate?timeout=2s"
    request = Request(url, data=body, headers={"Content-Type": "application/json"})
    with urlopen(request, timeout=10, context=context) as reply:  # noqa: S310 -- https
        content: bytes = reply.read()
    return content


def _ready(sandbox: Sandbox, server: Server) -> bool:
    """Whether a server is ready; ChildError with its last words if it has ended."""
    sandbox.children.check(child_name(server.name))
    if server.ready_url:
        return answers(server.ready_url)
    host, port = server.address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def child_name(server: str) -> str:
    """Names the process, and so the log, of a server."""
    return "bench-" + "".join(letter if letter.isalnum() else "-" for letter in server)


def _install(sandbox: Sandbox) -> Installation:
    installation = install_chart(sandbox, {"profile": "enforce"})
    for name in (NAMESPACE, *(door.namespace for door in DOORS)):
        sandbox.api().create_namespace(name, NAMESPACE_LABELS)
    sandbox.api().create(POLICIES_PATH, gpu_policy())
    return installation


def _start_ours(installation: Installation, tls: Path, cores: Cores) -> Server:
    """Starts the webhook with the arguments and the environment of the chart's Deployment."""
    sandbox = installation.sandbox
    port, ops_port = sandbox.free_port(), sandbox.free_port()
    command = installation.command("webhook")
    flags = {
        "kubeconfig": sandbox.kubeconfig("webhook"),
        "tls-cert": tls / "tls.crt",
        "tls-key": tls / "tls.key",
        "host": LOOPBACK,
        "port": port,
        "ops-port": ops_port,
    }
    own = [f"--{name}={value}" for name, value in flags.items()]
    argv = pinned(cores.server, [sys.executable, "-m", "cli", *command.args, *own])
    pid = sandbox.spawn(child_name(OURS), argv, command.env)
    return Server(OURS, pid, f"{LOOPBACK}:{port}", tls / "ca.crt", f"http://{LOOPBACK}:{ops_port}/readyz")


def _start_comparator(sandbox: Sandbox, name: str, program: str, tls: Path, cores: Cores) -> Server:
    port = sandbox.free_port()
    argv = [program, f"--port={port}", f"--cert-dir={tls}", f"--policy={tls / 'policy.json'}"]
    pid = sandbox.spawn(child_name(name), pinned(cores.server, argv), env={"GOMAXPROCS": "1"})
    return Server(name, pid, f"{LOOPBACK}:{port}", tls / "ca.crt")
