"""The serving certificate, read from files and read again when they change; issues nothing."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path

import structlog

from webhook.validity import not_after

log = structlog.get_logger(__name__)

Stamp = tuple[int, int, int]
"""Inode, modification time in nanoseconds and size of a file."""


class ServingCertificate:
    """An SSL context whose certificate follows its files; new handshakes use the new one at once.

    With `client_ca` (PEM) it shakes hands only with clients that show a certificate which that CA signed. A
    CA that is added to the file counts at once; one that is taken out counts until the process ends.

    Attributes:
        not_after: When the certificate in use ends.
    """

    def __init__(self, cert_file: Path, key_file: Path, client_ca: Path | None = None) -> None:
        """Loads the pair.

        Raises:
            OSError: a file cannot be read (ssl.SSLError: or does not hold a matching pair).
            ValueError: it is not said in the certificate, in a way we know, when it ends.
        """
        self._cert_file = cert_file
        self._key_file = key_file
        self._client_ca = client_ca
        self._stamps = self._look()
        self.context = _context(cert_file, key_file, client_ca)
        self.not_after = _end(cert_file)

    def reload_if_changed(self) -> bool:
        """Loads the files again if they changed; a pair that does not fit is left until it does.

        Returns whether a new pair is in use.
        """
        try:
            stamps = self._look()
            if stamps == self._stamps:
                return False
            # A pair that fails half-way would leave the serving context without one.
            _context(self._cert_file, self._key_file, self._client_ca)
            end = _end(self._cert_file)
            self.context.load_cert_chain(self._cert_file, self._key_file)
            if self._client_ca is not None:
                self.context.load_verify_locations(self._client_ca)
            self.not_after = end
        except (OSError, ValueError) as error:
            log.warning("certificate not reloaded", error=str(error), cert_file=str(self._cert_file))
            return False
        self._stamps = stamps
        log.info("certificate reloaded", cert_file=str(self._cert_file))
        return True

    def _look(self) -> tuple[Stamp, ...]:
        """Tells the state of all files."""
        files = (self._cert_file, self._key_file, self._client_ca)
        return tuple(_stamp(file) for file in files if file is not None)


def _stamp(path: Path) -> Stamp:
    """Tells the state of one file; a Secret volume swaps links, so links are followed."""
    state = path.stat()
    return state.st_ino, state.st_mtime_ns, state.st_size


def _end(cert_file: Path) -> datetime:
    """Reads when the certificate ends that OpenSSL has just accepted."""
    return not_after(cert_file.read_text("latin-1"))  # what stands around the certificate may be anything


def _context(cert_file: Path, key_file: Path, client_ca: Path | None) -> ssl.SSLContext:
    """Makes a server context: TLS 1.2 or later, HTTP/1.1 only; with a CA it wants to know its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Clients choose among ciphers that are all good: API servers the one that costs both ends least.
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.load_cert_chain(cert_file, key_file)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
