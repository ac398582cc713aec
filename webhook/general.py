"""What aiohttp's general server does with a request of any form, within limits; does not know reviews."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from aiohttp import web

from webhook.reception import FailureError, Reception, failure_of, overloaded, reviewed, too_slow
from webhook.reply import JsonReply

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""Asks for a body; only a client that expects to be told gets it."""


class General:
    """Answers whatever is not the usual review of an API server."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._limits = reception.limits

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request, whatever happens, with a status that lets the failure policy decide."""
        reception = self._reception
        reception.in_flight += 1
        try:
            document = await self._answer(request)
            return JsonReply(document, close=reception.draining or not request.keep_alive)
        except web.RequestPayloadError as error:
            answer = self._failed(FailureError(HTTPStatus.BAD_REQUEST, str(error)))
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is answered
            answer = self._failed(failure_of(error, request.path))
        finally:
            reception.in_flight -= 1
        if reception.draining:
            answer.force_close()
        return answer

    async def _answer(self, request: web.BaseRequest) -> bytes:
        """Routes, reads and reviews one request."""
        reception = self._reception
        if not reception.knows(request.get_extra_info("peercert")):
            raise FailureError(HTTPStatus.FORBIDDEN, "no name in the client certificate may send reviews")
        reviewer = reception.routes.get(request.path)
        if reviewer is None:
            raise FailureError(HTTPStatus.NOT_FOUND, f"no such path; there are {', '.join(reception.routes)}")
        if request.method != "POST":
            raise FailureError(HTTPStatus.METHOD_NOT_ALLOWED, "reviews are sent by POST")
        length = request.content_length
        if length is not None and length > self._limits.body_bytes:
            raise self._too_large()
        body = await self._read(request)
        if reception.in_flight - reception.reading > self._limits.in_flight:
            raise overloaded()
        return await reviewed(reviewer, body)

    async def _read(self, request: web.BaseRequest) -> bytes:
        """Reads a body within limits of time, size and memory."""
        body, content = bytearray(), request.content
        if request.transport is not None and not content.is_eof() and "Expect" in request.headers:
            request.transport.write(CONTINUE)
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(self._limits.body_seconds, content.set_exception, TimeoutError())
        self._reception.reading += 1
        try:
            while not content.at_eof():
                self._take(await content.readany(), body)
        except TimeoutError:
            raise too_slow(self._limits) from None
        finally:
            alarm.cancel()
            self._reception.reading -= 1
            self._reception.in_flight_bytes -= len(body)
        return bytes(body)

    def _take(self, chunk: bytes, body: bytearray) -> None:
        """Appends to `body` what arrived, up to a limit."""
        body += chunk
        self._reception.in_flight_bytes += len(chunk)
        if len(body) > self._limits.body_bytes:
            raise self._too_large()
        if self._reception.in_flight_bytes > self._limits.in_flight_bytes:
            raise overloaded()

    def _too_large(self) -> FailureError:
        """Makes the answer to a body beyond the limit."""
        message = f"the body is larger than {self._limits.body_bytes} bytes"
        return FailureError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)

    def _failed(self, failure: FailureError) -> web.Response:
        """Counts a failure and words it."""
        self._reception.failed(failure.status)
        text = failure.message + "\n"
        answer = web.Response(status=failure.status, text=text, headers=failure.headers)
        if failure.status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT):
            answer.force_close()
        return answer
