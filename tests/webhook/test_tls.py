"""The serving certificate follows its files, and never follows a bad pair."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from certs.issue import KeyPair, issue_ca, issue_leaf
from webhook.tls import ServingCertificate

NOW = datetime.now(UTC)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[KeyPair], None]:
    """Writes a pair where the certificate is read."""

    def write(pair: KeyPair) -> None:
        for name, content in (("tls.crt", pair.cert_pem), ("tls.key", pair.key_pem)):
            (tmp_path / f"{name}.new").write_bytes(content)
            os.replace(tmp_path / f"{name}.new", tmp_path / name)  # noqa: PTH105 - atomic, as the kubelet does

    return write


def leaf(name: str, days: int = 1) -> KeyPair:
    """A certificate for a name."""
    return issue_leaf(issue_ca("ca", NOW, timedelta(days=2)), [name], [], NOW, timedelta(days=days))


def served_name(certificate: ServingCertificate) -> str:
    """Shakes hands and gives the name in the certificate that was shown."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with certificate.context.wrap_socket(ours, server_side=True) as secured:
            secured.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    with client.wrap_socket(theirs) as secured:
        shown = x509.load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"")
        secured.send(b"x")
    thread.join(5)
    name: str = shown.subject.rfc4514_string()
    return name


def test_a_changed_pair_is_used_by_the_next_handshake(
    tmp_path: Path, write: Callable[[KeyPair], None]
) -> None:
    """No restart, no new context."""
    write(leaf("one"))
    certificate = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    context = certificate.context
    assert served_name(certificate) == "CN=one"
    assert certificate.reload_if_changed() is False
    assert certificate.not_after == (NOW + timedelta(days=1)).replace(microsecond=0)
    write(leaf("two", days=2))
    assert certificate.reload_if_changed() is True
    assert certificate.not_after == (NOW + timedelta(days=2)).replace(microsecond=0)
    assert served_name(certificate) == "CN=two"
    assert certificate.context is context


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda folder: (folder / "tls.key").write_bytes(leaf("x").key_pem), id="another key"),
        pytest.param(lambda folder: (folder / "tls.crt").write_text("garbage"), id="no certificate"),
        pytest.param(lambda folder: (folder / "tls.crt").unlink(), id="a file that is gone"),
    ],
)
def test_a_bad_pair_is_passed_over_until_it_is_good(
    tmp_path: Path, write: Callable[[KeyPair], None], spoil: Callable[[Path], object]
) -> None:
    """Two files never change at once: half of a change must not end the service."""
    write(leaf("one"))
    certificate = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    spoil(tmp_path)
    assert certificate.reload_if_changed() is False
    assert served_name(certificate) == "CN=one"
    write(leaf("two"))
    assert certificate.reload_if_changed() is True
    assert served_name(certificate) == "CN=two"


def test_a_bad_pair_at_the_start_is_an_error(tmp_path: Path) -> None:
    """Without a certificate there is nothing to serve with."""
    with pytest.raises(OSError, match=r"tls\.crt"):
        ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")


def test_only_current_versions_of_tls(tmp_path: Path, write: Callable[[KeyPair], None]) -> None:
    """TLS 1.2 and later."""
    write(leaf("one"))
    context = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key").context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
