"""One connection of the webhook's server: takes requests one after the other; does not know what they ask.

A request that is decided at once is answered within the call that brought its last byte: no task, no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from enum import Enum, auto
from http import HTTPStatus
from typing import cast

import structlog

from webhook import http
from webhook.desk import RETRY_AFTER_SECONDS, Desk, MalformedError, RefusedError, Reviewer, overloaded
from webhook.http import BadRequestError, Body, Head

HELD_BYTES = 64 * 1024
"""How much of the next requests is kept while one is answered; then nothing more is read."""
NO_HEAD = Head(b"", "", 0, keep_alive=False)

log = structlog.get_logger(__name__)


class _State(Enum):
    """What a connection waits for."""

    HEAD = auto()
    BODY = auto()
    ANSWER = auto()
    END = auto()


class Connection(asyncio.Protocol):
    """Reads requests and writes answers until a side closes."""

    def __init__(self, desk: Desk, loop: asyncio.AbstractEventLoop) -> None:
        self._desk = desk
        self._limits = desk.limits
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._known = False
        self._state = _State.HEAD
        self._since = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._held = b""
        self._clogged = False
        self._head = NO_HEAD
        self._review: Reviewer = _no_reviewer
        self._body: Body = http.body_of(NO_HEAD)
        self._taken = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for a request."""
        self._transport = cast("asyncio.Transport", transport)
        self._known = self._desk.knows(transport.get_extra_info("peercert"))
        self._desk.opened(self)
        self._since = self._loop.time()
        self._set_alarm(self._limits.body_seconds)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's interface
        """Forgets a request whose sender is gone; one that is being decided is decided to its end."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._state is _State.BODY:
            self._leave()
        self._state, self._transport = _State.END, None
        self._desk.closed(self)

    def data_received(self, data: bytes) -> None:
        """Takes what came, as far as it is its turn."""
        if self._state is _State.BODY:
            self._take_body(data)
        elif self._state is _State.HEAD:
            self._take_head(self._held + data if self._held else data)
        elif self._state is _State.ANSWER:
            self._held += data
            if len(self._held) > HELD_BYTES and self._transport is not None:
                self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Takes nothing more from a client that does not read its answers."""
        self._clogged = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Goes on once it has read them."""
        self._clogged = False
        if self._state is not _State.ANSWER:
            self._resume()

    def stop(self) -> None:
        """Ends the connection, if no request has begun; otherwise its answer will."""
        if self._state in (_State.HEAD, _State.END):
            self._end()

    def abort(self) -> None:
        """Ends the connection at once, and whatever is being decided for it."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _take_head(self, data: bytes) -> None:
        """Reads the head of a request once it is complete, then what came of the body with it."""
        end = data.find(http.END_OF_HEAD)
        if end < 0 and len(data) <= http.HEAD_BYTES:
            if not self._held:
                self._since = self._loop.time()
            self._held = data
            return
        self._held = b""
        self._state = _State.BODY
        self._desk.in_flight += 1
        try:
            if not 0 <= end <= http.HEAD_BYTES:
                raise BadRequestError("the head is too large")
            self._head = http.parse_head(data[:end])
        except BadRequestError as error:
            self._fail(RefusedError(HTTPStatus.BAD_REQUEST, str(error)), whole=False)
            return
        self._body = http.body_of(self._head)
        self._since = self._loop.time()
        try:
            self._review = self._desk.reviewer(self._head, known=self._known)
        except RefusedError as failure:
            self._fail(failure, whole=self._body.feed(data[end + len(http.END_OF_HEAD) :]))
            return
        self._take_body(data[end + len(http.END_OF_HEAD) :])
        if self._head.waits and self._state is _State.BODY and self._transport is not None:
            self._transport.write(http.CONTINUE)

    def _take_body(self, data: bytes) -> None:
        """Takes a part of the body, within limits of size and memory; has it reviewed once it is whole."""
        body, desk, limits = self._body, self._desk, self._limits
        self._taken += len(data)
        desk.in_flight_bytes += len(data)
        try:
            whole = body.feed(data)
        except BadRequestError as error:
            self._fail(RefusedError(HTTPStatus.BAD_REQUEST, str(error)), whole=False)
            return
        if body.size > limits.body_bytes:
            message = f"the body is larger than {limits.body_bytes} bytes"
            self._fail(RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message), whole=whole)
        elif desk.in_flight_bytes > limits.in_flight_bytes and not whole:
            self._fail(overloaded(), whole=False)
        elif whole:
            self._decide(bytes(body.content))

    def _decide(self, body: bytes) -> None:
        """Has a body reviewed, and answers now or later."""
        self._state = _State.ANSWER
        self._desk.in_flight_bytes -= self._taken
        self._taken = 0
        try:
            found = self._review(body)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is answered
            self._fail(self._failure_of(error), whole=True)
            return
        if isinstance(found, bytes):
            self._answer(found)
        else:
            self._task = self._loop.create_task(self._answer_later(found))

    async def _answer_later(self, coming: Awaitable[bytes]) -> None:
        """Answers when the decision is made."""
        try:
            found = await coming
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is answered
            self._fail(self._failure_of(error), whole=True)
            return
        self._answer(found)

    def _failure_of(self, error: Exception) -> RefusedError:
        """The answer to a review that failed; a bug of ours becomes a 500, and the failure policy decides."""
        if isinstance(error, MalformedError):
            return RefusedError(HTTPStatus.BAD_REQUEST, str(error))
        log.error("review failed", path=self._head.path, exc_info=error)
        return RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "the review failed")

    def _answer(self, content: bytes) -> None:
        """Writes a 200 answer, and turns to the next request."""
        close = self._desk.draining or not self._head.keep_alive
        if self._transport is not None:
            self._transport.write(http.document(content, close=close))
        self._leave()
        self._turn(close=close)

    def _fail(self, failure: RefusedError, *, whole: bool) -> None:
        """Writes another answer; unless the request is `whole`, its rest is read and the connection ends."""
        self._desk.failed(failure.status)
        close = self._desk.draining or not whole or not self._head.keep_alive
        retry_after = RETRY_AFTER_SECONDS if failure.status is HTTPStatus.SERVICE_UNAVAILABLE else ""
        if self._transport is not None:
            self._transport.write(
                http.failure(failure.status, failure.message, close=close, retry_after=retry_after)
            )
        self._leave()
        if whole:
            self._turn(close=close)
            return
        # Closing while the sender still writes would take the answer from it.
        self._state = _State.END
        self._set_alarm(self._limits.lingering_seconds)

    def _leave(self) -> None:
        """Counts the request as no longer in flight."""
        desk = self._desk
        desk.in_flight_bytes -= self._taken
        self._taken = 0
        desk.finished()

    def _turn(self, *, close: bool) -> None:
        """Turns to the next request, or ends the connection."""
        if close:
            self._end()
            return
        if self._transport is None:
            return
        answered_late = self._task is not None
        self._state, self._task = _State.HEAD, None
        self._since = self._loop.time()
        self._held = self._body.rest + self._held
        if self._held or answered_late:
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        """Goes on reading, first with what came while another request was answered."""
        if self._transport is None or self._clogged:
            return
        self._transport.resume_reading()
        if self._state is _State.HEAD and self._held:
            self._take_head(self._held)

    def _end(self) -> None:
        """Ends the connection once what was written has been sent."""
        self._state = _State.END
        if self._transport is not None:
            self._transport.close()

    def _set_alarm(self, seconds: float) -> None:
        """Looks at the connection again later; one alarm serves all of its requests."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Gives up what takes too long, and what has been idle for too long."""
        limits, waited = self._limits, self._loop.time() - self._since
        if self._state is _State.END:
            self._end()
        elif self._state is _State.ANSWER:
            self._set_alarm(limits.body_seconds)
        elif self._state is _State.HEAD and not self._held:
            left = limits.keep_alive_seconds - waited
            self._set_alarm(min(limits.body_seconds, left)) if left > 0 else self._end()
        elif waited < limits.body_seconds:
            self._set_alarm(limits.body_seconds - waited)
        else:
            self._time_out()

    def _time_out(self) -> None:
        """Answers a request that did not arrive in time."""
        if self._state is _State.HEAD:
            self._desk.in_flight += 1
        message = f"the request did not arrive within {self._limits.body_seconds:g} s"
        self._fail(RefusedError(HTTPStatus.REQUEST_TIMEOUT, message), whole=False)


def _no_reviewer(body: bytes) -> bytes:
    """Stands where no request has come yet."""
    raise MalformedError(f"{len(body)} bytes that nobody asked for")
