"""When a certificate ends, read from its DER (RFC 5280, section 4.1); trusts nothing, keeps nothing.

The webhook needs this one number of a certificate that OpenSSL has accepted already, and Python's ssl does
not tell it for our own. The library that reads all of a certificate would add a tenth to a replica's memory.
"""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime

SEQUENCE, VERSION, UTC_TIME, GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_PEM = re.compile(
    r"-----BEGIN (?:X509 )?CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END (?:X509 )?CERTIFICATE-----"
)


def not_after(pem: str) -> datetime:
    """The end of the first certificate of a PEM file.

    Raises:
        ValueError: there is no certificate, or it cannot be read.
    """
    found = _PEM.search(pem)
    if found is None:
        msg = "expected a certificate in PEM (-----BEGIN CERTIFICATE----- …), found none"
        raise ValueError(msg)
    certificate, _ = _element(binascii.a2b_base64(found[1]), SEQUENCE)
    signed, _ = _element(certificate, SEQUENCE)
    if signed[:1] == bytes([VERSION]):
        _, signed = _element(signed)
    for _ in ("serial number", "signature algorithm", "issuer"):
        _, signed = _element(signed)
    validity, _ = _element(signed, SEQUENCE)
    _, after = _element(validity)
    text, _ = _element(after)
    return _time(after[0], text)


def _element(data: bytes, tag: int | None = None) -> tuple[bytes, bytes]:
    """The contents of the first element, which must have that tag, and what follows it."""
    if len(data) < 2 or (tag is not None and data[0] != tag):
        msg = "expected a certificate in DER (RFC 5280), found something else"
        raise ValueError(msg)
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    if len(data) < start + length:
        msg = "expected a whole certificate in DER (RFC 5280), found a part of one"
        raise ValueError(msg)
    return data[start : start + length], data[start + length :]


def _time(tag: int, text: bytes) -> datetime:
    """A time as certificates have it; two digits of a year are 1950 to 2049."""
    digits = text.decode("ascii")
    if tag == UTC_TIME:
        digits = ("19" if digits >= "50" else "20") + digits
    elif tag != GENERALIZED_TIME:
        msg = f"expected a time in a certificate, found an element of type {tag:#x}"
        raise ValueError(msg)
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
