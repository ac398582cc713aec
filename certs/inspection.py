"""What an administrator should know of the certificates: rows and problems; pure, reads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from certs.bundle import Bundle, Certificate
from certs.configurations import Trust
from certs.rotation import Decision, Plan, Step, decide


class Row(msgspec.Struct, frozen=True):
    """One certificate or caBundle. Times are RFC 3339; `sha256` is the beginning of the hex."""

    what: str
    name: str
    not_after: str
    seconds_left: int
    sha256: str


class Inspection(msgspec.Struct, frozen=True):
    """Everything that there is, what is wrong with it, and what `certs watch` would do next."""

    rows: tuple[Row, ...]
    problems: tuple[str, ...]
    next_step: str
    reason: str


def inspect(bundle: Bundle, trusts: Sequence[Trust], plan: Plan, now: datetime) -> Inspection:
    """Looks at what was read at the time `now`."""
    decision = decide(bundle, plan, now, settled=True)
    rows = [
        *_rows("CA that signs", bundle.signer_certificate, now),
        *(row for one in bundle.trusted for row in _rows("trusted CA", one, now)),
        *_rows("serving certificate", bundle.leaf_certificate, now),
        *(_trust_row(trust, now) for trust in trusts),
    ]
    return Inspection(tuple(rows), _problems(bundle, trusts, decision, now), decision.step, decision.reason)


def _problems(bundle: Bundle, trusts: Sequence[Trust], decision: Decision, now: datetime) -> tuple[str, ...]:
    if not bundle.authorities and bundle.leaf is None and not any(trust.pem for trust in trusts):
        return (_nothing(trusts),)
    found = []
    if decision.urgent:
        found.append(f"the API server cannot reach the webhook: {decision.reason}")
    if not trusts:
        found.append("no webhook configuration is installed: nothing calls the webhook")
    leaf = bundle.leaf_certificate
    for trust in trusts:
        issuers = [one for one in trust.authorities if leaf and one.subject_key == leaf.issuer_key]
        where = f"{trust.configuration}: {trust.webhook}"
        if not trust.pem:
            found.append(f"{where}: has no caBundle")
        elif not issuers:
            found.append(f"{where}: does not trust the CA of the serving certificate")
        elif not any(one.valid(now) for one in issuers):
            found.append(f"{where}: trusts only a CA that is not valid now")
    if decision.step is Step.ADD_CA and not decision.urgent:
        found.append(f"a new CA is due: {decision.reason}")
    return tuple(found)


def _nothing(trusts: Sequence[Trust]) -> str:
    """Before the first certificate one sentence says more than a row for each webhook."""
    if not trusts:
        return (
            "nothing is there: no CA, no certificate, and no webhook configuration; is gpu-tenure installed?"
        )
    return (
        f"no CA has been made, and none of {len(trusts)} webhooks has a caBundle: the API server cannot call"
        " them; `gpu-tenure certs ensure` makes all of it, or look at the logs of gpu-tenure-certs"
    )


def _rows(what: str, one: Certificate | None, now: datetime) -> list[Row]:
    if one is None:
        return [Row(what, "none", "", 0, "")]
    return [Row(what, one.name, _time(one.not_after), _left(one.not_after, now), one.fingerprint[:16])]


def _trust_row(trust: Trust, now: datetime) -> Row:
    """A caBundle ends with the last of its CAs."""
    name = f"{trust.configuration}/{trust.webhook}"
    last = max(trust.authorities, key=lambda one: one.not_after, default=None)
    if last is None:
        return Row("caBundle", name, "", 0, "")
    prints = ",".join(one.fingerprint[:16] for one in trust.authorities)
    return Row("caBundle", name, _time(last.not_after), _left(last.not_after, now), prints)


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _left(moment: datetime, now: datetime) -> int:
    return int((moment - now).total_seconds())
