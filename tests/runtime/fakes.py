"""A fake API server that can misbehave, and a time that tests move by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeTime:
    """A clock and a sleep that share one time, which only moves by `advance` or, if `auto`, by sleeping."""

    def __init__(self, *, auto: bool) -> None:
        self.auto = auto
        self.seconds = 1000.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Returns the fake wall-clock time."""
        return datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Returns the fake monotonic time."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Waits until the time has moved on so far."""
        self.slept.append(seconds)
        if self.auto:
            self.seconds += seconds
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.seconds + seconds, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Moves the time on, waking the sleepers in their order and letting each run as far as it can."""
        end = self.seconds + seconds
        await settle()
        while due := sorted(
            (item for item in self._sleepers if item[0] <= end and not item[1].done()),
            key=lambda item: item[0],
        ):
            self.seconds, future = due[0]
            future.set_result(None)
            await settle()
        self.seconds = end
        self._sleepers = [item for item in self._sleepers if not item[1].done()]


async def settle(turns: int = 30) -> None:
    """Lets everything that can run, run."""
    for _ in range(turns):
        await asyncio.sleep(0)


class FakeApi:
    """An HTTP server whose answers are scripted by method and path; the last answer of a script repeats.

    Lists of one object are asked for their version: they are answered with `version` (none, so never an older
    one), and are not among the requests.
    """

    def __init__(self) -> None:
        self.url = ""
        self.version = ""
        self.requests: list[tuple[str, str, dict[str, str], dict[str, str], bytes]] = []
        self._scripts: dict[tuple[str, str, bool], list[Answer]] = {}
        self._release = asyncio.Event()

    def on(self, method: str, path: str, *answers: Answer, watch: bool = False) -> None:
        """Scripts the answers to requests of this method and path (`watch`: those with watch=true)."""
        self._scripts[method, path, watch] = list(answers)

    def seen(self, method: str, path: str, *, watch: bool = False) -> list[dict[str, str]]:
        """Returns the queries of the requests that came."""
        return [
            query
            for verb, seen_path, query, _, _ in self.requests
            if (verb, seen_path) == (method, path) and (query.get("watch") == "true") == watch
        ]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers by the script."""
        query = dict(request.query)
        body = await request.read()
        if query == {"limit": "1"}:
            return web.json_response({"metadata": {"resourceVersion": self.version}})
        self.requests.append((request.method, request.path, query, dict(request.headers), body))
        script = self._scripts.get((request.method, request.path, query.get("watch") == "true"))
        if not script:
            return web.Response(status=404, text="404 page not found")
        answer = script.pop(0) if len(script) > 1 else script[0]
        return await answer(request)

    def release(self) -> None:
        """Lets all hanging answers go."""
        self._release.set()

    def json(self, content: object, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
        """An answer in JSON."""

        async def answer(_: web.Request) -> web.StreamResponse:
            return web.json_response(content, status=status, headers=headers)

        return answer

    def text(
        self, content: str, status: int = 200, content_type: str = "text/html", **headers: str
    ) -> Answer:
        """An answer in any other type."""

        async def answer(_: web.Request) -> web.StreamResponse:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            return web.Response(text=content, status=status, content_type=content_type, headers=names)

        return answer

    def hang(self) -> Answer:
        """Never answers."""

        async def answer(_: web.Request) -> web.StreamResponse:
            await self._release.wait()
            return web.Response(status=500)

        return answer

    def reset(self) -> Answer:
        """Cuts the connection before any answer."""

        async def answer(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=500)

        return answer

    def truncated(self, content: str) -> Answer:
        """Promises more bytes than it sends."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.content_length = len(content) + 100
            await response.prepare(request)
            await response.write(content.encode())
            assert request.transport is not None
            request.transport.close()
            return response

        return answer

    def stream(self, *chunks: str | dict[str, Any], then: str = "stay") -> Answer:
        """A watch: JSON events or raw chunks, then `stay` open, `end`, `cut` the connection."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for chunk in chunks:
                text = chunk if isinstance(chunk, str) else json.dumps(chunk) + "\n"
                await response.write(text.encode())
            if then == "stay":
                await self._release.wait()
            if then == "cut":
                assert request.transport is not None
                request.transport.abort()
            return response

        return answer
