"""The server of the webhook: what all connections share, from listening to the end of the drain."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol

from webhook.clients import Clients
from webhook.connection import Connection
from webhook.desk import Limits, RefusedError, Reviewer, Stoppable, overloaded
from webhook.http import Head


class TransportObserver(Protocol):
    """Counts answers that are not 200; the webhook's metrics implement it."""

    def failed(self, status: HTTPStatus) -> None:
        """Counts one answer with an error status."""


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
        self.limits = limits
        self.draining = False
        self.in_flight = 0
        """Requests being read or answered now."""
        self.in_flight_bytes = 0
        self._routes = dict(routes)
        self._clients = clients
        self._observer = observer
        self._listener: asyncio.Server | None = None
        self._connections: set[Stoppable] = set()
        self._gone = asyncio.Event()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listens and returns the port, which the system chooses if `port` is 0.

        Raises:
            OSError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self, loop),
            host,
            port,
            ssl=tls,
            backlog=1024,
            ssl_handshake_timeout=self.limits.body_seconds if tls else None,
        )
        bound: socket.socket = self._listener.sockets[0]
        return int(bound.getsockname()[1])

    def begin_drain(self) -> None:
        """From now on every answer closes its connection."""
        self.draining = True

    async def stop(self, grace_seconds: float) -> None:
        """Stops listening, lets running requests end within the grace, and closes every connection."""
        self.begin_drain()
        if self._listener is not None:
            self._listener.close()
        for connection in tuple(self._connections):
            connection.stop()
        if self._connections:
            self._gone.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), grace_seconds)
        for connection in tuple(self._connections):
            connection.abort()

    def knows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client with this certificate, as the ssl module reads it, may send reviews."""
        return self._clients is None or self._clients.may_send(certificate)

    def reviewer(self, head: Head, *, known: bool) -> Reviewer:
        """Who answers a request of a client that is known, or not; raises RefusedError if nobody does."""
        if not known:
            message = "no name in the client certificate may send reviews"
            raise RefusedError(HTTPStatus.FORBIDDEN, message)
        reviewer = self._routes.get(head.path)
        if reviewer is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"no such path; there are {', '.join(self._routes)}")
        if head.method != b"POST":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "reviews are sent by POST")
        if self.in_flight > self.limits.in_flight:
            raise overloaded()
        return reviewer

    def failed(self, status: HTTPStatus) -> None:
        """Counts one answer with an error status."""
        self._observer.failed(status)

    def finished(self) -> None:
        """Counts a request as no longer in flight."""
        self.in_flight -= 1

    def opened(self, connection: Stoppable) -> None:
        """Remembers a connection."""
        self._connections.add(connection)

    def closed(self, connection: Stoppable) -> None:
        """Forgets it."""
        self._connections.discard(connection)
        if not self._connections:
            self._gone.set()
