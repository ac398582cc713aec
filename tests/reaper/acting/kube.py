"""A fake of the API server for the tests of single adapters; knows no pod and no record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from runtime.kube import ApiError, Query, Response

Answer = dict[str, Any] | Exception


class FakeKube:
    """Answers by method and path, and keeps every request."""

    def __init__(self, answers: dict[tuple[str, str], Answer]) -> None:
        self.answers = answers
        self.sent: list[tuple[str, str, Any, str]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Response:
        """Gives or raises what was prepared; anything else is not found."""
        del timeout
        self.sent.append((method, path, body, content_type))
        key = f"{path}?{query['continue']}" if query and "continue" in query else path
        answer = self.answers.get((method, key), ApiError(404, "NotFound", f"{path} not found"))
        if isinstance(answer, Exception):
            raise answer
        return Response(200, {}, msgspec.json.encode(answer))

    async def get(self, path: str, kind: type[Any], *, query: Query | None = None) -> Any:
        """Reads as a type."""
        return (await self.request("GET", path, query=query)).decode(kind)

    def stream(
        self, path: str, query: Query | None = None, idle_timeout: float = 1.0
    ) -> AsyncIterator[bytes]:
        """Is not used here."""
        raise NotImplementedError
