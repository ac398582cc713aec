"""Which step of a rotation comes next; pure: (bundle, time, what the API server trusts) → one decision.

The order that loses no request: a new CA goes into every caBundle next to the old one; only when it was
read back and has settled is a leaf signed with it; the old CA goes when no leaf of it can be valid any more.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from certs.bundle import Bundle, Certificate, newest
from certs.issue import BACKDATED, SYSTEM, Randomness, issue_ca, issue_leaf

CA_NAME = "gpu-tenure webhook CA"


class Step(enum.StrEnum):
    """What to do."""

    KEEP = "keep"
    WAIT = "wait"
    WRITE = "write"
    RENEW_LEAF = "renew-leaf"
    ADD_CA = "add-ca"
    DROP_CA = "drop-ca"


class Lives(msgspec.Struct, frozen=True):
    """How long certificates live, and how long before their end they are renewed.

    Attributes:
        ca: The life of a CA.
        ca_renew: What is left of a CA's life when the next one is added; at least the life of a leaf.
        leaf: The life of a leaf.
        leaf_renew: What is left of a leaf's life when it is renewed.
    """

    ca: timedelta = timedelta(days=730)
    ca_renew: timedelta = timedelta(days=180)
    leaf: timedelta = timedelta(days=90)
    leaf_renew: timedelta = timedelta(days=30)


class Plan(msgspec.Struct, frozen=True):
    """What is wanted: names and IP addresses that the API server dials, the first one first, and lives."""

    names: tuple[str, ...]
    lives: Lives = Lives()

    @property
    def ip_addresses(self) -> tuple[str, ...]:
        """Those of the names that are IP addresses."""
        return tuple(name for name in self.names if _is_ip(name))

    @property
    def dns_names(self) -> tuple[str, ...]:
        """The others."""
        return tuple(name for name in self.names if not _is_ip(name))


class Decision(msgspec.Struct, frozen=True):
    """A step with its reason. `urgent`: nobody can connect as it is, so nothing is waited for."""

    step: Step
    reason: str
    urgent: bool = False


def decide(bundle: Bundle, plan: Plan, now: datetime, *, settled: bool) -> Decision:
    """Decides the next step.

    Args:
        bundle: What the Secrets hold.
        plan: What is wanted.
        now: The time.
        settled: Whether every caBundle was seen to trust the CA that signs, for long enough that every API
            server has read it.
    """
    broken = _broken_leaf(bundle, plan, now)
    signer = bundle.signer_certificate
    lacks = _unfit_signer(signer, now, plan)
    if lacks:
        return Decision(Step.ADD_CA, lacks, urgent=broken is not None)
    if broken:
        return Decision(Step.RENEW_LEAF, broken, urgent=True)
    renewal = _due_leaf(bundle, plan, now)
    if renewal:
        if settled:
            return Decision(Step.RENEW_LEAF, renewal)
        if not _signed_by_signer(bundle):
            return Decision(Step.WAIT, "the new CA is not trusted everywhere yet")
    gone = _droppable(bundle, plan, now)
    if gone:
        return Decision(Step.DROP_CA, f"no leaf of {gone.name} can be valid any more")
    if not bundle.complete:
        return Decision(Step.WRITE, "a Secret does not hold what belongs into it")
    return Decision(Step.KEEP, "nothing to do")


def advance(
    bundle: Bundle,
    decision: Decision,
    plan: Plan,
    now: datetime,
    seen: Iterable[Certificate] = (),
    randomness: Randomness = SYSTEM,
) -> Bundle:
    """Makes what the decision asks for; the bundle as it is where that is nothing.

    `seen` are the CAs in the caBundles. A new CA joins them: if the Secrets are lost, the webhook may still
    serve what they held.
    """
    if decision.step is Step.ADD_CA:
        # What has ended is no help to anybody; an old CA without an end in sight keeps its leaves trusted.
        old = {
            one.fingerprint: one
            for one in (*bundle.authorities, *seen)
            if one.is_ca and one.usable and one.valid(now)
        }
        added = issue_ca(CA_NAME, now, plan.lives.ca, randomness)
        return msgspec.structs.replace(bundle, signer=added, trusted=newest(old.values()))
    if decision.step is Step.RENEW_LEAF and bundle.signer is not None:
        leaf = issue_leaf(bundle.signer, plan.dns_names, plan.ip_addresses, now, plan.lives.leaf, randomness)
        return msgspec.structs.replace(bundle, leaf=leaf)
    if decision.step is Step.DROP_CA:
        gone = _droppable(bundle, plan, now)
        return msgspec.structs.replace(
            bundle, trusted=tuple(one for one in bundle.trusted if gone is None or one != gone)
        )
    return bundle


def _unfit_signer(signer: Certificate | None, now: datetime, plan: Plan) -> str | None:
    """Why there must be a new CA; None if the present one does."""
    if signer is None:
        return "there is no CA with its key"
    if not signer.valid(now):
        return f"the CA is not valid: {_span(signer)}"
    if signer.not_after - now <= plan.lives.ca_renew:
        return f"the CA ends at {signer.not_after:%Y-%m-%dT%H:%M:%SZ}"
    # Of its own two dates, whatever the clock says now: ours live as long as is wanted, give or take seconds.
    if signer.not_after - signer.not_before > plan.lives.ca + 2 * BACKDATED:
        return f"the CA lives for longer than is wanted: {_span(signer)}"
    return None


def _broken_leaf(bundle: Bundle, plan: Plan, now: datetime) -> str | None:
    """Why no API server can connect with this leaf; None if one can."""
    leaf = bundle.leaf_certificate
    if leaf is None:
        return "there is no certificate with its key"
    if not leaf.valid(now):
        return f"the certificate is not valid: {_span(leaf)}"
    missing = [name for name in plan.names if name not in leaf.names]
    if missing:
        return f"the certificate is not for {', '.join(missing)}"
    issuers = [one for one in bundle.authorities if leaf.signed_by(one)]
    if not issuers:
        return "the certificate is signed by no CA of ours"
    if not any(one.valid(now) for one in issuers):
        return f"the CA of the certificate is not valid: {_span(issuers[0])}"
    return None


def _due_leaf(bundle: Bundle, plan: Plan, now: datetime) -> str | None:
    """Why a leaf that works should be renewed; None if it should not."""
    leaf = bundle.leaf_certificate
    if leaf is None:
        return None
    if not _signed_by_signer(bundle):
        return "the certificate is signed by an older CA"
    if leaf.not_after - now <= plan.lives.leaf_renew:
        return f"the certificate ends at {leaf.not_after:%Y-%m-%dT%H:%M:%SZ}"
    return None


def _signed_by_signer(bundle: Bundle) -> bool:
    leaf, signer = bundle.leaf_certificate, bundle.signer_certificate
    return leaf is not None and signer is not None and leaf.signed_by(signer)


def _droppable(bundle: Bundle, plan: Plan, now: datetime) -> Certificate | None:
    """The oldest CA that nobody needs any more: the longest leaf that it can have signed has ended.

    An old CA signed its last leaf before the present signer was made: then its key was overwritten.
    """
    signer = bundle.signer_certificate
    if signer is None or not _signed_by_signer(bundle):
        return None
    last_leaf_ends = signer.not_before + BACKDATED + plan.lives.leaf
    for one in reversed(bundle.trusted):
        if now >= min(last_leaf_ends, one.not_after):
            return one
    return None


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _span(one: Certificate) -> str:
    return f"{one.not_before:%Y-%m-%dT%H:%M:%SZ} to {one.not_after:%Y-%m-%dT%H:%M:%SZ}"
