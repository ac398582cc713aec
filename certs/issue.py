"""Issues a certificate authority and leaves for the webhook; knows no file, no cluster and no clock."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(hours=1)
"""How long before `now` a certificate becomes valid, so that a client whose clock is behind accepts it."""

SHORTEST = timedelta(seconds=1)
"""X.509 knows whole seconds."""

COMMON_NAME_LIMIT = 64
"""Characters that X.509 allows in a common name."""


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate with its private key, both PEM; the key is unencrypted PKCS #8."""

    cert_pem: bytes
    key_pem: bytes


class Randomness(msgspec.Struct, frozen=True):
    """Where keys and serial numbers come from; a test may give its own."""

    key: Callable[[], ec.EllipticCurvePrivateKey]
    serial: Callable[[], int]


def new_key() -> ec.EllipticCurvePrivateKey:
    """Makes an EC P-256 key from the system's randomness."""
    return ec.generate_private_key(ec.SECP256R1())


SYSTEM = Randomness(key=new_key, serial=x509.random_serial_number)
"""Keys and 159-bit serial numbers from the operating system."""


def issue_ca(name: str, now: datetime, life: timedelta, randomness: Randomness = SYSTEM) -> KeyPair:
    """Issues a self-signed CA that may sign leaves only, valid from an hour before `now` for `life` from it.

    Raises:
        ValueError: the name is empty or too long, `now` is naive, or `life` is not positive.
    """
    _check_span(now, life)
    key = randomness.key()
    subject = _subject(name)
    builder = (
        _builder(subject, key, now, now + life, randomness)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def issue_leaf(
    ca: KeyPair,
    dns_names: Sequence[str],
    ip_addresses: Sequence[str],
    now: datetime,
    life: timedelta,
    randomness: Randomness = SYSTEM,
) -> KeyPair:
    """Issues a server certificate for the given names, signed by the CA and never valid for longer than it.

    Raises:
        ValueError: no name at all, a malformed address, a naive `now`, `life` not positive, an expired CA.
    """
    names = _alternative_names(dns_names, ip_addresses)
    ca_cert = x509.load_pem_x509_certificate(ca.cert_pem)
    _check_span(now, life)
    if ca_cert.not_valid_after_utc <= now:
        msg = f"the CA expired at {ca_cert.not_valid_after_utc.isoformat()}"
        raise ValueError(msg)
    key = randomness.key()
    until = min(now + life, ca_cert.not_valid_after_utc)
    authority = ca_cert.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_leaf_subject(dns_names), key, now, until, randomness)
        .issuer_name(ca_cert.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        # RFC 5280: the names are critical where the subject is empty.
        .add_extension(names, critical=not _leaf_subject(dns_names))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority), critical=False
        )
    )
    return _signed(builder, key, _private_key(ca.key_pem))


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    until: datetime,
    randomness: Randomness,
) -> x509.CertificateBuilder:
    """Begins a certificate: subject, key, serial number and validity."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(randomness.serial())
        .not_valid_before(now.astimezone(UTC) - BACKDATED)
        .not_valid_after(until.astimezone(UTC))
    )


def _check_span(now: datetime, life: timedelta) -> None:
    """Refuses a naive time and a span that ends before it begins."""
    if now.tzinfo is None:
        msg = "now must carry a time zone"
        raise ValueError(msg)
    if life < SHORTEST:
        msg = f"the life must be at least {SHORTEST}, not {life}"
        raise ValueError(msg)


def _leaf_subject(dns_names: Sequence[str]) -> x509.Name:
    """Names a leaf by its first DNS name that fits a common name; empty where none does."""
    fitting = [name for name in dns_names if len(name) <= COMMON_NAME_LIMIT]
    return _subject(fitting[0]) if fitting else x509.Name([])


def _subject(common_name: str) -> x509.Name:
    """Makes a distinguished name of a common name alone."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative_names(dns_names: Sequence[str], ip_addresses: Sequence[str]) -> x509.SubjectAlternativeName:
    """Collects the names that clients compare; there must be one."""
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ip_addresses]
    if not names:
        msg = "a leaf needs a DNS name or an IP address"
        raise ValueError(msg)
    return x509.SubjectAlternativeName(names)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Gives the key usage of a CA (sign certificates and lists) or of a leaf (sign handshakes)."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Reads the key of a CA of ours; anything but an EC key is a ValueError."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        msg = "the CA's key must be an EC key"
        raise ValueError(msg)
    return key


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> KeyPair:
    """Signs with SHA-256 and writes both parts as PEM."""
    certificate = builder.sign(signer, hashes.SHA256())
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(cert_pem=certificate.public_bytes(serialization.Encoding.PEM), key_pem=key_pem)
