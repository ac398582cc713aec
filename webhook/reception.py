"""What all connections of the webhook's server share: limits, counts, who answers; does no I/O."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
import structlog

from webhook.clients import Clients

RETRY_AFTER_SECONDS = "1"
Reviewer = Callable[[bytes], bytes | Awaitable[bytes]]
"""Answers the body of one review, at once or later; raises MalformedError for what is not one."""

log = structlog.get_logger(__name__)


class MalformedError(ValueError):
    """The body is not a review; the message says what is wrong with it."""


class FailureError(Exception):
    """An answer other than 200, raised where it is found out."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    @property
    def headers(self) -> dict[str, str]:
        """What may come again later says when."""
        again = self.status is HTTPStatus.SERVICE_UNAVAILABLE
        return {"Retry-After": RETRY_AFTER_SECONDS} if again else {}


class Limits(msgspec.Struct, frozen=True):
    """What one process takes on: bytes, seconds (`body_seconds` also for a handshake), counts.

    `lingering_seconds`: the rest of a refused body is read for so long, so that its sender sees the answer.
    """

    body_bytes: int = 7 * 1024 * 1024
    body_seconds: float = 5.0
    keep_alive_seconds: float = 150.0
    lingering_seconds: float = 2.0
    in_flight: int = 256
    in_flight_bytes: int = 64 * 1024 * 1024


class TransportObserver(Protocol):
    """Counts answers that are not 200; the webhook's metrics implement it."""

    def failed(self, status: HTTPStatus) -> None:
        """Counts one answer with an error status."""


class Stoppable(Protocol):
    """A connection as the server sees it."""

    def stop(self) -> None:
        """Ends it if no request has begun; otherwise its answer will."""
        ...

    def abort(self) -> None:
        """Ends it at once."""
        ...


class Reception:
    """Who answers which path, how much is being answered now, and which connections there are.

    Attributes:
        draining: Whether every answer ends its connection.
        in_flight: Requests being read or answered now, and `in_flight_bytes` what came of their bodies.
        reading: Those of them whose bodies are not complete.
    """

    def __init__(
        self,
        routes: Mapping[str, Reviewer],
        limits: Limits,
        observer: TransportObserver,
        clients: Clients | None = None,
    ) -> None:
        self.routes = dict(routes)
        self.limits = limits
        self.draining = False
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.reading = 0
        self._observer = observer
        self._clients = clients
        self._connections: set[Stoppable] = set()
        self._empty = asyncio.Event()

    def knows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client with this certificate, as the ssl module reads it, may send reviews."""
        return self._clients is None or self._clients.may_send(certificate)

    @property
    def busy(self) -> bool:
        """Whether as many requests are being answered as may be.

        Bodies that are still to come cost memory alone, which has a limit of its own: whoever holds them back
        must not keep others out.
        """
        return self.in_flight - self.reading >= self.limits.in_flight

    def opened(self, connection: Stoppable) -> None:
        """Remembers a connection as long as there is something to wait for."""
        self._connections.add(connection)

    def closed(self, connection: Stoppable) -> None:
        """Forgets it, also if another server has it now."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    async def end(self, grace_seconds: float) -> None:
        """Ends all connections: idle ones now, others with their answer, or else when the grace is over."""
        for connection in tuple(self._connections):
            connection.stop()
        if self._connections:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), grace_seconds)
        for connection in tuple(self._connections):
            connection.abort()

    def failed(self, status: HTTPStatus) -> None:
        """Counts an answer with an error status."""
        self._observer.failed(status)


async def reviewed(reviewer: Reviewer, body: bytes) -> bytes:
    """The answer to a body, whether it is there at once or later."""
    found = reviewer(body)
    return found if isinstance(found, bytes) else await found


def failure_of(error: Exception, path: str) -> FailureError:
    """The answer to a review that failed: a bug of ours becomes a 500, so that the failure policy decides."""
    if isinstance(error, FailureError):
        return error
    if isinstance(error, MalformedError):
        return FailureError(HTTPStatus.BAD_REQUEST, str(error))
    log.error("review failed", path=path, exc_info=error)
    return FailureError(HTTPStatus.INTERNAL_SERVER_ERROR, "the review failed")


def too_slow(limits: Limits) -> FailureError:
    """The answer to a body that was promised and did not come."""
    message = f"the body did not arrive within {limits.body_seconds:g} s"
    return FailureError(HTTPStatus.REQUEST_TIMEOUT, message)


def overloaded() -> FailureError:
    """The answer that API servers retry within their own time-out."""
    return FailureError(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered; try again")
