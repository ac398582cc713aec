"""What the two Secrets hold, read as certificates; pure: it knows no cluster, and reads no clock.

The CA's Secret: `tls.crt` and `tls.key` are the CA that signs, `ca.crt` every CA that is trusted. The serving
Secret, which the webhook mounts: `tls.crt` and `tls.key` are the leaf, `ca.crt` is the same list again, so
that one Secret can be lost without cutting a connection.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.issue import KeyPair

CERT, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
MOST_TRUSTED = 8
"""CAs that are kept at most: more come from a hand that edits, or from a loop."""

UNREADABLE = (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
"""What the library raises for a certificate or key that cannot be read."""

CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
"""Those that API servers know."""

Data = Mapping[str, bytes]
"""The decoded data of a Secret."""


class Certificate(msgspec.Struct, frozen=True):
    """What is used of a certificate; two of them are the same if their `fingerprint` (SHA-256, hex) is.

    `usable`: API servers know its kind of key, and it may sign if it is a CA, else serve.
    """

    pem: bytes
    fingerprint: str
    name: str
    not_before: datetime
    not_after: datetime
    subject_key: bytes
    issuer_key: bytes
    is_ca: bool
    names: tuple[str, ...] = ()
    usable: bool = True

    def valid(self, now: datetime) -> bool:
        """Whether `now` lies in its validity."""
        return self.not_before <= now < self.not_after

    def signed_by(self, authority: Certificate) -> bool:
        """Whether a CA signed it, by the signature itself: names of keys can be written by anybody."""
        named = bool(self.issuer_key) and self.issuer_key == authority.subject_key
        return named and _issued(self.pem, authority.pem)


class Bundle(msgspec.Struct, frozen=True):
    """Everything that decisions are made of.

    Attributes:
        signer: The CA that signs, with its key; None if there is none that fits together.
        trusted: Every trusted CA without the signer, newest first.
        leaf: The serving pair; None if there is none that fits together.
        complete: Whether both Secrets hold just this, in the form in which we write it.
    """

    signer: KeyPair | None = None
    trusted: tuple[Certificate, ...] = ()
    leaf: KeyPair | None = None
    complete: bool = False

    @property
    def signer_certificate(self) -> Certificate | None:
        """The certificate of the CA that signs."""
        return read_certificate(self.signer.cert_pem) if self.signer else None

    @property
    def leaf_certificate(self) -> Certificate | None:
        """The certificate of the leaf."""
        return read_certificate(self.leaf.cert_pem) if self.leaf else None

    @property
    def authorities(self) -> tuple[Certificate, ...]:
        """Every trusted CA, the signer first."""
        signer = self.signer_certificate
        return (signer, *self.trusted) if signer else self.trusted

    @property
    def authorities_pem(self) -> bytes:
        """The same as PEM: what goes into a caBundle and into `ca.crt`."""
        return b"".join(authority.pem for authority in self.authorities)


def read_bundle(authority: Data | None, serving: Data | None) -> Bundle:
    """Reads both Secrets; what is missing, broken or does not fit together is left out."""
    authority, serving = authority or {}, serving or {}
    signer = _pair(authority, ca=True)
    leaf = _pair(serving, ca=False)
    known = [*read_certificates(authority.get(AUTHORITIES, b"")), *_leading(authority.get(CERT, b""))]
    known += read_certificates(serving.get(AUTHORITIES, b""))
    signs = read_certificate(signer.cert_pem).fingerprint if signer else ""
    others = {one.fingerprint: one for one in known if one.is_ca and one.usable and one.fingerprint != signs}
    bundle = Bundle(signer, newest(others.values()), leaf)
    same = authority_data(bundle) == authority and serving_data(bundle) == serving
    complete = signer is not None and leaf is not None and same
    return msgspec.structs.replace(bundle, complete=complete)


def newest(authorities: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """The newest few CAs, newest first."""
    ordered = sorted(authorities, key=lambda one: (one.not_before, one.fingerprint), reverse=True)
    return tuple(ordered[:MOST_TRUSTED])


def authority_data(bundle: Bundle) -> dict[str, bytes]:
    """What the CA's Secret should hold."""
    return _data(bundle.signer, bundle)


def serving_data(bundle: Bundle) -> dict[str, bytes]:
    """What the serving Secret should hold."""
    return _data(bundle.leaf, bundle)


def read_certificates(pem: bytes) -> list[Certificate]:
    """Reads every certificate of a PEM text; none if any part of it cannot be read."""
    try:
        return [_certificate(one) for one in x509.load_pem_x509_certificates(pem)]
    except UNREADABLE:
        return []


