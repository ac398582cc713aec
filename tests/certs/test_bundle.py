"""What is read from two Secrets, whatever is in them."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.bundle import MOST_TRUSTED, authority_data, decoded, read_bundle, serving_data
from certs.rotation import Step, decide
from tests.certs.made import DAY, NOW, PLAN, bundle, ca, leaf, secrets

CA = ca()
LEAF = leaf(CA)
AUTHORITY, SERVING = secrets(CA, LEAF)


def rsa_key() -> bytes:
    """A key of another kind, as another tool would make it."""
    key = rsa.generate_private_key(65537, 2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form)


def test_what_was_written_is_read_again() -> None:
    """Both Secrets, whole."""
    read = read_bundle(AUTHORITY, SERVING)
    assert (read.signer, read.leaf, read.complete) == (CA, LEAF, True)
    assert (authority_data(read), serving_data(read)) == (AUTHORITY, SERVING)


BROKEN = [
    pytest.param({**AUTHORITY, "tls.key": b""}, SERVING, False, True, id="the CA's key is gone"),
    pytest.param({**AUTHORITY, "tls.key": LEAF.key_pem}, SERVING, False, True, id="another key"),
    pytest.param({**AUTHORITY, "tls.key": rsa_key()}, SERVING, False, True, id="a key of another kind"),
    pytest.param({**AUTHORITY, "tls.crt": LEAF.cert_pem}, SERVING, False, True, id="a leaf for a CA"),
    pytest.param({**AUTHORITY, "tls.crt": b"\xff\x00"}, SERVING, False, True, id="garbage for a CA"),
    pytest.param(AUTHORITY, {**SERVING, "tls.crt": CA.cert_pem}, True, False, id="a CA for a leaf"),
    pytest.param(AUTHORITY, {**SERVING, "tls.key": b"-----BEGIN"}, True, False, id="half a key"),
    pytest.param(AUTHORITY, {}, True, False, id="an empty Secret"),
    pytest.param(AUTHORITY, None, True, False, id="no serving Secret"),
    pytest.param(None, SERVING, False, True, id="no Secret of the CA"),
]


@pytest.mark.parametrize(("authority", "serving", "signs", "serves"), BROKEN)
def test_what_does_not_fit_together_is_left_out(
    authority: dict[str, bytes] | None, serving: dict[str, bytes] | None, signs: bool, serves: bool
) -> None:
    """And the other half stays."""
    read = read_bundle(authority, serving)
    assert (read.signer is not None, read.leaf is not None, read.complete) == (signs, serves, False)


def test_one_secret_alone_keeps_the_other_ones_ca_trusted() -> None:
    """The list of CAs is in both."""
    lost = read_bundle(None, SERVING)
    assert [one.pem for one in lost.trusted] == [CA.cert_pem]
    assert not decide(lost, PLAN, NOW, settled=True).urgent


def test_a_ca_that_lost_its_key_stays_trusted() -> None:
    """Its leaves serve on while a new one is made."""
    lost = read_bundle({"tls.crt": CA.cert_pem}, {"tls.crt": LEAF.cert_pem, "tls.key": LEAF.key_pem})
    decision = decide(lost, PLAN, NOW, settled=True)
    assert (decision.step, decision.urgent) == (Step.ADD_CA, False)


def test_no_hand_makes_a_bundle_without_end() -> None:
    """The newest few are kept."""
    many = [ca(n * DAY) for n in range(1, MOST_TRUSTED + 4)]
    read = bundle(CA, LEAF, *many)
    assert len(read.trusted) == MOST_TRUSTED
    assert read.trusted[0].pem == many[0].cert_pem


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["authority", "serving"]),
    st.sampled_from(["tls.crt", "tls.key", "ca.crt"]),
    st.integers(0, 2000),
    st.binary(max_size=8),
)
def test_no_edit_of_a_secret_stops_a_round(secret: str, key: str, place: int, cut: bytes) -> None:
    """Bytes replaced anywhere: something is always decided, and a leaf in use always has its key."""
    data = {"authority": dict(AUTHORITY), "serving": dict(SERVING)}
    old = data[secret][key]
    place %= len(old)
    data[secret][key] = old[:place] + cut + old[place + len(cut) + 1 :]
    read = read_bundle(data["authority"], data["serving"])
    assert decide(read, PLAN, NOW, settled=True).reason
    if read.leaf is not None:
        assert read.leaf.key_pem.startswith(b"-----BEGIN")


def test_what_is_no_base64_is_empty() -> None:
    """The API server would not have it, but a Secret in an old etcd might."""
    assert (decoded("!"), decoded("YQ=="), decoded("")) == (b"", b"a", b"")
