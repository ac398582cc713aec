"""What the connections of the webhook's server share: limits, refusals, who answers; does no I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Protocol

import msgspec

from webhook.http import Head

RETRY_AFTER_SECONDS = "1"
Reviewer = Callable[[bytes], bytes | Awaitable[bytes]]
"""Answers the body of one review, at once or later; raises MalformedError for what is not one."""


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


class RefusedError(Exception):
    """An answer other than 200, raised where it is found out."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Stoppable(Protocol):
    """A connection as the server sees it."""

    def stop(self) -> None:
        """Ends it, if no request has begun; otherwise its answer will."""
        ...

    def abort(self) -> None:
        """Ends it at once."""
        ...


class Desk(Protocol):
    """What connections share; the server implements it."""

    limits: Limits
    draining: bool
    in_flight: int
    in_flight_bytes: int

    def knows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client with this certificate, as the ssl module reads it, may send reviews."""
        ...

    def reviewer(self, head: Head, *, known: bool) -> Reviewer:
        """Who answers a request of a client that is known, or not; raises RefusedError if nobody does."""
        ...

    def failed(self, status: HTTPStatus) -> None:
        """Counts one answer with an error status."""
        ...

    def finished(self) -> None:
        """Counts a request as no longer in flight."""
        ...

    def opened(self, connection: Stoppable) -> None:
        """Remembers a connection."""
        ...

    def closed(self, connection: Stoppable) -> None:
        """Forgets it."""
        ...


def overloaded() -> RefusedError:
    """Makes the answer that API servers retry within their own time-out."""
    return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered; try again")
