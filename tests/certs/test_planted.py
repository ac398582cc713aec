"""Secrets that somebody else filled, with what reads well and lets no API server in, or lasts for ever."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.bundle import Bundle, read_bundle, read_certificate
from certs.issue import BACKDATED, KeyPair, new_key
from certs.rotation import CA_NAME, Step, advance, decide
from tests.certs.made import DAY, NAME, NOW, PLAN, again, bundle, ca, leaf

SIGNS_NOTHING = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    """Both as PEM."""
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(*form))


def planted_ca(
    *extensions: x509.ExtensionType,
    curve: ec.EllipticCurve | None = None,
    life: timedelta = PLAN.lives.ca,
) -> KeyPair:
    """A CA of somebody else."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, CA_NAME)])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - BACKDATED, NOW + life)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    for extension in extensions:
        made = made.add_extension(extension, critical=False)
    return pair(made.sign(key, hashes.SHA256()), key)


def resigned(like: KeyPair, *, purpose: x509.ObjectIdentifier, signer: KeyPair | None = None) -> KeyPair:
    """A leaf that says the same as another, for a purpose; signed by nobody that it names unless told so."""
    old, key = x509.load_pem_x509_certificate(like.cert_pem), new_key()
    made = x509.CertificateBuilder(
        old.issuer, old.subject, key.public_key(), 1, old.not_valid_before_utc, old.not_valid_after_utc
    )
    for extension in old.extensions:
        value = extension.value
        if isinstance(value, x509.ExtendedKeyUsage):
            value = x509.ExtendedKeyUsage([purpose])
        made = made.add_extension(value, extension.critical)
    by = serialization.load_pem_private_key(signer.key_pem, None) if signer else new_key()
    assert isinstance(by, ec.EllipticCurvePrivateKey)
    return pair(made.sign(by, hashes.SHA256()), key)


def kept(made: Bundle) -> Bundle:
    """What becomes of it once everything settled."""
    for _ in range(8):
        decision = decide(made, PLAN, NOW, settled=True)
        if decision.step is Step.KEEP:
            return made
        made = again(advance(made, decision, PLAN, NOW))
    pytest.fail("it never settles")


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(planted_ca(curve=ec.SECP256K1()), id="a curve that API servers do not know"),
        pytest.param(planted_ca(SIGNS_NOTHING), id="a CA that may sign nothing"),
        pytest.param(
            planted_ca(x509.NameConstraints([x509.DNSName("example.com")], None)), id="a CA for other names"
        ),
        pytest.param(
            planted_ca(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])), id="a CA of clients"
        ),
        pytest.param(planted_ca(life=36500 * DAY), id="a CA without an end"),
    ],
)
def test_a_planted_ca_does_not_sign_for_long(planted: KeyPair) -> None:
    """One of ours takes its place, and what API servers cannot read is in no caBundle."""
    after = kept(read_bundle({"tls.crt": planted.cert_pem, "tls.key": planted.key_pem}, None))
    signer, served = after.signer_certificate, after.leaf_certificate
    assert signer is not None
    assert served is not None
    assert signer.pem != planted.cert_pem
    assert served.signed_by(signer)
    assert all(one.usable for one in after.authorities)


@pytest.mark.parametrize("signed", [pytest.param(False, id="not signed"), pytest.param(True, id="signed")])
def test_a_planted_leaf_is_renewed(signed: bool) -> None:
    """It names our CA but is not signed by it, or it is for clients."""
    signer = ca()
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if signed else ExtendedKeyUsageOID.SERVER_AUTH
    made = bundle(signer, resigned(leaf(signer), purpose=purpose, signer=signer if signed else None))
    decision = decide(made, PLAN, NOW, settled=True)
    assert (decision.step, decision.urgent) == (Step.RENEW_LEAF, True)
    served = kept(made).leaf_certificate
    assert served is not None
    assert NAME in served.names
    assert served.signed_by(read_certificate(signer.cert_pem))


def test_what_is_like_ours_stays() -> None:
    """The planted ones above differ in nothing else."""
    signer = ca()
    served = resigned(leaf(signer), purpose=ExtendedKeyUsageOID.SERVER_AUTH, signer=signer)
    assert decide(bundle(signer, served), PLAN, NOW, settled=True).step is Step.KEEP
    assert decide(bundle(planted_ca(), None), PLAN, NOW, settled=True).step is Step.RENEW_LEAF
