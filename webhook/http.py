"""HTTP/1.1 as values: heads of requests, bodies in chunks, the bytes of answers; does no I/O.

It knows what API servers send, and refuses whatever two readers could understand differently.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Protocol

import msgspec

END_OF_HEAD = b"\r\n\r\n"
HEAD_BYTES = 16 * 1024
"""The largest head; those of API servers have a few hundred bytes."""

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEAD = re.compile(rb"(%b) (\S+) HTTP/1\.([01])((?:\r\n%b:[^\r\n\0]*)*)" % (_TOKEN, _TOKEN))
_FIELDS = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|expect):[ \t]*([^\r]*[^\r \t])?", re.IGNORECASE
)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_CHUNK_LINE_BYTES = 1024

_KEPT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_CLOSED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BadRequestError(ValueError):
    """Bytes that are not HTTP as this server understands it; the message says why."""


class Head(msgspec.Struct, frozen=True):
    """What counts of a request's head.

    `length` is None for a body in chunks. `waits` is whether the client sends the body only when told to.
    """

    method: bytes
    path: str
    length: int | None
    keep_alive: bool
    waits: bool = False


def parse_head(head: bytes) -> Head:
    """Reads a head without its last empty line.

    Raises:
        BadRequestError: it is none, or tells the length of the body in no way or in two.
    """
    found = _HEAD.fullmatch(head)
    if found is None:
        raise BadRequestError("not an HTTP/1.1 request")
    method, target, minor, lines = found.groups()
    keep_alive, waits = minor == b"1", False
    lengths: list[bytes] = []
    codings: list[bytes] = []
    for name, value in _FIELDS.findall(lines):
        match name.lower():
            case b"content-length":
                lengths.append(value)
            case b"transfer-encoding":
                codings.append(value.lower())
            case b"expect":
                waits = value.lower() == b"100-continue"
            case _:
                keep_alive = keep_alive and b"close" not in value.lower()
    path = target.partition(b"?")[0].decode("latin-1")
    return Head(method, path, _length(lengths, codings), keep_alive, waits)


def _length(lengths: list[bytes], codings: list[bytes]) -> int | None:
    """The length that a head tells, None for chunks."""
    if codings:
        if lengths or codings != [b"chunked"]:
            raise BadRequestError("the length of the body is not clear")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > 18:
        raise BadRequestError("Content-Length must be one whole number")
    return int(lengths[0])


class Body(Protocol):
    """Puts a body together.

    Attributes:
        content: What came of it.
        size: How many bytes it has, or is about to have.
        rest: Before the end what cannot be read yet, then what follows the body.
    """

    content: bytearray
    size: int
    rest: bytes

    def feed(self, data: bytes) -> bool:
        """Takes what came; returns whether the body is complete.

        Raises:
            BadRequestError: it is malformed.
        """
        ...


def body_of(head: Head) -> Body:
    """Gives what reads the body of a request."""
    return Chunks() if head.length is None else Counted(head.length)


class Counted:
    """A body whose length was told."""

    def __init__(self, size: int) -> None:
        self.content = bytearray()
        self.size = size
        self.rest = b""

    def feed(self, data: bytes) -> bool:
        """Takes what came; returns whether the body is complete."""
        content, size = self.content, self.size
        content += data
        if len(content) < size:
            return False
        if len(content) > size:
            self.rest = bytes(content[size:])
            del content[size:]
        return True


class Chunks:
    """A body that comes in chunks."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.size = 0
        self.rest = b""
        self._after_chunk = False
        self._in_trailer = False

    def feed(self, data: bytes) -> bool:
        """Takes what came; returns whether the body is complete.

        Raises:
            BadRequestError: the chunks are malformed.
        """
        data = self.rest + data if self.rest else data
        place = 0
        while True:
            missing = self.size - len(self.content)
            self.content += data[place : place + missing]
            place += missing
            end = data.find(b"\r\n", place)
            if end < 0:
                self.rest = data[place:]
                if len(self.rest) > _CHUNK_LINE_BYTES:
                    raise BadRequestError("a line between chunks is too long")
                return False
            line, place = data[place:end], end + 2
            if self._in_trailer and not line:
                self.rest = data[place:]
                return True
            self._read_line(line)

    def _read_line(self, line: bytes) -> None:
        """Reads a line between chunks: the end of one, the length of the next, or a trailer."""
        if self._in_trailer:
            return
        if self._after_chunk:
            if line:
                raise BadRequestError("a chunk is longer than it says")
            self._after_chunk = False
            return
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise BadRequestError("the length of a chunk must be a hexadecimal number")
        size = int(found[1], 16)
        self.size += size
        self._after_chunk, self._in_trailer = size > 0, size == 0


def document(content: bytes, *, close: bool) -> bytes:
    """A 200 answer with JSON; with `close` the connection ends after it."""
    return (_CLOSED if close else _KEPT) % (len(content), content)


def failure(status: HTTPStatus, message: str, *, close: bool, retry_after: str = "") -> bytes:
    """An answer with an error status and a sentence for people."""
    content = f"{message}\n".encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(content)}",
        *([f"Retry-After: {retry_after}"] if retry_after else []),
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join(lines).encode() + END_OF_HEAD + content
