"""The serving certificate, read from files and read again when they change; issues nothing."""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

Stamp = tuple[int, int, int]
"""Inode, modification time in nanoseconds and size of a file."""


class ServingCertificate:
    """An SSL context whose certificate follows its files; new handshakes use the new one at once."""

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        """Loads the pair.

        Raises:
            OSError: a file cannot be read (ssl.SSLError: or does not hold a matching pair).
        """
        self._cert_file = cert_file
        self._key_file = key_file
        self._stamps = self._look()
        self.context = _context(cert_file, key_file)

    def reload_if_changed(self) -> bool:
        """Loads the files again if they changed; a pair that does not fit is left until it does.

        Returns whether a new pair is in use.
        """
        try:
            stamps = self._look()
            if stamps == self._stamps:
                return False
            # A pair that fails half-way would leave the serving context without one.
            _context(self._cert_file, self._key_file)
            self.context.load_cert_chain(self._cert_file, self._key_file)
        except OSError as error:
            log.warning("certificate not reloaded", error=str(error), cert_file=str(self._cert_file))
            return False
        self._stamps = stamps
        log.info("certificate reloaded", cert_file=str(self._cert_file))
        return True

    def _look(self) -> tuple[Stamp, Stamp]:
        """Tells the state of both files."""
        return _stamp(self._cert_file), _stamp(self._key_file)


def _stamp(path: Path) -> Stamp:
    """Tells the state of one file; a Secret volume swaps links, so links are followed."""
    state = path.stat()
    return state.st_ino, state.st_mtime_ns, state.st_size


def _context(cert_file: Path, key_file: Path) -> ssl.SSLContext:
    """Makes a server context: TLS 1.2 or later, HTTP/1.1 only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert_file, key_file)
    return context
