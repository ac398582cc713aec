"""Answers to reviews as values, and their wire form; decides nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec

from policy.spec import Contact

API_VERSION = "admission.k8s.io/v1"
TOO_MANY_REQUESTS = 429
RETRY_SECONDS = 1
PatchOperation = dict[str, Any]
"""One operation of RFC 6902."""


class Allowed(msgspec.Struct, frozen=True):
    """The object is admitted as it is."""

    warnings: tuple[str, ...] = ()


class Patched(msgspec.Struct, frozen=True):
    """The object is admitted with a JSON patch (the encoded list of operations)."""

    patch: bytes
    warnings: tuple[str, ...] = ()


class RefusedBy(StrEnum):
    """What refuses; a label of a metric. `Later` is for what could not be told in time."""

    QUOTA = "Quota"
    RESOURCE_QUOTA = "ResourceQuota"
    IMAGES = "Images"
    RIGHTS = "Rights"
    TERMS = "Terms"
    LATER = "Later"


class Denied(msgspec.Struct, frozen=True):
    """The object is refused with a sentence that its sender can act on.

    `retry_after_seconds` makes clients try again where the refusal may pass by itself (code 429).
    """

    message: str
    by: RefusedBy
    code: int = 403
    reason: str = "Forbidden"
    retry_after_seconds: int | None = None
    warnings: tuple[str, ...] = ()


Answer = Allowed | Patched | Denied


def try_again(why: str) -> Denied:
    """The refusal where the answer is not known now; clients try again by themselves."""
    sentence = f"{why}: try again in a moment."
    return Denied(sentence, RefusedBy.LATER, TOO_MANY_REQUESTS, "TooManyRequests", RETRY_SECONDS)


def with_contact(sentence: str, contact: Contact) -> str:
    """A refusal that ends with whom to ask, where the policy names somebody."""
    return f"{sentence} Questions: {contact}." if str(contact) else sentence


class _Details(msgspec.Struct, rename="camel", omit_defaults=True):
    """`status.details` of a refusal."""

    retry_after_seconds: int | None = None


class _Status(msgspec.Struct, rename="camel", omit_defaults=True):
    """`response.status` of a refusal."""

    code: int
    message: str
    reason: str
    details: _Details | None = None
    status: Literal["Failure"] | None = None


class _Response(msgspec.Struct, rename="camel", omit_defaults=True):
    """`response` of a review; bytes are written as base64, as the API server wants the patch."""

    uid: str
    allowed: bool
    patch_type: Literal["JSONPatch"] | None = None
    patch: bytes | None = None
    status: _Status | None = None
    warnings: tuple[str, ...] | None = None


class _Review(msgspec.Struct, rename="camel"):
    """An AdmissionReview that carries a response."""

    response: _Response
    kind: str = "AdmissionReview"
    api_version: str = API_VERSION


_encoder = msgspec.json.Encoder()


def encode_answer(uid: str, answer: Answer) -> bytes:
    """Writes the review that answers the request `uid`."""
    warnings = answer.warnings or None
    match answer:
        case Patched():
            response = _Response(uid, True, "JSONPatch", answer.patch, None, warnings)
        case Denied():
            response = _Response(uid, allowed=False, status=_status(answer), warnings=warnings)
        case _:
            response = _Response(uid, allowed=True, warnings=warnings)
    return _encoder.encode(_Review(response))


def _status(answer: Denied) -> _Status:
    """Makes the status that clients show for a refusal."""
    details = None
    if answer.retry_after_seconds is not None:
        details = _Details(retry_after_seconds=answer.retry_after_seconds)
    return _Status(answer.code, answer.message, answer.reason, details, "Failure")
