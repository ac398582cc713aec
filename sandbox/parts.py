"""How each program of the sandbox is started: pure argument lists over a layout; starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.binaries import Binaries
from sandbox.ports import LOOPBACK

EXPORTER = "exporter"
STAGES_DIR = Path(__file__).parent / "stages"
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
"""


@dataclass(frozen=True)
class Layout:
    """Where everything lies and listens.

    Attributes:
        folder: The folder of the sandbox.
        ports: The loopback port of each part, by name.
        binaries: The programs.
        audit: Whether the API server writes an audit log.
        interval_seconds: The scrape interval, which is also how long a simulated burst lasts.
        kubelet: Whether our own kubelet has the pods of our namespace, and its proxy the calls of Services.
    """

    folder: Path
    ports: Mapping[str, int]
    binaries: Binaries
    audit: bool = False
    interval_seconds: float = 1.0
    kubelet: bool = False

    @property
    def tools(self) -> Path:
        """A folder to put on the path: the programs that people type."""
        return self.folder / "bin"

    @property
    def ca(self) -> Path:
        """The certificate that clients of the API server trust: the server makes it itself."""
        return self.folder / "apiserver" / "apiserver.crt"

    @property
    def key(self) -> Path:
        """The private key that belongs to it."""
        return self.folder / "apiserver" / "apiserver.key"

    @property
    def egress(self) -> Path:
        """The socket file of the proxy through which the API server, started beside it, calls Services."""
        return self.folder / "egress.sock"

    @property
    def targets(self) -> Path:
        """The file in which Prometheus finds the pods that run as processes."""
        return self.folder / "targets.json"

    @property
    def pod_stages(self) -> Path:
        """What kwok does with pods."""
        return (self.folder if self.kubelet else STAGES_DIR) / "pod.yaml"

    def url(self, part: str, scheme: str = "http") -> str:
        """The address of a part."""
        return f"{scheme}://{LOOPBACK}:{self.ports[part]}"

    @property
    def api_url(self) -> str:
        """The address of the API server."""
        return self.url("apiserver", "https")

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a user."""
        return self.folder / "kubeconfigs" / user


def etcd(layout: Layout) -> list[str]:
    """Gives the argument list of etcd; it syncs nothing to disk, because nothing outlives the sandbox."""
    return [
        layout.binaries.path("etcd"),
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={layout.url('etcd')}",
        f"--advertise-client-urls={layout.url('etcd')}",
        f"--listen-peer-urls={layout.url('etcd-peer')}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(layout: Layout) -> list[str]:
    """Gives the argument list of the API server: RBAC, tokens from a file, its own certificate."""
    audit = [
        f"--audit-policy-file={layout.folder / 'audit-policy.yaml'}",
        f"--audit-log-path={layout.folder / 'logs' / 'audit.jsonl'}",
    ]
    return [
        layout.binaries.path("kube-apiserver"),
        f"--etcd-servers={layout.url('etcd')}",
        f"--cert-dir={layout.folder / 'apiserver'}",
        f"--secure-port={layout.ports['apiserver']}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        f"--token-auth-file={layout.folder / 'tokens.csv'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.folder / 'service-accounts.pem'}",
        f"--service-account-signing-key-file={layout.folder / 'service-accounts.pem'}",
        "--endpoint-reconciler-type=none",
        *(audit if layout.audit else []),
        *([f"--egress-selector-config-file={layout.folder / 'egress.yaml'}"] if layout.kubelet else []),
    ]


def controller_manager(layout: Layout) -> list[str]:
    """Gives the argument list of the controller-manager: every controller is a service account of its own."""
    return [
        layout.binaries.path("kube-controller-manager"),
        f"--kubeconfig={layout.kubeconfig('controller-manager')}",
        f"--service-account-private-key-file={layout.folder / 'service-accounts.pem'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports['controller-manager']}",
    ]


def scheduler(layout: Layout) -> list[str]:
    """Gives the argument list of the scheduler."""
    return [
        layout.binaries.path("kube-scheduler"),
        f"--kubeconfig={layout.kubeconfig('scheduler')}",
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports['scheduler']}",
    ]


def kwok(layout: Layout) -> list[str]:
    """Gives the argument list of kwok, which plays the kubelet of every node by our Stages."""
    return [
        layout.binaries.path("kwok"),
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        "--manage-all-nodes=true",
        f"--config={STAGES_DIR / 'node.yaml'}",
        f"--config={layout.pod_stages}",
        f"--server-address={LOOPBACK}:{layout.ports['kwok']}",
        "--node-lease-duration-seconds=40",
    ]


def prometheus(layout: Layout) -> list[str]:
    """Gives the argument list of Prometheus; new blocks are seen within a second."""
    return [
        layout.binaries.path("prometheus"),
        f"--config.file={layout.folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={layout.folder / 'prometheus'}",
        f"--web.listen-address={LOOPBACK}:{layout.ports['prometheus']}",
        "--web.enable-lifecycle",
        "--web.enable-admin-api",
        "--storage.tsdb.block-reload-interval=1s",
        "--log.level=warn",
    ]


def alertmanager(layout: Layout) -> list[str]:
    """Gives the argument list of Alertmanager, alone and without a cluster port."""
    return [
        layout.binaries.path("alertmanager"),
        f"--config.file={layout.folder / 'alertmanager.yml'}",
        f"--storage.path={layout.folder / 'alertmanager'}",
        f"--web.listen-address={LOOPBACK}:{layout.ports['alertmanager']}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]


def exporter(layout: Layout) -> list[str]:
    """Gives the argument list of the exporter simulator."""
    return [
        sys.executable,
        "-m",
        "sandbox.exporter",
        f"--kubeconfig={layout.kubeconfig('exporter')}",
        f"--state={layout.folder / 'exporter.json'}",
        f"--port={layout.ports[EXPORTER]}",
        f"--interval={layout.interval_seconds}",
    ]


@dataclass(frozen=True)
class Part:
    """One part: its arguments, where it says that it is ready, and how long it may take to stop.

    A stop time of 0 means that killing it loses nothing that anybody needs.
    """

    argv: Callable[[Layout], list[str]]
    ready_path: str
    scheme: str = "http"
    stop_seconds: float = 0.0


PARTS: Mapping[str, Part] = {
    "etcd": Part(etcd, "/health"),
    "apiserver": Part(apiserver, "/readyz", "https"),
    "controller-manager": Part(controller_manager, "/healthz", "https"),
    "scheduler": Part(scheduler, "/healthz", "https"),
    "kwok": Part(kwok, "/healthz"),
    "prometheus": Part(prometheus, "/-/ready"),
    "alertmanager": Part(alertmanager, "/-/ready"),
    EXPORTER: Part(exporter, "/healthz"),
}
