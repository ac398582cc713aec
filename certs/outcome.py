"""What ensuring the certificates came to, from what was there before and after; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from certs.bundle import Bundle, Certificate
from certs.configurations import Trust
from policy.durations import format_time


class View(msgspec.Struct, frozen=True):
    """The Secrets and the caBundles at one moment."""

    bundle: Bundle
    trusts: tuple[Trust, ...]


class Outcome(msgspec.Struct, frozen=True):
    """Certificates that are in order.

    Attributes:
        changes: What was done, by whomever, in words; empty if everything was in order.
        serving_not_after: When the serving certificate ends, RFC 3339.
        ca_not_after: When the CA ends that signs, RFC 3339.
        webhooks: How many webhooks trust it; 0 where none is installed.
    """

    changes: tuple[str, ...]
    serving_not_after: str
    ca_not_after: str
    webhooks: int


def outcome(before: View, after: View) -> Outcome:
    """Compares two moments, at the second of which all is in order."""
    return Outcome(
        tuple(_changes(before, after)),
        _end(after.bundle.leaf_certificate),
        _end(after.bundle.signer_certificate),
        len(after.trusts),
    )


def sentence(found: Outcome) -> str:
    """Says it to a person."""
    did = ", ".join(found.changes) or "nothing had to be done"
    trusted = (
        f"{found.webhooks} webhooks trust it" if found.webhooks else "no webhook is installed to trust it"
    )
    until = f"the serving certificate ends at {found.serving_not_after}, its CA at {found.ca_not_after}"
    return f"certificates are in order: {did}; {until}; {trusted}"


def _changes(before: View, after: View) -> list[str]:
    old, new = before.bundle, after.bundle
    gone = {one.fingerprint for one in old.authorities} - {one.fingerprint for one in new.authorities}
    written = _pems(after.trusts).items() - _pems(before.trusts).items()
    found = [
        *(["a CA was made"] if old.signer != new.signer else []),
        *(["a serving certificate was made"] if old.leaf != new.leaf else []),
        *([_counted(len(gone), "old CA", "dropped")] if gone else []),
        *([_counted(len(written), "caBundle", "written")] if written else []),
    ]
    return found or (["a Secret was completed"] if new.complete and not old.complete else [])


def _pems(trusts: Sequence[Trust]) -> dict[tuple[str, str], bytes]:
    return {(one.configuration, one.webhook): one.pem for one in trusts}


def _counted(count: int, what: str, done: str) -> str:
    return f"1 {what} was {done}" if count == 1 else f"{count} {what}s were {done}"


def _end(one: Certificate | None) -> str:
    moment: datetime | None = one.not_after if one is not None else None
    return format_time(moment) if moment is not None else ""
