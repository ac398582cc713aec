"""The reapers of a soak, each behind a proxy: started, killed, frozen, weighed; decides nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from sandbox.deadline import monotonic, wait
from sandbox.faults import FaultProxy
from sandbox.install import Installation
from sandbox.soak.memory import Growth
from sandbox.users import SYSTEM_NAMESPACE

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/gpu-tenure-reaper"
NAMES = ("reaper-1", "reaper-2")
OBSERVER = "observer"
"""A dry run beside them, which takes no Lease and is never killed: its memory is watched from end to end."""

LEADER_SECONDS = 60.0
# Everything that would make it act rarely is loosened, so that faults find it acting; nothing that judges is.
FLAGS = (
    "--profile=enforce",
    "--cycle=2s",
    "--quiet=0s",
    "--device-percent=100",
    "--device-span=60s",
    "--actions-per-cycle=50",
    "--actions-per-namespace=50",
    "--brake-idle-percent=101",
    "--brake-unknown-percent=101",
    "--brake-fall-percent=101",
    "--brake-release=0s",
    '--scrape-intervals={"dcgm": 1}',
)


class Reapers:
    """Two replicas, of which one leads, and an observer; `growths` has the memory of every process."""

    def __init__(self, installation: Installation) -> None:
        self.proxies = {name: installation.sandbox.api_proxy() for name in (*NAMES, OBSERVER)}
        self.growths: list[Growth] = []
        self.cycles = {"complete": 0.0, "held": 0.0, "failed": 0.0}
        self._installation = installation
        self._sandbox = installation.sandbox
        self._urls: dict[str, str] = {}
        self._begun: dict[str, tuple[float, Growth]] = {}
        self._started = 0
        for proxy in self.proxies.values():
            self._sandbox.on_close(proxy.close)

    def start(self, name: str) -> None:
        """Starts a replica under an identity that nobody had before."""
        self._started += 1
        # The observer is another user, so that the audit log tells its dry evictions from real ones.
        user, mode = ("admin", "--dry-run") if name == OBSERVER else ("reaper", "--no-dry-run")
        kubeconfig = self._sandbox.kubeconfig(user, self.proxies[name].url)
        own = (f"--kubeconfig={kubeconfig}", f"--identity={name}.{self._started}", mode, *FLAGS)
        self._urls[name] = self._installation.start_reaper(*own, name=name)
        growth = Growth(f"{name}.{self._started}")
        self.growths.append(growth)
        self._begun[name] = (monotonic(), growth)

    def holder(self) -> str:
        """Gives the identity of the leader, or an empty text."""
        lease = self._sandbox.api().find(LEASE)
        return str(lease["spec"].get("holderIdentity") or "") if lease else ""

    def leader(self) -> str:
        """Gives the name of the replica that leads, once one does."""
        return wait(self.holder, LEADER_SECONDS, "a reaper leads").split(".", 1)[0]

    def wait_other(self, identity: str) -> float:
        """Returns when another one leads, and gives after how many seconds."""
        began = monotonic()
        wait(lambda: self.holder() not in ("", identity), LEADER_SECONDS, f"another leads than {identity}")
        return monotonic() - began

    def proxy_of_leader(self) -> FaultProxy:
        """Gives the proxy that the leader talks through."""
        return self.proxies[self.leader()]

    def kill(self, name: str) -> None:
        """Kills a replica, which says nothing any more."""
        self._leave(name)
        self._sandbox.kill(name)

    def stop(self, name: str) -> None:
        """Asks a replica to stop and returns when it has."""
        self._leave(name)
        self._sandbox.stop(name)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Freezes a replica for a while."""
        self._sandbox.suspend(name)
        try:
            yield
        finally:
            self._sandbox.resume(name)

    def weigh(self) -> None:
        """Notes how much memory each replica has now."""
        states = self._sandbox.children.states()
        for name, (begun, growth) in self._begun.items():
            size = resident(states[name].pid) if states[name].running else 0
            if size:
                growth.samples.append((monotonic() - begun, size))

    def count_cycles(self) -> None:
        """Adds the cycles of the replicas that run; to be called once, at the end."""
        for name in tuple(self._begun):
            self._leave(name)

    def _leave(self, name: str) -> None:
        self._begun.pop(name, None)
        try:
            text = requests.get(f"{self._urls[name]}/metrics", timeout=5).text
        except requests.RequestException:
            return
        for result in self.cycles:
            found = re.search(
                rf'^gpu_tenure_reaper_cycles_total{{result="{result}"}} (\S+)$', text, re.MULTILINE
            )
            self.cycles[result] += float(found[1]) if found else 0.0


def resident(pid: int) -> int:
    """Gives the resident memory of a process in bytes; 0 if there is none."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
