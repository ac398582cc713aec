"""What the API server answers: bodies, refusals with causes, nothing readable. Knows nothing of HTTP."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class Cause(msgspec.Struct, frozen=True):
    """One cause of a refusal, as the API server writes it in `details.causes`."""

    reason: str | None = None
    message: str | None = None
    field: str | None = None


class Response(msgspec.Struct, frozen=True):
    """An answer below 300; `body` is as received, header names are lower case, repeated ones joined."""

    status: int
    headers: dict[str, str]
    body: bytes

    def decode(self, kind: type[T]) -> T:
        """Decodes the JSON body; raises ApiUnreachable if it is not of that shape."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.DecodeError as error:
            msg = f"the answer cannot be read: {error}"
            raise ApiUnreachable(msg) from error


class ApiError(Exception):
    """The API server answered with a status of 400 or more.

    `retry_after` is in seconds, from the header or else from `details.retryAfterSeconds`, or None.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        name = f"{status} {reason}".rstrip()
        told = message.removeprefix(f"{status} ")
        super().__init__(f"{name}: {told}" if told else name)
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after

    def has_cause(self, reason: str) -> bool:
        """Whether one of the causes has this reason, e.g. `DisruptionBudget` or `NamespaceTerminating`."""
        return any(cause.reason == reason for cause in self.causes)


class ApiUnreachable(Exception):  # noqa: N818 - a state of the world, and the name in every caller
    """No answer, or none that an API server gives (time-out, reset, cut body, HTML, redirect).

    Whether a write took effect is unknown.
    """


class _Details(msgspec.Struct):
    causes: list[Cause] | None = None
    retryAfterSeconds: int | None = None  # noqa: N815 - as on the wire


class _Status(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: _Details | None = None


def api_error(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Reads a Status object, or plain text, into an ApiError; `retry_after` is the header's value."""
    try:
        read = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        read = _Status(message=body[:500].decode(errors="replace").strip())
    details = read.details or _Details()
    seconds: float | None = details.retryAfterSeconds
    if retry_after is not None and retry_after.strip().isdigit():
        seconds = float(retry_after)
    return ApiError(
        status if status >= 400 else read.code or 500,
        read.reason or "",
        read.message or "",
        tuple(details.causes or ()),
        seconds,
    )
