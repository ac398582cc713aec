"""Dials the webhook as the API server does: with the CAs of a caBundle; sends nothing but the handshake."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from datetime import datetime

import msgspec
from cryptography import x509

PROBE_SECONDS = 5.0


class Target(msgspec.Struct, frozen=True):
    """Where to dial, and the name that the certificate must be for."""

    host: str
    port: int
    name: str


class Probe(msgspec.Struct, frozen=True):
    """What a handshake showed: why it failed, or until when the shown certificate is valid."""

    error: str | None = None
    not_after: datetime | None = None


def target_of(text: str, names: Sequence[str]) -> Target | None:
    """Reads `HOST:PORT`; empty is the first of the certificate's names at port 443, `none` is no probe.

    A host that is one of the names is asked for itself, as the API server does with a URL; any other is asked
    for the first name, as it does with a Service.

    Raises:
        ValueError: it is neither.
    """
    if text == "none":
        return None
    host, _, port = text.rpartition(":") if text else (names[0], ":", "443")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        msg = f"must be HOST:PORT such as 127.0.0.1:8443, or none, not {text!r}"
        raise ValueError(msg)
    host = host.strip("[]").lower()
    return Target(host, int(port), host if host in names else names[0])


async def dial(target: Target, authorities: bytes) -> Probe:
    """Shakes hands once, within a time limit; never raises for what a server or a network does."""
    try:
        context = ssl.create_default_context(cadata=authorities.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        return Probe(error=f"the caBundle holds no CA that can be read: {error}")
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await _shake(target, context)
    except TimeoutError:
        return Probe(error=f"no handshake within {PROBE_SECONDS:g} s")
    except (OSError, ValueError) as error:  # ValueError: a host or a certificate that cannot be read
        return Probe(error=str(error) or type(error).__name__)


async def _shake(target: Target, context: ssl.SSLContext) -> Probe:
    _, writer = await asyncio.open_connection(
        target.host, target.port, ssl=context, server_hostname=target.name
    )
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return Probe(not_after=x509.load_der_x509_certificate(shown).not_valid_after_utc)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
