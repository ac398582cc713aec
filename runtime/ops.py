"""The ops server: /healthz, /readyz, /metrics and what it is given, over HTTP; knows no check's meaning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Self

import structlog
from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

Check = Callable[[], str | None]
"""Returns None if all is well, else a sentence that says what is wrong."""

Handler = Callable[[web.Request], Awaitable[web.Response]]
"""Answers requests that are sent to this port; it reads their bodies itself, and bounds them."""

Guard = Callable[[str], Awaitable[HTTPStatus]]
"""Judges the Authorization header of whoever wants to read metrics; anything but 200 is the answer."""

KEEPALIVE_SECONDS = 120.0
SHUTDOWN_SECONDS = 5.0
log = structlog.get_logger(__name__)


class OpsServer:
    """Answers the kubelet and Prometheus on a port of its own.

    `ready` and `alive` are named checks; /readyz and /healthz answer 503 with the sentences that they return.
    `posts` are further paths that are POSTed to. `guard` says who may read /metrics; without one everybody
    may. Port 0 takes a free one; the attribute `port` holds the real one after `start`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        ready: Mapping[str, Check] | None = None,
        alive: Mapping[str, Check] | None = None,
        posts: Mapping[str, Handler] | None = None,
        guard: Guard | None = None,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self.host = host
        self.port = port
        self._ready = dict(ready or {})
        self._alive = dict(alive or {})
        self._posts = dict(posts or {})
        self._guard = guard
        self._registry = registry
        self._runner: web.AppRunner | None = None

    def add_ready(self, name: str, check: Check) -> None:
        """Adds a readiness check, also while serving."""
        self._ready[name] = check

    async def start(self) -> int:
        """Listens, logs where, and returns the port; raises OSError if the port is taken."""
        app = web.Application(client_max_size=1024)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        for path, handler in self._posts.items():
            app.router.add_post(path, handler)
        runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=KEEPALIVE_SECONDS, shutdown_timeout=SHUTDOWN_SECONDS
        )
        await runner.setup()
        self._runner = runner
        await web.TCPSite(runner, self.host, self.port).start()
        self.port = runner.addresses[0][1]
        log.info("ops server listening", host=self.host, port=self.port)
        return self.port

    async def stop(self) -> None:
        """Closes the port; requests in progress get a few seconds."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def problems(self) -> dict[str, str]:
        """Returns the readiness checks that fail, each with its sentence."""
        return _failing(self._ready)

    async def _healthz(self, _: web.Request) -> web.Response:
        return _answer(_failing(self._alive))

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self.problems())

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._guard is not None:
            status = await self._guard(request.headers.get("Authorization", ""))
            if status is not HTTPStatus.OK:
                return web.Response(status=status, text=f"{status.phrase}\n")
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        response = web.Response(body=encode(self._registry), headers={"Content-Type": content_type})
        response.enable_compression()
        return response


def _failing(checks: Mapping[str, Check]) -> dict[str, str]:
    found = {name: check() for name, check in checks.items()}
    return {name: sentence for name, sentence in found.items() if sentence is not None}


def _answer(problems: Mapping[str, str]) -> web.Response:
    if not problems:
        return web.Response(text="ok\n")
    lines = [f"{name}: {sentence}\n" for name, sentence in problems.items()]
    return web.Response(status=503, text="".join(lines))
