"""Bundles in every state, for the tests of the certificates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from certs.bundle import Bundle, authority_data, read_bundle, serving_data
from certs.issue import KeyPair, issue_ca, issue_leaf
from certs.rotation import CA_NAME, Lives, Plan

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
NAME = "gpu-tenure-webhook.gpu-tenure-system.svc"
DAY = timedelta(days=1)
PLAN = Plan((NAME, f"{NAME}.cluster.local"), Lives())


def ca(age: timedelta = timedelta(0), life: timedelta = PLAN.lives.ca) -> KeyPair:
    """A CA that was made some time before NOW."""
    return issue_ca(CA_NAME, NOW - age, life)


def leaf(
    signer: KeyPair,
    age: timedelta = timedelta(0),
    life: timedelta = PLAN.lives.leaf,
    names: tuple[str, ...] = PLAN.names,
) -> KeyPair:
    """A leaf that was made some time before NOW."""
    return issue_leaf(signer, names, [], NOW - age, life)


def secrets(
    signer: KeyPair | None, served: KeyPair | None, *trusted: KeyPair
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The data of both Secrets as we would have written them; `trusted` are further CAs."""
    known = b"".join(one.cert_pem for one in trusted)
    authority = {"tls.crt": signer.cert_pem, "tls.key": signer.key_pem} if signer else {}
    serving = {"tls.crt": served.cert_pem, "tls.key": served.key_pem} if served else {}
    read = read_bundle({**authority, "ca.crt": known}, serving)
    return authority_data(read), serving_data(read)


def bundle(signer: KeyPair | None, served: KeyPair | None, *trusted: KeyPair) -> Bundle:
    """What is read from them."""
    return read_bundle(*secrets(signer, served, *trusted))


def again(made: Bundle) -> Bundle:
    """The same bundle as the next round reads it from the Secrets."""
    return read_bundle(*written(made))


def written(made: Bundle) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
    """What a round would write."""
    return authority_data(made), serving_data(made)
