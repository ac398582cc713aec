"""The kubelet of our own namespace: looks every second and runs each pod as a process; decides nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import requests

from sandbox.api import ApiError
from sandbox.balancer import Backend
from sandbox.children import ChildError, ChildState
from sandbox.cluster import Sandbox
from sandbox.commands import EARLY_START, listening
from sandbox.deadline import monotonic, utc_now
from sandbox.egress import Egress
from sandbox.kubelet.network import Network, targets
from sandbox.kubelet.pods import Pod, read_pod, read_service, with_addresses, with_files
from sandbox.kubelet.steps import Seen, Step, next_step, status_of
from sandbox.ports import LOOPBACK
from sandbox.secret_volume import DATA, SecretVolume
from sandbox.startup import answers
from sandbox.users import COMPONENTS, SYSTEM_NAMESPACE

LOOK_SECONDS = 1.0
# At the end of the sandbox nobody calls any more: there is nothing to drain.
END_SECONDS = 1.0
RELEASE = "gpu-tenure-"
NAMESPACE = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
FAILURES = (ApiError, ChildError, OSError, requests.RequestException, TimeoutError)


@dataclass
class Process:
    """What belongs to one pod for as long as it is there.

    Attributes:
        name: The name of the child, which is that of its log.
        address: The address that the pod is said to have.
        volumes: Its Secrets, by the path in the container.
        started: Whether its process was ever started.
        stopping: Whether its process was asked to end.
        restarts: How often it was started again.
        ended_at: When it was seen to have ended, by the monotonic clock.
        ports: The loopback port of each port of the container.
        shown: What was last reported, but for the times.
    """

    name: str
    address: str
    volumes: dict[str, SecretVolume]
    started: bool = False
    stopping: bool = False
    restarts: int = 0
    ended_at: float | None = None
    ports: dict[str, int] = field(default_factory=dict)
    shown: dict[str, Any] = field(default_factory=dict)


class Kubelet:
    """Runs what is installed for as long as it is open. The sandbox must be one with `kubelet`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._api = sandbox.api("kwok")
        self._network = Network(sandbox.free_port)
        self._egress = Egress(sandbox.layout.egress, self._network.route)
        self._processes: dict[str, Process] = {}
        self._addresses = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    def __enter__(self) -> Self:
        self._egress.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(timeout=30)
        self._egress.__exit__()
        self._network.close()

    def _run(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            # An API server that restarts is no reason to end.
            with contextlib.suppress(*FAILURES):
                self.look()

    def look(self) -> None:
        """Looks once at pods and Services, and does what is next about each."""
        found = self._api.list(f"{NAMESPACE}/pods")
        pods = [read_pod(one) for one in found if _component(one["spec"].get("serviceAccountName", ""))]
        services = [port for one in self._api.list(f"{NAMESPACE}/services") for port in read_service(one)]
        children = self._sandbox.children.states()
        running = list(self._running(pods, children))
        # Whoever is on the way out leaves the Service before it is asked to end.
        self._network.update(services, running)
        self._show_targets(targets(SYSTEM_NAMESPACE, running))
        for pod in pods:
            with contextlib.suppress(*FAILURES):
                self._tend(pod, children)
        self._forget({pod.uid for pod in pods})

    def _running(
        self, pods: list[Pod], children: dict[str, ChildState]
    ) -> Iterator[tuple[Pod, dict[str, Backend]]]:
        for pod in pods:
            process = self._processes.get(pod.uid)
            if process is not None and process.started and children[process.name].running:
                url = _ready_url(pod, process)
                yield pod, {name: Backend(LOOPBACK, port, url) for name, port in process.ports.items()}

    def _tend(self, pod: Pod, children: dict[str, ChildState]) -> None:
        process = self._processes.get(pod.uid) or self._admit(pod)
        for volume in process.volumes.values():
            volume.update()
        seen = _seen(process, children)
        files = all((one.folder / DATA).is_symlink() for one in process.volumes.values())
        step = next_step(pod, seen, files=files)
        if step is Step.START:
            self._start(pod, process)
            seen = Seen(restarts=process.restarts)
        elif step is Step.STOP:
            process.stopping = True
            self._sandbox.children.ask_to_stop(process.name, pod.grace_seconds)
        elif step is Step.REMOVE:
            gone = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
            self._api.delete(f"{NAMESPACE}/pods/{pod.name}", gone)
            return
        if pod.scheduled and not pod.finished:
            self._report(pod, process, seen)

    def _show_targets(self, text: str) -> None:
        path = self._sandbox.layout.targets
        if not path.exists() or path.read_text() != text:
            partial = path.with_suffix(".partial")
            partial.write_text(text)
            partial.replace(path)

    def _admit(self, pod: Pod) -> Process:
        self._addresses += 1
        address = f"10.200.{self._addresses // 250}.{self._addresses % 250 + 1}"
        folder = self._sandbox.dir / "volumes" / pod.uid
        volumes = {
            path: SecretVolume(self._api, f"{NAMESPACE}/secrets/{secret}", folder / str(number))
            for number, (path, secret) in enumerate(pod.secrets.items())
        }
        made = Process(pod.name, address, volumes)
        self._processes[pod.uid] = made
        return made

    def _start(self, pod: Pod, process: Process) -> None:
        component = _component(pod.account)
        process.restarts += 1 if process.started else 0
        process.ports = {name: self._sandbox.free_port() for name in pod.ports}
        folders = {path: str(volume.folder) for path, volume in process.volumes.items()}
        command = with_addresses(with_files(pod.command, folders), self._names())
        flags = [flag for name, port in process.ports.items() for flag in listening(name, port)]
        argv = command.argv(
            self._sandbox.kubeconfig(component), *flags, *self._instead_of_a_network(component)
        )
        self._sandbox.spawn(process.name, argv, command.env, stop_seconds=END_SECONDS)
        process.started, process.ended_at = True, None

    def _names(self) -> dict[str, str]:
        """What the Prometheus operator would call Prometheus and Alertmanager, and where they are here."""
        here = {
            "prometheus-operated.monitoring.svc:9090": self._sandbox.prometheus_url,
            "alertmanager-operated.monitoring.svc:9093": self._sandbox.alertmanager_url,
        }
        return {name: url.removeprefix("http://") for name, url in here.items()}

    def _instead_of_a_network(self, component: str) -> list[str]:
        if component == "reaper":
            return [EARLY_START]
        if component == "certs":
            return [f"--probe={LOOPBACK}:{self._network.port_of(f'{RELEASE}webhook', 443)}"]
        return []

    def _report(self, pod: Pod, process: Process, seen: Seen | None) -> None:
        url = _ready_url(pod, process)
        ready = seen is not None and seen.code is None and (not url or answers(url))
        shown = status_of(pod, seen, ready=ready, address=process.address, since="")
        if shown != process.shown:
            since = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
            status = status_of(pod, seen, ready=ready, address=process.address, since=since)
            self._api.patch(f"{NAMESPACE}/pods/{pod.name}/status", {"status": status}, "strategic")
            process.shown = shown

    def _forget(self, uids: set[str]) -> None:
        for uid in self._processes.keys() - uids:
            process = self._processes.pop(uid)
            if process.started and self._sandbox.running(process.name):
                self._sandbox.children.ask_to_stop(process.name, END_SECONDS)


def _component(account: str) -> str:
    """Gives the component that an account is for; empty for accounts that have no kubeconfig here."""
    name = account.removeprefix(RELEASE)
    return name if name in COMPONENTS else ""


def _seen(process: Process, children: dict[str, ChildState]) -> Seen | None:
    if not process.started:
        return None
    code = children[process.name].code
    if code is None:
        return Seen(stopping=process.stopping, restarts=process.restarts)
    if process.ended_at is None:
        process.ended_at = monotonic()
    return Seen(code, process.stopping, process.restarts, monotonic() - process.ended_at)


def _ready_url(pod: Pod, process: Process) -> str:
    if pod.probe is None or pod.probe.port not in process.ports:
        return ""
    return f"http://{LOOPBACK}:{process.ports[pod.probe.port]}{pod.probe.path}"