def read_certificate(pem: bytes) -> Certificate:
    """Reads one certificate; raises ValueError if it is none."""
    return _certificate(x509.load_pem_x509_certificate(pem))


def decoded(text: str) -> bytes:
    """Decodes base64 as the API has it; empty if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _data(pair: KeyPair | None, bundle: Bundle) -> dict[str, bytes]:
    if pair is None:
        return {}
    return {CERT: pair.cert_pem, KEY: pair.key_pem, AUTHORITIES: bundle.authorities_pem}


def _leading(pem: bytes) -> list[Certificate]:
    """The certificate of a pair, which may have lost its key: leaves that it signed may still serve."""
    return read_certificates(pem)[:1]


def _pair(data: Data, *, ca: bool) -> KeyPair | None:
    """A certificate of the kind that is wanted, and the key that belongs to it."""
    found = read_certificates(data.get(CERT, b""))
    if not found or found[0].is_ca is not ca or not found[0].usable:
        return None
    try:
        key = serialization.load_pem_private_key(data.get(KEY, b""), password=None)
    except (*UNREADABLE, TypeError):
        return None
    # Only what we can sign with counts as a CA: its kind of key, and the identifier that leaves name it by.
    if ca and not (isinstance(key, ec.EllipticCurvePrivateKey) and found[0].subject_key):
        return None
    public = x509.load_pem_x509_certificate(found[0].pem).public_key()
    return KeyPair(found[0].pem, data[KEY]) if key.public_key() == public else None


def _certificate(read: x509.Certificate) -> Certificate:
    extensions = {extension.oid: extension.value for extension in read.extensions}
    constraints = extensions.get(x509.BasicConstraints.oid)
    is_ca = isinstance(constraints, x509.BasicConstraints) and constraints.ca
    names = extensions.get(x509.SubjectAlternativeName.oid)
    subject_key = extensions.get(x509.SubjectKeyIdentifier.oid)
    issuer_key = extensions.get(x509.AuthorityKeyIdentifier.oid)
    return Certificate(
        pem=read.public_bytes(serialization.Encoding.PEM),
        fingerprint=read.fingerprint(hashes.SHA256()).hex(),
        name=_common_name(read.subject),
        not_before=read.not_valid_before_utc,
        not_after=read.not_valid_after_utc,
        subject_key=subject_key.digest if isinstance(subject_key, x509.SubjectKeyIdentifier) else b"",
        issuer_key=_issuer_key(issuer_key),
        is_ca=is_ca,
        names=_names(names),
        usable=_has_known_key(read) and _usable(extensions, is_ca=is_ca),
    )


@lru_cache(maxsize=64)
def _issued(leaf: bytes, authority: bytes) -> bool:
    """Whether one PEM certificate is signed by another."""
    try:
        signer = x509.load_pem_x509_certificate(authority)
        x509.load_pem_x509_certificate(leaf).verify_directly_issued_by(signer)
    except (*UNREADABLE, TypeError, InvalidSignature):
        return False
    return True


def _has_known_key(read: x509.Certificate) -> bool:
    """Whether API servers know the kind of key: they refuse a caBundle with any other in it."""
    try:
        key = read.public_key()
    except UNREADABLE:
        return False
    known = isinstance(key, rsa.RSAPublicKey | ed25519.Ed25519PublicKey)
    return known or (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, CURVES))


def _usable(extensions: Mapping[x509.ObjectIdentifier, x509.ExtensionType], *, is_ca: bool) -> bool:
    """Whether API servers accept a certificate as a CA or, if it is none, as a server's."""
    usage = extensions.get(x509.KeyUsage.oid)
    purposes = extensions.get(x509.ExtendedKeyUsage.oid)
    may_serve = not isinstance(purposes, x509.ExtendedKeyUsage) or any(
        purpose in purposes
        for purpose in (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
    )
    may_sign = not isinstance(usage, x509.KeyUsage) or usage.key_cert_sign
    return may_serve and (may_sign or not is_ca) and x509.NameConstraints.oid not in extensions


def _issuer_key(extension: object) -> bytes:
    return (extension.key_identifier or b"") if isinstance(extension, x509.AuthorityKeyIdentifier) else b""


def _names(extension: object) -> tuple[str, ...]:
    """DNS names and IP addresses that a certificate is for."""
    if not isinstance(extension, x509.SubjectAlternativeName):
        return ()
    addresses = (str(address) for address in extension.get_values_for_type(x509.IPAddress))
    return (*extension.get_values_for_type(x509.DNSName), *addresses)


def _common_name(subject: x509.Name) -> str:
    found = subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""
