"""A fake API server that holds one Lease, and candidates for it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from runtime.kube import ApiError, ApiUnreachable, Query, Response
from runtime.lease import Elector, LeaseOptions

PATH = "/apis/coordination.k8s.io/v1/namespaces/gpu-tenure-system/leases"


class LeaseStore:
    """An API server that holds one Lease with compare-and-swap, and can fail in every way."""

    def __init__(self, time: Any) -> None:
        self.time = time
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.fault = ""
        self.requests: list[tuple[str, float]] = []

    @property
    def holder(self) -> str:
        """The holder's identity as stored."""
        return str(self.lease["spec"].get("holderIdentity", "")) if self.lease else ""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,  # noqa: ARG002 - a Lease is read and written without one
        body: object = None,
        content_type: str = "application/json",  # noqa: ARG002 - always this
        timeout: float | None = None,  # noqa: ASYNC109 - the port's signature
    ) -> Response:
        """Answers as the API server would, or by the fault."""
        assert timeout is not None
        self.requests.append((method, timeout))
        if self.fault == "hang":
            await self.time.sleep(timeout)
            raise ApiUnreachable("timed out")
        if self.fault == "refuse":
            raise ApiUnreachable("connection refused")
        if self.fault == "500":
            raise ApiError(500, "InternalError")
        answer = self._answer(method, path, msgspec.to_builtins(body))
        if self.fault == "lost answer" and method != "GET":
            raise ApiUnreachable("reset after the write")
        return answer

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> Response:
        if method == "POST":
            assert path == PATH
            if self.lease is not None:
                raise ApiError(409, "AlreadyExists")
            return self._store(body)
        assert path == f"{PATH}/gpu-tenure-reaper"
        if self.lease is None:
            raise ApiError(404, "NotFound")
        if method == "PUT":
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict")
            return self._store(body)
        return Response(200, {}, msgspec.json.encode(self.lease))

    def _store(self, body: dict[str, Any]) -> Response:
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return Response(200, {}, msgspec.json.encode(self.lease))

    async def get(self, path: str, kind: type[Any], *, query: Query | None = None) -> Any:
        """Not used by an elector."""
        raise NotImplementedError

    def stream(
        self, path: str, query: Query | None = None, idle_timeout: float = 0
    ) -> AsyncGenerator[bytes, None]:
        """Not used by an elector."""
        raise NotImplementedError


class Candidate:
    """An elector with a work that notes when it begins and ends."""

    def __init__(self, store: LeaseStore, identity: str, time: Any) -> None:
        self.changes: list[bool] = []
        self.working = False
        self.began = 0
        self.ended_at = 0.0
        self.time = time
        options = LeaseOptions(sleep=time.sleep, draw=lambda: 0.0)
        self.elector = Elector(
            store,
            "gpu-tenure-system",
            "gpu-tenure-reaper",
            identity,
            clock=time,
            options=options,
            on_change=self.changes.append,
        )

    async def work(self) -> None:
        """Works until cancelled."""
        self.working = True
        self.began += 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.working = False
            self.ended_at = self.time.seconds
