"""What ensuring came to, told to a person, and what is inspected before there is anything."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from certs.bundle import Bundle
from certs.configurations import Trust
from certs.inspection import inspect
from certs.outcome import Outcome, View, outcome, sentence
from policy.durations import format_time
from tests.certs.made import DAY, NOW, PLAN, bundle, ca, leaf

OLD, SIGNER = ca(400 * DAY), ca(DAY)
SERVED = leaf(SIGNER)
NEW = bundle(SIGNER, SERVED)
NOTHING = bundle(None, None)


def trusts(of: Bundle | None, *names: str) -> tuple[Trust, ...]:
    """Webhooks with the caBundle of these certificates, or none."""
    return tuple(Trust("gpu-tenure", name, of.authorities_pem if of else b"") for name in names)


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        pytest.param(View(NEW, trusts(NEW, "a", "b")), (), id="all was in order"),
        pytest.param(
            View(NOTHING, trusts(None, "a", "b")),
            ("a CA was made", "a serving certificate was made", "2 caBundles were written"),
            id="from nothing",
        ),
        pytest.param(
            View(bundle(SIGNER, leaf(SIGNER, DAY)), trusts(NEW, "a", "b")),
            ("a serving certificate was made",),
            id="the leaf was due",
        ),
        pytest.param(
            View(bundle(SIGNER, SERVED, OLD), trusts(bundle(SIGNER, SERVED, OLD), "a", "b")),
            ("1 old CA was dropped", "2 caBundles were written"),
            id="an old CA was done with",
        ),
        pytest.param(
            View(NEW, (*trusts(NEW, "a"), *trusts(None, "b"))),
            ("1 caBundle was written",),
            id="one caBundle was gone",
        ),
    ],
)
def test_what_was_done_is_told(before: View, changes: tuple[str, ...]) -> None:
    """By what differs, so that it does not matter who did it."""
    found = outcome(before, View(NEW, trusts(NEW, "a", "b")))
    assert found.changes == changes
    assert found.webhooks == 2
    assert (
        found.serving_not_after == format_time(NEW.leaf_certificate.not_after) if NEW.leaf_certificate else ""
    )
    assert (", ".join(changes) or "nothing had to be done") in sentence(found)


def test_a_secret_that_was_completed_is_a_change() -> None:
    """Though no certificate is new."""
    spoilt = replace(NEW, complete=False)
    assert outcome(View(spoilt, ()), View(NEW, ())).changes == ("a Secret was completed",)


def test_the_sentence_says_until_when_and_who_trusts_it() -> None:
    """Also where no webhook is installed."""
    told = sentence(Outcome((), "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", 3))
    assert told == (
        "certificates are in order: nothing had to be done; the serving certificate ends at"
        " 2026-01-01T00:00:00Z, its CA at 2027-01-01T00:00:00Z; 3 webhooks trust it"
    )
    assert "no webhook is installed" in sentence(Outcome((), "", "", 0))


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        pytest.param((), "is gpu-tenure installed?", id="no webhook configuration"),
        pytest.param(
            trusts(None, "a", "b"), "none of 2 webhooks has a caBundle", id="webhooks without trust"
        ),
    ],
)
def test_before_the_first_certificate_there_is_one_problem(seen: tuple[Trust, ...], said: str) -> None:
    """And not one for each webhook."""
    (problem,) = inspect(NOTHING, seen, PLAN, NOW).problems
    assert said in problem


def test_lost_secrets_are_no_beginning() -> None:
    """Where webhooks trust something, each that differs is a problem of its own."""
    assert len(inspect(NOTHING, trusts(NEW, "a", "b"), PLAN, NOW).problems) == 3
