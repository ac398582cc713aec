"""The bytes of answers, head and body in one piece; knows nothing of what they say.

aiohttp's general response takes long to build headers that never differ.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from webhook.reception import FailureError

KEPT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
CLOSED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
)


def document(content: bytes, *, close: bool) -> bytes:
    """A 200 answer with a JSON document; with `close` the connection ends after it."""
    return (CLOSED if close else KEPT) % (len(content), content)


def failure(error: FailureError, *, close: bool) -> bytes:
    """An answer with an error status; with `close` the connection ends after it."""
    content = error.message.encode() + b"\n"
    fields = [
        f"HTTP/1.1 {error.status.value} {error.status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(content)}",
        *(f"{name}: {value}" for name, value in error.headers.items()),
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join((*fields, "", "")).encode() + content


class JsonReply(web.StreamResponse):
    """A JSON document; with `close` the connection ends after it."""

    def __init__(self, document: bytes, *, close: bool) -> None:
        super().__init__()
        self._document = document
        self._close = close

    @property
    def keep_alive(self) -> bool:
        """Whether the connection serves on."""
        return not self._close

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Writes all of the answer.

        Raises:
            ConnectionResetError: the client is gone.
        """
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        transport.write(document(self._document, close=self._close))
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write."""
