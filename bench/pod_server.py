"""A simulated API server of one large cluster: lists its pods in pages, then tells changes; measures nothing.

`/any/…` tells changes of all kinds of pods, `/gpu/…` of GPU pods alone; both begin when `/go` is asked for.
Large answers are compressed for who accepts that, as a real API server does.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from bench.pod_list import EVERY, event, page
from sandbox.ports import LOOPBACK

PODS = "/{kind}/api/v1/pods"
COMPRESSED_BYTES = 128 * 1024
COMPRESSION = 1
EVENTS_PER_WRITE = 20


class PodServer:
    """The pods of a cluster, and the changes that it tells."""

    def __init__(self, pods: int, events: int) -> None:
        self._pods = pods
        self._events = events
        self._go = asyncio.Event()

    def app(self) -> web.Application:
        """Gives the application."""
        made = web.Application()
        made.router.add_get(PODS, self.pods)
        made.router.add_get("/{kind}/go", self.go)
        return made

    async def go(self, _: web.Request) -> web.Response:
        """Lets the changes begin."""
        self._go.set()
        return web.json_response({})

    async def pods(self, request: web.Request) -> web.StreamResponse:
        """Answers a list or a watch."""
        if request.query.get("watch", "").lower() == "true":
            return await self._watch(request)
        # A list begins anew: whatever was told before is told again to whoever watches after it.
        self._go.clear()
        limit = int(request.query.get("limit", self._pods))
        begin = int(request.query.get("continue") or 0)
        end = min(begin + limit, self._pods)
        body = await asyncio.to_thread(page, begin, end, self._pods)
        headers = {"Content-Type": "application/json"}
        if "gzip" in request.headers.get("Accept-Encoding", "") and len(body) > COMPRESSED_BYTES:
            body = await asyncio.to_thread(gzip.compress, body, COMPRESSION)
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, headers=headers)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        every = 1 if request.match_info["kind"] == "gpu" else EVERY
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        await self._go.wait()
        for begin in range(0, self._events, EVENTS_PER_WRITE):
            numbers = range(begin, min(begin + EVENTS_PER_WRITE, self._events))
            await answer.write(b"".join(event(n, self._pods + 2 + n, every) for n in numbers))
        await asyncio.Event().wait()
        return answer


def main(arguments: Sequence[str]) -> None:
    """Serves until the process is ended; the port is the first line of its output."""
    parser = argparse.ArgumentParser(prog="bench.pod_server", description=__doc__)
    for flag in ("--pods", "--events"):
        parser.add_argument(flag, type=int, required=True)
    for flag in ("--certificate", "--key"):
        parser.add_argument(flag, type=Path, required=True)
    options = parser.parse_args(arguments)
    asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    runner = web.AppRunner(PodServer(options.pods, options.events).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0, ssl_context=context).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
