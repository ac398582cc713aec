"""Cuts a stream of chunks into lines of any length. Knows nothing of HTTP or of what the lines hold."""

from __future__ import annotations

LONGEST_LINE_BYTES = 16 * 1024 * 1024


class LineTooLongError(ValueError):
    """A line outgrew the limit; the stream cannot be read on."""


class LineFramer:
    """Collects chunks and gives back complete lines without their newline.

    The parts of an unfinished line are joined once, so a line of many chunks costs linear time.
    """

    def __init__(self, limit: int = LONGEST_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the next chunk and returns the lines that it completes; raises LineTooLongError."""
        *complete, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for piece in complete:
            self._hold(piece)
            lines.append(b"".join(self._parts))
            self._parts.clear()
            self._held = 0
        self._hold(rest)
        return [line for line in lines if line.strip()]

    @property
    def unfinished(self) -> bool:
        """Whether the stream stands in the middle of a line; at its end that means it was cut."""
        return any(part.strip() for part in self._parts)

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._held += len(piece)
        if self._held > self._limit:
            msg = f"a line is longer than {self._limit} bytes"
            raise LineTooLongError(msg)
        self._parts.append(piece)
