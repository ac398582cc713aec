"""The HTTP side of the webhook: limits, time-outs, status codes, drain; does not know what reviews say."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Protocol

import msgspec
import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from webhook.clients import Clients
from webhook.reply import JsonReply

RETRY_AFTER_SECONDS = "1"
Reviewer = Callable[[bytes], Awaitable[bytes]]
"""Answers the body of one review; raises MalformedError for what is not one."""

log = structlog.get_logger(__name__)


class MalformedError(ValueError):
    """The body is not a review; the message says what is wrong with it."""


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


class _FailureError(Exception):
    """An answer other than 200, raised where it is found out."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


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
        self._routes = dict(routes)
        self._clients = clients
        self._limits = limits
        self._observer = observer
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._draining = False
        self._listener: asyncio.Server | None = None
        self._server: web.Server | None = None

    @property
    def draining(self) -> bool:
        """Tells whether a stop has begun."""
        return self._draining

    @property
    def in_flight(self) -> int:
        """Requests being read or answered now."""
        return self._in_flight

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listens and returns the port, which the system chooses if `port` is 0.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._server = web.Server(
            self._handle,
            access_log=None,
            keepalive_timeout=self._limits.keep_alive_seconds,
            lingering_time=self._limits.lingering_seconds,
            logger=_http_log(),
            # A compressed body could unpack to more than the limit; nobody sends one.
            auto_decompress=False,
        )
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._server,
            host,
            port,
            ssl=tls,
            backlog=1024,
            ssl_handshake_timeout=self._limits.body_seconds if tls else None,
        )
        bound: socket.socket = self._listener.sockets[0]
        return int(bound.getsockname()[1])

    def begin_drain(self) -> None:
        """From now on every answer closes its connection."""
        self._draining = True

    async def stop(self, grace_seconds: float) -> None:
        """Stops listening, lets running requests end within the grace, and closes every connection."""
        self.begin_drain()
        if self._listener is not None:
            self._listener.close()
        if self._server is not None:
            self._server.pre_shutdown()
            await self._server.shutdown(grace_seconds)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request, whatever happens, with a status that lets the failure policy decide."""
        self._in_flight += 1
        try:
            document = await self._answer(request)
            return JsonReply(document, close=self._draining or not request.keep_alive)
        except _FailureError as failure:
            answer = self._failed(failure)
        except (MalformedError, web.RequestPayloadError) as error:
            answer = self._failed(_FailureError(HTTPStatus.BAD_REQUEST, str(error)))
        except ConnectionError:
            raise
        except Exception:
            # A bug of ours must become a 500 and be counted: then the failure policy decides.
            log.exception("review failed", path=request.path)
            answer = self._failed(_FailureError(HTTPStatus.INTERNAL_SERVER_ERROR, "the review failed"))
        finally:
            self._in_flight -= 1
        if self._draining:
            answer.force_close()
        return answer

    async def _answer(self, request: web.BaseRequest) -> bytes:
        """Routes, reads and reviews one request."""
        if self._clients is not None and not self._clients.may_send(request.get_extra_info("peercert")):
            raise _FailureError(HTTPStatus.FORBIDDEN, "no name in the client certificate may send reviews")
        reviewer = self._routes.get(request.path)
        if reviewer is None:
            raise _FailureError(HTTPStatus.NOT_FOUND, f"no such path; there are {', '.join(self._routes)}")
        if request.method != "POST":
            raise _FailureError(HTTPStatus.METHOD_NOT_ALLOWED, "reviews are sent by POST")
        if self._in_flight > self._limits.in_flight:
            raise _overloaded()
        length = request.content_length
        if length is not None and length > self._limits.body_bytes:
            raise self._too_large()
        if request.content.is_eof():  # all of it came with the head: no time-out to arm
            body = request.content.read_nowait()
            if len(body) > self._limits.body_bytes:
                raise self._too_large()
            return await reviewer(body)
        return await self._read_and_review(request, reviewer)

    async def _read_and_review(self, request: web.BaseRequest, reviewer: Reviewer) -> bytes:
        """Reads a body that comes in parts, within limits of time, size and memory, then reviews it."""
        body, content = bytearray(), request.content
        loop = asyncio.get_running_loop()
        # An alarm on the stream costs a fraction of `asyncio.timeout`, for every single review.
        alarm = loop.call_later(self._limits.body_seconds, content.set_exception, TimeoutError())
        try:
            while not content.at_eof():
                self._take(await content.readany(), body)
        except TimeoutError:
            message = f"the body did not arrive within {self._limits.body_seconds:g} s"
            raise _FailureError(HTTPStatus.REQUEST_TIMEOUT, message) from None
        finally:
            alarm.cancel()
            self._in_flight_bytes -= len(body)
        return await reviewer(bytes(body))

    def _take(self, chunk: bytes, body: bytearray) -> None:
        """Appends to `body` what arrived, up to a limit."""
        body += chunk
        self._in_flight_bytes += len(chunk)
        if len(body) > self._limits.body_bytes:
            raise self._too_large()
        if self._in_flight_bytes > self._limits.in_flight_bytes:
            raise _overloaded()

    def _too_large(self) -> _FailureError:
        """Makes the answer to a body beyond the limit."""
        message = f"the body is larger than {self._limits.body_bytes} bytes"
        return _FailureError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)

    def _failed(self, failure: _FailureError) -> web.Response:
        """Counts a failure and words it; what may come again later says when."""
        self._observer.failed(failure.status)
        answer = web.Response(status=failure.status, text=failure.message + "\n")
        if failure.status is HTTPStatus.SERVICE_UNAVAILABLE:
            answer.headers["Retry-After"] = RETRY_AFTER_SECONDS
        elif failure.status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT):
            answer.force_close()
        return answer


def _http_log() -> logging.Logger:
    """The library's log, without a traceback for every client that does not speak HTTP."""
    http_log = logging.getLogger("webhook.http")
    http_log.addFilter(_is_our_concern)
    return http_log


def _is_our_concern(record: logging.LogRecord) -> bool:
    """Drops what anybody who reaches the port could fill the log with."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


def _overloaded() -> _FailureError:
    """Makes the answer that API servers retry within their own time-out."""
    return _FailureError(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered; try again")
