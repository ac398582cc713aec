"""Reads and writes the two Secrets by compare-and-swap; decides nothing about what they hold."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from certs.bundle import Bundle, authority_data, decoded, read_bundle, serving_data
from runtime.kube import ApiError, KubePort

TLS_TYPE = "kubernetes.io/tls"
REQUEST_SECONDS = 10.0
LABELS = {"app.kubernetes.io/name": "gpu-tenure", "app.kubernetes.io/component": "certs"}


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    resource_version: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[dict[str, object]] | None = None
    finalizers: list[str] | None = None


class _Secret(msgspec.Struct, rename="camel", omit_defaults=True):
    metadata: _Metadata
    data: dict[str, str] | None = None
    type: str = ""
    immutable: bool | None = None
    api_version: str = ""
    kind: str = ""

    def decoded(self) -> dict[str, bytes]:
        """The data as bytes; what is no base64 is empty."""
        return {key: decoded(value) for key, value in (self.data or {}).items()}


class SecretStore:
    """The Secrets `authority` (the CA with its key) and `serving` (what the webhook mounts)."""

    def __init__(self, client: KubePort, namespace: str, authority: str, serving: str) -> None:
        self._client = client
        self._namespace = namespace
        self._names = (authority, serving)
        self._read: tuple[_Secret | None, _Secret | None] = (None, None)

    async def load(self) -> Bundle:
        """Reads both; raises ApiError or ApiUnreachable."""
        self._read = (await self._get(self._names[0]), await self._get(self._names[1]))
        authority, serving = (one.decoded() if one is not None else None for one in self._read)
        return read_bundle(authority, serving)

    async def save(self, bundle: Bundle) -> None:
        """Writes what changed since `load`, the CA first: a leaf whose CA is lost could not be renewed.

        Raises:
            ApiError: among others 409, if somebody else wrote since `load`.
            ApiUnreachable: whether it was written is unknown.
        """
        wanted = (authority_data(bundle), serving_data(bundle))
        for name, old, data in zip(self._names, self._read, wanted, strict=True):
            if data and (old is None or old.decoded() != data):
                await self._put(name, old, data)

    async def _get(self, name: str) -> _Secret | None:
        try:
            response = await self._client.request("GET", self._path(name), timeout=REQUEST_SECONDS)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return response.decode(_Secret)

    async def _put(self, name: str, old: _Secret | None, data: Mapping[str, bytes]) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        new = old or _Secret(_Metadata(name, self._namespace, labels=LABELS), type=TLS_TYPE)
        body = msgspec.structs.replace(new, data=encoded, api_version="v1", kind="Secret")
        method, path = ("PUT", self._path(name)) if old else ("POST", self._path(""))
        await self._client.request(method, path, body=body, timeout=REQUEST_SECONDS)

    def _path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/secrets/{name}".rstrip("/")
