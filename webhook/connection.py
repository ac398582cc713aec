"""One connection: answers reviews within the call that brings their last byte; does not know what they say.

aiohttp's general server takes a task and several turns of the event loop for each request. What API servers
send needs neither: a POST with a Content-Length, one at a time, mostly decided at once. Such requests are
read here, with aiohttp's own parser. With the first one that is anything else, from its first byte on, the
connection goes to the general server for good.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp.http import HttpProcessingError, HttpRequestParser

from webhook.parser import UsualRequest, parser_of, usual_request
from webhook.reception import FailureError, Reception, failure_of, overloaded, too_slow
from webhook.reply import document, failure

HELD_BYTES = 64 * 1024
"""How much is kept of what comes before its turn; then nothing more is read. No usual head is longer."""

General = Callable[[], asyncio.Protocol]
"""Makes a protocol of the general server."""


class Connection(asyncio.Protocol):
    """Reads requests and writes answers until a side closes, or the general server takes over."""

    def __init__(self, reception: Reception, general: General) -> None:
        self._reception = reception
        self._general = general
        self._loop = asyncio.get_running_loop()
        self._parser: HttpRequestParser = parser_of(self._loop, reception.limits.body_bytes)
        self._transport: asyncio.Transport | None = None
        self._known = False
        self._since = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._head = b""
        self._request: UsualRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._clogged = False
        self._paused = False
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for a request."""
        self._transport = cast("asyncio.Transport", transport)
        self._known = self._reception.knows(transport.get_extra_info("peercert"))
        self._reception.opened(self)
        self._since = self._loop.time()
        self._look_in(min(self._reception.limits.body_seconds, self._reception.limits.keep_alive_seconds))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's interface
        """Forgets a request whose sender is gone; one that is being decided is decided to its end."""
        self._transport = None
        self._leave()
        if self._task is None:
            self._reception.closed(self)

    def data_received(self, data: bytes) -> None:
        """Takes what came, as far as it is its turn."""
        if self._over:
            return
        if self._task is not None or self._clogged:
            self._keep(data)
            return
        request = self._request
        if request is None:
            request = self._take_head(data)
            if request is None:
                return
        else:
            request.came += len(data)
            with contextlib.suppress(HttpProcessingError):  # what is wrong comes behind the body
                self._parser.feed_data(data)
        if request.came < request.whole:
            self._wait(request, len(data))
        else:
            self._complete(request, data)

    def pause_writing(self) -> None:
        """Takes nothing more from a client that does not read its answers."""
        self._clogged = True
        self._pause()

    def resume_writing(self) -> None:
        """Goes on once it has read them."""
        self._clogged = False
        self._go_on()

    def stop(self) -> None:
        """Ends the connection if no request has begun; otherwise its answer will."""
        if self._request is None and self._task is None:
            self._end()

    def abort(self) -> None:
        """Ends the connection at once, and whatever is being decided for it."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _take_head(self, data: bytes) -> UsualRequest | None:
        """The request whose head is complete with `data`; None if it is not, or not for this connection."""
        begun = self._head + data if self._head else data
        try:
            messages, *_ = self._parser.feed_data(data)
        except HttpProcessingError:
            self._hand_over(begun)
            return None
        if not messages and len(begun) <= HELD_BYTES:
            self._head = begun
            return None
        self._head = b""
        usual = bool(messages) and self._known
        request = usual_request(begun, *messages[0], self._reception) if usual else None
        if request is None:
            self._hand_over(begun)
        return request

    def _wait(self, request: UsualRequest, size: int) -> None:
        """Counts what came of a body until the rest comes."""
        reception = self._reception
        if self._request is None:
            self._request, self._since = request, self._loop.time()
            reception.in_flight += 1
            reception.reading += 1
            size = request.came
        reception.in_flight_bytes += size
        if reception.in_flight_bytes > reception.limits.in_flight_bytes:
            self._give_up(overloaded())

    def _complete(self, request: UsualRequest, data: bytes) -> None:
        """Has a request reviewed that is complete, and answers now or later."""
        if self._request is not None:
            self._release(request.came - len(data))
        if request.came > request.whole:
            self._early.append(data[request.whole - request.came :])
        reception = self._reception
        try:
            body = request.body()
            if reception.busy:
                raise overloaded()
            found = request.reviewer(body)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is answered
            self._fail(request, error)
            return
        if isinstance(found, bytes):
            self._answer(request, found)
        else:
            reception.in_flight += 1
            self._task = self._loop.create_task(self._answer_later(request, found))

    async def _answer_later(self, request: UsualRequest, coming: Awaitable[bytes]) -> None:
        """Answers when the decision is made."""
        try:
            found = await coming
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is answered
            answer: bytes | Exception = error
        else:
            answer = found
        finally:
            self._task = None
            self._reception.in_flight -= 1
            if self._transport is None:
                self._reception.closed(self)
        if isinstance(answer, bytes):
            self._answer(request, answer)
        else:
            self._fail(request, answer)

    def _answer(self, request: UsualRequest, content: bytes) -> None:
        """Writes a 200 answer."""
        close = request.close or self._reception.draining
        self._write(document(content, close=close), close=close)

    def _fail(self, request: UsualRequest, error: Exception) -> None:
        """Counts and writes an answer that is not 200."""
        found = failure_of(error, request.path)
        self._reception.failed(found.status)
        close = request.close or self._reception.draining
        self._write(failure(found, close=close), close=close)

    def _write(self, answer: bytes, *, close: bool) -> None:
        """Writes an answer, and turns to what comes next."""
        if self._transport is None:
            return
        self._transport.write(answer)
        self._since = self._loop.time()
        if close:
            self._end()
        elif self._early or self._paused:
            self._go_on()

    def _give_up(self, error: FailureError) -> None:
        """Answers a request that is not complete, and reads on for a while, for its sender to see it."""
        self._reception.failed(error.status)
        self._leave()
        if self._transport is not None:
            self._transport.write(failure(error, close=True))
            self._alarm = self._loop.call_later(self._reception.limits.lingering_seconds, self._end)

    def _keep(self, data: bytes) -> None:
        """Keeps what comes before its turn, up to a limit."""
        self._early.append(data)
        if sum(map(len, self._early)) > HELD_BYTES:
            self._pause()

    def _pause(self) -> None:
        """Reads nothing more for now."""
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """Reads on once an answer is given; who sends before that is served by the general server."""
        if self._transport is None or self._over or self._clogged or self._task is not None:
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if self._early:
            self._hand_over(*self._early)

    def _hand_over(self, *begun: bytes) -> None:
        """Gives the connection to the general server, with all that came of its present request."""
        self._leave()
        self._reception.closed(self)
        if self._transport is not None:
            general = self._general()
            self._transport.set_protocol(general)
            general.connection_made(self._transport)
            for part in begun:
                general.data_received(part)

    def _leave(self) -> None:
        """Takes and counts nothing more."""
        self._over = True
        if self._request is not None:
            self._release(self._request.came)
        if self._alarm is not None:
            self._alarm.cancel()

    def _release(self, counted: int) -> None:
        """Counts the present request as no longer being read."""
        self._request = None
        self._reception.in_flight -= 1
        self._reception.reading -= 1
        self._reception.in_flight_bytes -= counted

    def _end(self) -> None:
        """Ends the connection once what was written has been sent."""
        self._leave()
        if self._transport is not None:
            self._transport.close()

    def _look_in(self, seconds: float) -> None:
        """Looks at the connection again later; one alarm serves all of its requests."""
        self._alarm = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Gives up what takes too long, and what has been idle for too long."""
        limits, waited = self._reception.limits, self._loop.time() - self._since
        if self._task is not None:
            self._look_in(limits.body_seconds)
            return
        left = (limits.keep_alive_seconds if self._request is None else limits.body_seconds) - waited
        if left > 0:
            self._look_in(min(limits.body_seconds, left))
        elif self._request is None:
            self._end()
        else:
            self._give_up(too_slow(limits))
