"""An API server in memory, for Secrets and webhook configurations: compare-and-swap, failures to order."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import msgspec

from certs.bundle import Bundle, read_bundle
from certs.store import TLS_TYPE
from runtime.kube import ApiError, ApiUnreachable, Query, Response

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
SECRETS = "/api/v1/namespaces/gpu-tenure-system/secrets"
MUTATING = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/zz-gpu-tenure"
VALIDATING = f"{CONFIGURATIONS}/validatingwebhookconfigurations/gpu-tenure"
AUTHORITY = f"{SECRETS}/gpu-tenure-webhook-ca"
SERVING = f"{SECRETS}/gpu-tenure-webhook-tls"
Failure = Callable[[str, str], Exception | None]


class MemoryApi:
    """Implements the KubePort over a dictionary from paths to objects."""

    def __init__(self, *, installed: bool = True) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[tuple[str, str]] = []
        self.reads: list[str] = []
        self.fail: Failure = lambda _, __: None
        self.revision = 0
        if installed:
            self.put(MUTATING, webhooks=[_webhook("mutate"), _webhook("jobs")])
            self.put(VALIDATING, webhooks=[_webhook("validate")])

    def put(self, path: str, **content: Any) -> None:
        """Stores an object as somebody else would."""
        self.revision += 1
        metadata = {**_metadata(path), "resourceVersion": str(self.revision)}
        self.objects[path] = {"metadata": metadata, **content}

    def put_secret(self, path: str, data: Mapping[str, bytes], kind: str = TLS_TYPE) -> None:
        """Stores a Secret as somebody else would."""
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        self.put(path, type=kind, data=encoded)

    def data(self, path: str) -> dict[str, bytes] | None:
        """The decoded data of a Secret; None if there is none."""
        stored = self.objects.get(path)
        return stored and {key: base64.b64decode(value) for key, value in stored["data"].items()}

    @property
    def bundle(self) -> Bundle:
        """What both Secrets hold."""
        return read_bundle(self.data(AUTHORITY), self.data(SERVING))

    def bundles(self) -> list[bytes]:
        """The caBundle of every webhook that is installed, decoded."""
        found = [self.objects[path] for path in (MUTATING, VALIDATING) if path in self.objects]
        webhooks = [webhook for configuration in found for webhook in configuration["webhooks"]]
        return [base64.b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in webhooks]

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,  # noqa: ARG002 - part of the port
        body: Any = None,
        content_type: str = "application/json",  # noqa: ARG002 - as above
        timeout: float | None = None,  # noqa: ASYNC109, ARG002 - as above
    ) -> Response:
        """Answers, or fails as told."""
        failure = self.fail(method, path)
        if failure is not None:
            raise failure
        sent = msgspec.json.decode(msgspec.json.encode(body)) if body is not None else {}
        if method == "POST":
            path = f"{path}/{sent['metadata']['name']}"
            if path in self.objects:
                raise ApiError(409, "AlreadyExists")
        elif path not in self.objects:
            raise ApiError(404, "NotFound")
        if method == "GET":
            self.reads.append(path)
        else:
            self._write(method, path, sent)
        return Response(200, {}, json.dumps(self.objects[path]).encode())

    def _write(self, method: str, path: str, sent: dict[str, Any]) -> None:
        stored = self.objects.get(path, {"metadata": _metadata(path)})
        version = sent["metadata"].get("resourceVersion")
        if version != stored["metadata"].get("resourceVersion"):
            raise ApiError(409, "Conflict")
        self.writes.append((method, path))
        self.revision += 1
        if method == "PATCH":
            for patch in sent["webhooks"]:
                for webhook in stored["webhooks"]:
                    if webhook["name"] == patch["name"]:
                        webhook["clientConfig"].update(patch["clientConfig"])
        else:
            stored = {**stored, "type": sent["type"], "data": sent["data"]}
        stored["metadata"]["resourceVersion"] = str(self.revision)
        self.objects[path] = stored

    async def get(self, path: str, kind: type[Any], *, query: Query | None = None) -> Any:
        """Reads one object."""
        return (await self.request("GET", path, query=query)).decode(kind)

    async def stream(
        self,
        path: str,
        query: Query | None = None,  # noqa: ARG002 - part of the port
        idle_timeout: float = 0,  # noqa: ARG002 - as above
    ) -> AsyncGenerator[bytes, None]:
        """No watches here."""
        raise ApiUnreachable(path)
        yield b""


def _metadata(path: str) -> dict[str, str]:
    name = path.rpartition("/")[2]
    return {"name": name, "namespace": "gpu-tenure-system"} if path.startswith(SECRETS) else {"name": name}


def _webhook(name: str) -> dict[str, Any]:
    service = {"name": "gpu-tenure-webhook", "namespace": "gpu-tenure-system", "path": "/mutate"}
    return {"name": f"{name}.gpu-tenure.io", "clientConfig": {"service": service}}
