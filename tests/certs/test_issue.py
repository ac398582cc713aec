"""A CA and its leaves: what a TLS client and the API server check about them."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.issue import KeyPair, Randomness, issue_ca, issue_leaf, new_key

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
NAME = "gpu-tenure-webhook.gpu-tenure-system.svc"


def certificate(pair: KeyPair) -> x509.Certificate:
    """Reads the certificate of a pair."""
    return x509.load_pem_x509_certificate(pair.cert_pem)


def test_a_leaf_verifies_against_its_ca_for_its_names_only() -> None:
    """A leaf verifies against its CA for its names only."""
    ca = issue_ca("gpu-tenure", NOW, timedelta(days=365))
    leaf = issue_leaf(ca, [NAME], ["127.0.0.1"], NOW, timedelta(days=90))
    verifier = x509.verification.PolicyBuilder().store(x509.verification.Store([certificate(ca)])).time(NOW)
    chain = verifier.build_server_verifier(x509.DNSName(NAME)).verify(certificate(leaf), [])
    assert chain[-1] == certificate(ca)
    verifier.build_server_verifier(x509.IPAddress(ipaddress.ip_address("127.0.0.1"))).verify(
        certificate(leaf), []
    )
    with pytest.raises(x509.verification.VerificationError):
        verifier.build_server_verifier(x509.DNSName("other.svc")).verify(certificate(leaf), [])


def test_a_leaf_of_another_ca_of_the_same_name_does_not_verify() -> None:
    """Two CAs that share a name are told apart by their keys."""
    ca, other = (
        issue_ca("gpu-tenure", NOW, timedelta(days=365)),
        issue_ca("gpu-tenure", NOW, timedelta(days=365)),
    )
    leaf = issue_leaf(other, [NAME], [], NOW, timedelta(days=90))
    verifier = x509.verification.PolicyBuilder().store(x509.verification.Store([certificate(ca)])).time(NOW)
    with pytest.raises(x509.verification.VerificationError):
        verifier.build_server_verifier(x509.DNSName(NAME)).verify(certificate(leaf), [])


def test_validity_begins_an_hour_before_now_and_ends_after_the_days() -> None:
    """Validity begins an hour before now and ends after the days."""
    ca = issue_ca("gpu-tenure", NOW, timedelta(days=365))
    leaf = certificate(issue_leaf(ca, [NAME], [], NOW, timedelta(days=90)))
    assert certificate(ca).not_valid_before_utc == NOW - timedelta(hours=1)
    assert certificate(ca).not_valid_after_utc == NOW + timedelta(days=365)
    assert leaf.not_valid_before_utc == NOW - timedelta(hours=1)
    assert leaf.not_valid_after_utc == NOW + timedelta(days=90)


def test_a_leaf_never_outlives_its_ca() -> None:
    """A leaf that would be valid for longer than its CA ends with it."""
    ca = issue_ca("gpu-tenure", NOW, timedelta(days=30))
    leaf = certificate(issue_leaf(ca, [NAME], [], NOW + timedelta(days=20), timedelta(days=90)))
    assert leaf.not_valid_after_utc == certificate(ca).not_valid_after_utc


def test_the_extensions_of_a_ca_let_it_sign_leaves_and_nothing_else() -> None:
    """The extensions of a CA let it sign leaves and nothing else."""
    extensions = certificate(issue_ca("gpu-tenure", NOW, timedelta(days=365))).extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert not usage.value.digital_signature


def test_the_extensions_of_a_leaf_let_it_serve_and_nothing_else() -> None:
    """The extensions of a leaf let it serve and nothing else."""
    ca = issue_ca("gpu-tenure", NOW, timedelta(days=365))
    leaf = certificate(issue_leaf(ca, [NAME, "localhost"], ["127.0.0.1", "::1"], NOW, timedelta(days=90)))
    extensions = leaf.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert not extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == [NAME, "localhost"]
    assert [str(address) for address in names.value.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1",
        "::1",
    ]
    authority = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    subject = certificate(ca).extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert authority == subject


@pytest.mark.parametrize(
    ("dns_names", "ip_addresses"),
    [
        pytest.param([], ["127.0.0.1"], id="an address alone"),
        pytest.param(["a" * 60 + "." + "b" * 60 + ".svc"], [], id="a name too long for a common name"),
    ],
)
def test_names_are_critical_where_the_subject_is_empty(dns_names: list[str], ip_addresses: list[str]) -> None:
    """RFC 5280 wants the names critical where the subject is empty."""
    leaf = certificate(
        issue_leaf(issue_ca("ca", NOW, timedelta(days=365)), dns_names, ip_addresses, NOW, timedelta(days=90))
    )
    assert not list(leaf.subject)
    assert leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).critical


def test_keys_are_p256_and_serials_come_from_the_given_source() -> None:
    """Keys are EC P-256 and serials come from the given source."""
    serials = iter([4711, 4712])
    randomness = Randomness(key=new_key, serial=lambda: next(serials))
    ca = issue_ca("ca", NOW, timedelta(days=365), randomness)
    leaf = issue_leaf(ca, [NAME], [], NOW, timedelta(days=90), randomness)
    assert [certificate(ca).serial_number, certificate(leaf).serial_number] == [4711, 4712]
    public = certificate(leaf).public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert isinstance(public.curve, ec.SECP256R1)


def test_serials_differ_without_a_source_of_ones_own() -> None:
    """Serials are random: no two of twenty are alike."""
    assert len({certificate(issue_ca("ca", NOW, timedelta(days=1))).serial_number for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("names", "addresses", "now", "days", "message"),
    [
        pytest.param([], [], NOW, 90, "needs a DNS name", id="a leaf without names"),
        pytest.param([NAME], ["10.0.0"], NOW, 90, "10.0.0", id="a malformed address"),
        pytest.param([NAME], [], NOW, 0, "the life must be at least", id="no time"),
        pytest.param([NAME], [], NOW.replace(tzinfo=None), 90, "time zone", id="a time without zone"),
        pytest.param([NAME], [], NOW + timedelta(days=400), 90, "CA expired", id="an expired CA"),
    ],
)
def test_a_leaf_is_refused_with_a_sentence(
    names: list[str], addresses: list[str], now: datetime, days: int, message: str
) -> None:
    """What cannot be issued is said."""
    ca = issue_ca("ca", NOW, timedelta(days=365))
    with pytest.raises(ValueError, match=message):
        issue_leaf(ca, names, addresses, now, timedelta(days=days))


def test_a_real_handshake_works_over_tls_1_3(tmp_path: Path) -> None:
    """OpenSSL serves with the leaf and accepts it as a client that trusts the CA alone."""
    now = datetime.now(UTC)
    ca = issue_ca("ca", now, timedelta(days=2))
    leaf = issue_leaf(ca, ["localhost"], ["127.0.0.1"], now, timedelta(days=1))
    (tmp_path / "tls.crt").write_bytes(leaf.cert_pem)
    (tmp_path / "tls.key").write_bytes(leaf.key_pem)
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client_context = ssl.create_default_context(cadata=ca.cert_pem.decode())
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with server_context.wrap_socket(connection, server_side=True) as secured:
                secured.sendall(b"hello")

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            socket.create_connection(listener.getsockname()) as plain,
            client_context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        ):
            assert secured.recv(5) == b"hello"
            assert secured.version() == "TLSv1.3"
        thread.join(5)
