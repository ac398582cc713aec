"""What the webhook configurations trust: reads their caBundles and patches nothing else of them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from certs.bundle import Certificate, decoded, read_certificates
from runtime.kube import ApiError, KubePort

GROUP = "/apis/admissionregistration.k8s.io/v1"
MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
REQUEST_SECONDS = 10.0


class Trust(msgspec.Struct, frozen=True):
    """What one webhook of a configuration trusts.

    Attributes:
        configuration: The name of the configuration.
        webhook: The name of the webhook in it.
        pem: Its caBundle, decoded; empty if it has none.
    """

    configuration: str
    webhook: str
    pem: bytes

    @property
    def authorities(self) -> tuple[Certificate, ...]:
        """The CAs in it."""
        return tuple(read_certificates(self.pem))

    def trusts(self, authority: Certificate) -> bool:
        """Whether a leaf of this CA would be accepted."""
        return any(one.fingerprint == authority.fingerprint for one in self.authorities)


class _ClientConfig(msgspec.Struct, rename={"ca_bundle": "caBundle"}):
    ca_bundle: str = ""


class _Webhook(msgspec.Struct, rename="camel"):
    name: str
    client_config: _ClientConfig


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Configuration(msgspec.Struct):
    metadata: _Metadata
    webhooks: list[_Webhook] | None = None


class Configurations:
    """The configurations `(resource, name)`; one that is not installed trusts nothing and misses nothing."""

    def __init__(self, client: KubePort, names: Sequence[tuple[str, str]]) -> None:
        self._client = client
        self._names = tuple(names)

    async def read(self) -> tuple[Trust, ...]:
        """What every webhook trusts now; raises ApiError or ApiUnreachable."""
        found: list[Trust] = []
        for resource, name in self._names:
            configuration = await self._get(resource, name)
            webhooks = (configuration and configuration.webhooks) or ()
            found += [Trust(name, one.name, decoded(one.client_config.ca_bundle)) for one in webhooks]
        return tuple(found)

    async def write(self, pem: bytes) -> int:
        """Gives every webhook this caBundle; returns how many had another one.

        Raises:
            ApiError: among others 409, if somebody else wrote at the same moment.
            ApiUnreachable: whether it was written is unknown.
        """
        changed = 0
        for resource, name in self._names:
            configuration = await self._get(resource, name)
            webhooks = (configuration and configuration.webhooks) or []
            stale = [one.name for one in webhooks if decoded(one.client_config.ca_bundle) != pem]
            if configuration is not None and stale:
                await self._patch(resource, configuration, stale, pem)
                changed += len(stale)
        return changed

    async def _get(self, resource: str, name: str) -> _Configuration | None:
        try:
            path = f"{GROUP}/{resource}/{name}"
            response = await self._client.request("GET", path, timeout=REQUEST_SECONDS)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return response.decode(_Configuration)

    async def _patch(self, resource: str, old: _Configuration, webhooks: Sequence[str], pem: bytes) -> None:
        """Patches by the webhooks' names: entries that somebody adds or moves meanwhile stay as they are."""
        bundle = base64.b64encode(pem).decode()
        body = {
            "metadata": {"resourceVersion": old.metadata.resource_version},
            "webhooks": [{"name": name, "clientConfig": {"caBundle": bundle}} for name in webhooks],
        }
        path = f"{GROUP}/{resource}/{old.metadata.name}"
        await self._client.request(
            "PATCH", path, body=body, content_type=STRATEGIC_MERGE, timeout=REQUEST_SECONDS
        )
