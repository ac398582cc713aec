"""What the API server trusts and what the webhook serves, read from the API server; whoever keeps them."""

from __future__ import annotations

import base64
import re

from certs.bundle import read_certificates
from sandbox.api import Api

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/zz-gpu-tenure"
VALIDATING = f"{CONFIGURATIONS}/validatingwebhookconfigurations/gpu-tenure"
SECRETS = "/api/v1/namespaces/gpu-tenure-system/secrets"
AUTHORITY, SERVING = f"{SECRETS}/gpu-tenure-webhook-ca", f"{SECRETS}/gpu-tenure-webhook-tls"


class WebhookTls:
    """The Secrets and the caBundles of an installation."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def data(self, path: str) -> dict[str, bytes]:
        """The data of a Secret; empty if there is none."""
        found = (self.api.find(path) or {}).get("data") or {}
        return {key: base64.b64decode(value) for key, value in found.items()}

    def serial(self) -> str:
        """What tells one serving certificate from the next."""
        return self._first(SERVING)

    def signer(self) -> str:
        """The same of the CA that signs."""
        return self._first(AUTHORITY)

    def _first(self, path: str) -> str:
        found = read_certificates(self.data(path).get("tls.crt", b""))
        return found[0].fingerprint if found else ""

    def trusted(self) -> list[list[str]]:
        """The CAs of every caBundle."""
        webhooks = [one for path in (MUTATING, VALIDATING) for one in self.api.get(path)["webhooks"]]
        bundles = [base64.b64decode(one["clientConfig"].get("caBundle", "")) for one in webhooks]
        return [[ca.fingerprint for ca in read_certificates(pem)] for pem in bundles]

    def rejected(self) -> float:
        """Calls of our webhooks that the API server let pass unanswered, or that failed, so far."""
        text = self.api.raw("GET", "/metrics").text
        names = "apiserver_admission_webhook_(?:fail_open_count|rejection_count)"
        return sum(float(value) for value in re.findall(rf"^{names}{{[^}}]*}} (\S+)$", text, re.MULTILINE))
