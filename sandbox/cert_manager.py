"""Runs cert-manager's own controllers on a sandbox, with the rights of its chart; knows nothing of ours.

Its webhook does not run: what it would refuse or convert, nobody sends here.
"""

from __future__ import annotations

from pathlib import Path

from sandbox.api import Api
from sandbox.binaries import ensure
from sandbox.cluster import Sandbox
from sandbox.users import User, kubeconfig

NAMESPACE = "cert-manager"
PROGRAM = "cert-manager"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
RIGHTS = ("rbac", "serviceaccount", "cainjector-rbac", "cainjector-serviceaccount")
CONTROLLERS, INJECTOR = "cert-manager", "cert-manager-cainjector"
TOKEN_SECONDS = 7200


class CertManager:
    """cert-manager's definitions, rights, controllers and CA injector; they end with the sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._program = ensure(sandbox.options.environ, [PROGRAM]).paths[PROGRAM]

    def start(self) -> None:
        """Installs the definitions and the rights, and starts the process."""
        self.sandbox.api().create_namespace(NAMESPACE)
        self.sandbox.kubectl("create", "-f", "-", stdin=self._rendered("crd-*", "--set=crds.enabled=true"))
        self.sandbox.kubectl("wait", "--for=condition=Established", "--timeout=30s", DEFINITIONS, "--all")
        for name in RIGHTS:
            self.sandbox.kubectl("create", "-f", "-", stdin=self._rendered(name))
        argv = [
            str(self._program),
            f"--kubeconfig={self._kubeconfig(CONTROLLERS)}",
            f"--injector-kubeconfig={self._kubeconfig(INJECTOR)}",
        ]
        self.sandbox.spawn(PROGRAM, argv, stop_seconds=0)

    def _rendered(self, template: str, *args: str) -> str:
        """Renders one template of its chart, which lies beside the program."""
        chart = self._program.parent / "charts" / "cert-manager"
        show = f"--show-only=templates/{template}.yaml"
        return self.sandbox.helm(
            "template", PROGRAM, str(chart), f"--namespace={NAMESPACE}", show, *args
        ).stdout

    def _kubeconfig(self, account: str) -> Path:
        """Writes the kubeconfig of one of its service accounts, with a token of that account."""
        token = service_account_token(self.sandbox.api(), NAMESPACE, account)
        path = self.sandbox.layout.kubeconfig(account)
        user = User(account, f"system:serviceaccount:{NAMESPACE}:{account}", (), token)
        path.write_text(kubeconfig(user, self.sandbox.api_url, self.sandbox.layout.ca))
        return path


def service_account_token(api: Api, namespace: str, account: str) -> str:
    """Asks the API server for a token of a service account."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    made = api.create(path, {"spec": {"expirationSeconds": TOKEN_SECONDS}})
    return str(made["status"]["token"])
