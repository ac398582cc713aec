"""The server of the webhook, from listening to the end of the drain; does not know what reviews say."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping

import structlog
from aiohttp import web
from aiohttp.http import HttpProcessingError

from webhook.clients import Clients
from webhook.connection import Connection
from webhook.general import General
from webhook.parser import parses_as_expected
from webhook.reception import Limits, Reception, Reviewer, TransportObserver

log = structlog.get_logger(__name__)


class ReviewServer:
    """Serves reviews over one listening socket.

    While it drains it goes on answering, each answer with `Connection: close`, so that clients move
    to another replica without losing a request.
    """

    def __init__(
        self,
        routes: Mapping[str, Reviewer],
        limits: Limits,
        observer: TransportObserver,
        clients: Clients | None = None,
    ) -> None:
        self._reception = Reception(routes, limits, observer, clients)
        self._listener: asyncio.Server | None = None
        self._general: web.Server | None = None

    @property
    def draining(self) -> bool:
        """Tells whether a stop has begun."""
        return self._reception.draining

    @property
    def in_flight(self) -> int:
        """Requests being read or answered now."""
        return self._reception.in_flight

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listens and returns the port, which the system chooses if `port` is 0.

        Raises:
            OSError: the address cannot be listened on.
        """
        general = self._general = general_server(self._reception)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            _factory(self._reception, general, loop),
            host,
            port,
            ssl=tls,
            backlog=1024,
            ssl_handshake_timeout=self._reception.limits.body_seconds if tls else None,
        )
        bound: socket.socket = self._listener.sockets[0]
        return int(bound.getsockname()[1])

    def begin_drain(self) -> None:
        """From now on every answer closes its connection."""
        self._reception.draining = True

    async def stop(self, grace_seconds: float) -> None:
        """Stops listening, lets running requests end within the grace, and closes every connection."""
        self.begin_drain()
        if self._listener is not None:
            self._listener.close()
        if self._general is not None:
            self._general.pre_shutdown()
            await asyncio.gather(self._general.shutdown(grace_seconds), self._reception.end(grace_seconds))


def general_server(reception: Reception) -> web.Server:
    """Aiohttp's server over a reception: it makes protocols that take requests of any form."""
    return web.Server(
        General(reception).handle,
        access_log=None,
        keepalive_timeout=reception.limits.keep_alive_seconds,
        lingering_time=reception.limits.lingering_seconds,
        logger=_http_log(),
        # A compressed body could unpack to more than the limit; nobody sends one.
        auto_decompress=False,
    )


def _factory(
    reception: Reception, general: web.Server, loop: asyncio.AbstractEventLoop
) -> Callable[[], asyncio.Protocol]:
    """What serves new connections."""
    if parses_as_expected(loop):
        return lambda: Connection(reception, general)
    log.warning("reviews are read by the general server alone", reason="aiohttp's parser has changed")
    return general


def _http_log() -> logging.Logger:
    """The library's log, without a traceback for every client that does not speak HTTP."""
    http_log = logging.getLogger("webhook.http")
    http_log.addFilter(_is_our_concern)
    return http_log


def _is_our_concern(record: logging.LogRecord) -> bool:
    """Drops what anybody who reaches the port could fill the log with."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)
