"""When a certificate ends, read as a library does that reads all of it."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from certs.issue import issue_ca, issue_leaf
from webhook.validity import not_after

BEGIN = datetime(1950, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def certificate(end: datetime, name: str = "a", serial: int = 1, *, key: object = EC_KEY) -> x509.Certificate:
    """A self-signed certificate."""
    assert isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), serial, BEGIN, end)
    return builder.sign(key, hashes.SHA256())


def pem(made: x509.Certificate) -> str:
    """The certificate as its file has it."""
    return made.public_bytes(serialization.Encoding.PEM).decode()


ENDS = st.integers(1, 250_000_000_000).map(lambda seconds: BEGIN + timedelta(seconds=seconds))


@given(
    ENDS,
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=16),
    st.integers(1, 2**159 - 1),
)
def test_the_end_is_what_the_library_reads(end: datetime, name: str, serial: int) -> None:
    """Whatever the year, the name and the serial number."""
    made = certificate(end, name, serial)
    assert not_after(pem(made)) == made.not_valid_after_utc == end


@pytest.mark.parametrize(
    "end", [datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)]
)
def test_both_forms_of_a_year_are_read(end: datetime) -> None:
    """Certificates write it with two digits until 2049."""
    assert not_after(pem(certificate(end, key=RSA_KEY))) == end


def test_the_first_of_a_chain_counts() -> None:
    """The leaf stands first; and there may be text around it, and the older name for it."""
    ca = issue_ca("ca", NOW, timedelta(days=9))
    leaf = issue_leaf(ca, ["a.example"], [], NOW, timedelta(days=2))
    chain = "subject=/CN=ä\n" + (leaf.cert_pem + ca.cert_pem).decode()
    assert not_after(chain) == NOW + timedelta(days=2)
    assert not_after(chain.replace("CERTIFICATE", "X509 CERTIFICATE")) == NOW + timedelta(days=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "in PEM"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "in PEM"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "in DER"),
        ("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", "in DER"),
        ("-----BEGIN CERTIFICATE-----\nMIIF\n-----END CERTIFICATE-----\n", "a whole certificate"),
    ],
)
def test_what_is_none_is_said(text: str, words: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=words):
        not_after(text)


@given(st.integers(0, 10_000), st.binary(max_size=8))
def test_damage_never_raises_anything_else(at: int, bits: bytes) -> None:
    """A file half-written is a bad value like any other."""
    good = certificate(NOW).public_bytes(serialization.Encoding.DER)
    at %= len(good)
    damaged = good[:at] + bits + good[at + len(bits) :]
    text = ssl.DER_cert_to_PEM_cert(damaged)
    try:
        assert not_after(text).tzinfo is UTC
    except ValueError as error:
        assert str(error)  # noqa: PT017 - both are right
