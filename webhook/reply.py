"""A 200 answer of bytes that are known at once; knows nothing of what they say.

aiohttp's general response takes a third of the time of a whole review to build headers that never differ;
this one writes head and body in one piece. Errors use the general one.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

KEPT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
CLOSED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
)


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
        head = CLOSED if self._close else KEPT
        transport.write(head % (len(self._document), self._document))
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write."""
