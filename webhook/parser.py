"""Requests as aiohttp's own parser reads them, if they look as API servers send them; answers nothing.

The parser is exported, but how a server uses it is written nowhere. So its use is tried before anything is
served.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, cast

from aiohttp import StreamReader
from aiohttp.http import HttpRequestParser, RawRequestMessage

from webhook.reception import FailureError, Reception, Reviewer

POST = b"POST "
END_OF_HEAD = b"\r\n\r\n"

_EXAMPLE = (
    b"POST /path?timeout=2s HTTP/1.1\r\nHost: x\r\nContent-Le",
    b"ngth: 4\r\n\r\n{}",
    b"{}GET / HTTP/1.1\r\n",
)


class _Unpaused:
    """What the parser may tell to pause: bodies are bounded by other means."""

    def pause_reading(self) -> None:
        """Reads on."""

    def resume_reading(self, **_: object) -> None:
        """Reads on."""


class UsualRequest:
    """A POST of a review whose head is read; `close` is whether its sender wants to end the connection then.

    `whole` is how many bytes it has, head included, and `came` how many have come, or more of the next ones.
    """

    __slots__ = ("came", "close", "path", "payload", "reviewer", "whole")

    def __init__(self, path: str, reviewer: Reviewer, payload: StreamReader, *, close: bool) -> None:
        self.path, self.reviewer, self.payload, self.close = path, reviewer, payload, close
        self.came = self.whole = 0

    def body(self) -> bytes:
        """The body, once all of it came.

        Raises:
            FailureError: the parser sees its end elsewhere; then nothing more can be read here.
        """
        if self.payload.is_eof():
            return self.payload.read_nowait()
        self.close = True
        raise FailureError(HTTPStatus.BAD_REQUEST, "where the body ends is not clear")


def usual_request(
    begun: bytes, head: RawRequestMessage, payload: StreamReader, reception: Reception
) -> UsualRequest | None:
    """The request that begins with these bytes; None if it is another than API servers send, or too large."""
    reviewer = reception.routes.get(head.path.partition("?")[0])
    length, odd = head.headers.get("Content-Length"), head.chunked or head.upgrade
    if reviewer is None or length is None or odd or "Expect" in head.headers:
        return None
    size, end = int(length), begun.find(END_OF_HEAD)
    if size > reception.limits.body_bytes or not begun.startswith(POST) or end < 0:
        return None
    request = UsualRequest(head.path, reviewer, payload, close=head.should_close)
    request.came, request.whole = len(begun), end + len(END_OF_HEAD) + size
    return request


def parser_of(loop: asyncio.AbstractEventLoop, body_bytes: int) -> HttpRequestParser:
    """A parser; compressed bodies stay as they are, since they could unpack to more than the limit."""
    return HttpRequestParser(cast("Any", _Unpaused()), loop, body_bytes, auto_decompress=False)


def parses_as_expected(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an example is read as Connection needs it."""
    try:
        parser = parser_of(loop, 1024)
        before, *_ = parser.feed_data(_EXAMPLE[0])
        [(head, payload)], *_ = parser.feed_data(_EXAMPLE[1])
        partly = payload.is_eof()
        after, *_ = parser.feed_data(_EXAMPLE[2])
        plain = not (head.chunked or head.upgrade or head.should_close)
        read = (head.path, head.headers.get("content-length"), payload.is_eof(), payload.read_nowait())
        wanted = ("/path?timeout=2s", "4", True, b"{}{}")
        return plain and not before and not partly and not after and read == wanted
    except Exception:  # noqa: BLE001 -- another release may do anything
        return False
