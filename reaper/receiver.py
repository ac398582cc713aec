"""Takes Alertmanager's webhook over HTTP; must not know what a hint leads to.

What Alertmanager should send again is answered 503, what it never should 4xx: it tries again on 5xx only, by
the same connection for as long as that is open.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web

from reaper import metrics
from reaper.hints import Hint, UnreadableError, read_message

log = structlog.get_logger(__name__)

BODY_BYTES: Final = 1 << 20
READ_SECONDS: Final = 10.0


class NotNow(Exception):  # noqa: N818 - reads as a sentence
    """The hints cannot be taken now, and are to be sent again."""


Take = Callable[[Collection[Hint]], Collection[Hint]]
"""Takes hints and gives those that name no GPU pod; raises NotNow."""


class Receiver:
    """Answers `POST /alerts` for whoever shows the token in the file, which is read anew each time."""

    def __init__(self, token_file: Path, take: Take) -> None:
        self._token_file = token_file
        self._take = take

    async def handle(self, request: web.Request) -> web.Response:
        """Takes one message."""
        try:
            refused = self._refused(request)
            if refused is not None:
                return refused
            body = await _body(request)
            if body is None:
                return _answer(413, f"must not be larger than {BODY_BYTES >> 20} MiB")
            message = read_message(body)
            unknown = self._take(message.hints)
        except UnreadableError as error:
            metrics.HINTS.labels("unreadable").inc()
            return _answer(400, str(error))
        except TimeoutError:
            return _answer(408, f"must be sent within {READ_SECONDS:.0f} s")
        except NotNow as error:
            return _answer(503, str(error))
        _count(len(message.hints) - len(unknown), len(unknown), message.unreadable)
        return _answer(200, f"looking at {len(message.hints) - len(unknown)} pods")

    def _refused(self, request: web.Request) -> web.Response | None:
        try:
            token = self._token_file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            token = ""
        if not token:
            log.error("token of the receiver not readable", file=str(self._token_file))
            return _answer(503, "the token of the receiver cannot be read")
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode(errors="replace"), token.encode())
        return None if scheme.lower() == "bearer" and known else _answer(401, "needs the bearer token")


async def _body(request: web.Request) -> bytes | None:
    """Reads the body in limited time; None if it is too large."""
    parts: list[bytes] = []
    size = 0
    async with asyncio.timeout(READ_SECONDS):
        async for part in request.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > BODY_BYTES:
                return None
    return b"".join(parts)


def _count(looked: int, unknown: int, unreadable: int) -> None:
    metrics.HINTS.labels("looked").inc(looked)
    metrics.HINTS.labels("unknown").inc(unknown)
    metrics.HINTS.labels("unreadable").inc(unreadable)


def _answer(status: int, sentence: str) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    response = web.Response(status=status, text=f"{sentence}\n", headers=headers)
    if status in {401, 408, 413, 503}:
        # What was not read must not be taken for the next request; and on this connection, what is sent again
        # would come to this replica each time, never to the one that leads.
        response.force_close()
    return response
