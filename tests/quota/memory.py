"""An API server in memory, for quotas and pods: one revision for all, compare-and-swap, failures to order."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from runtime.kube import ApiError, ApiUnreachable, Query, Response

QUOTAS = "/apis/gpu-tenure.io/v1alpha1/gpuquotas"
Failure = Callable[[str, str], Exception | None]
"""What goes wrong with a request, by method and path; None for nothing."""


class MemoryApi:
    """Implements the KubePort."""

    def __init__(self) -> None:
        self.revision = 10
        self.quotas: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, str] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.requests: list[tuple[str, str]] = []
        self.fail: Failure = lambda _, __: None
        self.after_write: Failure = lambda _, __: None

    def add_quota(self, name: str = "q", hard: int = 8, **status: Any) -> None:
        """Stores a quota that has counted team-a and team-b."""
        self.revision += 1
        self.quotas[name] = {
            "metadata": {
                "name": name,
                "uid": f"u-{name}",
                "generation": 1,
                "resourceVersion": str(self.revision),
            },
            "spec": {"hard": {"devices": hard}},
            "status": {"observedGeneration": 1, "namespaces": ["team-a", "team-b"], **status},
        }

    def status(self, name: str = "q") -> dict[str, Any]:
        """The ledger as stored."""
        return self.quotas[name]["status"]

    def raw(self, name: str = "q") -> bytes:
        """The quota as it is sent."""
        return json.dumps(self.quotas[name]).encode()

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
        self.requests.append((method, path))
        failure = self.fail(method, path)
        if failure is not None:
            raise failure
        if path == QUOTAS:
            items = list(self.quotas.values())
            return self._answer({"metadata": {"resourceVersion": str(self.revision)}, "items": items})
        if path.startswith("/api/v1/namespaces/"):
            return self._pod(path) if "/pods/" in path else self._namespace(path)
        name = path.removeprefix(f"{QUOTAS}/").removesuffix("/status")
        if name not in self.quotas:
            raise ApiError(404, "NotFound")
        if method == "PUT":
            self._put(name, msgspec.json.decode(msgspec.json.encode(body)))
            failure = self.after_write(method, path)
            if failure is not None:
                raise failure
        return self._answer(self.quotas[name])

    def _put(self, name: str, sent: dict[str, Any]) -> None:
        stored = self.quotas[name]
        if sent["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict")
        self.revision += 1
        stored["metadata"]["resourceVersion"] = str(self.revision)
        stored["status"] = sent["status"]

    def _pod(self, path: str) -> Response:
        uid = self.pods.get(path.removeprefix("/api/v1/namespaces/").replace("/pods/", "/"))
        if uid is None:
            raise ApiError(404, "NotFound")
        return self._answer({"metadata": {"uid": uid}})

    def _namespace(self, path: str) -> Response:
        labels = self.namespaces.get(path.removeprefix("/api/v1/namespaces/"))
        if labels is None:
            raise ApiError(404, "NotFound")
        return self._answer({"metadata": {"labels": labels}})

    @staticmethod
    def _answer(content: Any) -> Response:
        return Response(200, {}, json.dumps(content).encode())

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
