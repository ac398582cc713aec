"""Who may send reviews, by the names in their client certificates; knows no review.

The handshake has already checked that one of the trusted CAs signed the certificate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Clients:
    """The names that may send reviews; without any, every certificate that the handshake accepts will do."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self._names = frozenset(names)

    def may_send(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a peer's certificate, as the ssl module reads it, has one of the names."""
        return not self._names or not self._names.isdisjoint(_names(certificate or {}))


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Common names of the subject, and alternative DNS names."""
    for relative in certificate.get("subject", ()):
        for key, value in relative:
            if key == "commonName":
                yield value
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "DNS":
            yield value
