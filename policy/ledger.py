"""The ledger of a GPUQuota: who holds what, what is reserved, and whether more fits. Pure arithmetic.

Counts are kept by resource name; weights apply only when amounts are compared, and are exact fractions. Must
not know where a ledger is stored or who may write it; the two writers and their rules are in ARCHITECTURE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from policy.gpuquota import DEVICES, MOST, GPUQuota, Per, subject_of

Counts = Mapping[str, int]
Weigh = Callable[[str], Fraction]
"""The devices that one unit of a resource is; 0 for what only describes devices."""

MOST_RESERVATIONS: Final = 1000
"""Per quota: a ledger must stay far below the largest object that etcd takes."""

MOST_NAMES: Final = 100
"""Of resources, per pod and per subject: what people really ask for are a few."""


class Reservation(Struct, frozen=True, rename="camel"):
    """What one pod that is being created will hold; `at` is for people, nothing is decided by it."""

    namespace: str
    name: str
    subject: str
    counts: dict[str, int]
    at: str = ""


class Ledger(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`status` of a GPUQuota.

    `used` counts the pods that were seen at `pods_resource_version`, `reservations` (by pod UID) the pods
    that were let in since. `namespaces` are those that were counted. `requesters` is who asked for pods, by
    UID, that do not say it any more. `holders` and `summary` are for people.
    """

    used: dict[str, dict[str, int]] = {}
    reservations: dict[str, Reservation] = {}
    pods_resource_version: str = ""
    observed_generation: int = 0
    namespaces: tuple[str, ...] = ()
    requesters: dict[str, str] = {}
    holders: dict[str, tuple[str, ...]] = {}
    over: tuple[str, ...] = ()
    summary: str = ""


class Ask(Struct, frozen=True):
    """What a pod that is being created asks of the quotas; `counts` as Kubernetes would count them."""

    uid: str
    namespace: str
    name: str
    requester: str | None
    counts: dict[str, int]


class Fits(Struct, frozen=True):
    """The pod fits. `known`: a reservation of this UID is there already.

    `fullness` is what is held of the fullest limit, with this pod, as a share; `text` spells it.
    """

    subject: str
    known: bool
    fullness: Fraction
    text: str


class Short(Struct, frozen=True):
    """The pod does not fit: `used` with `asked` would exceed `hard`."""

    subject: str
    limit: str
    used: Fraction
    hard: Fraction
    asked: Fraction
    holders: tuple[str, ...] = ()


class NotYet(Struct, frozen=True):
    """It cannot be told now, but in a moment: why, in words."""

    why: str


Judgement = Fits | Short | NotYet


def judge_ask(quota: GPUQuota, ledger: Ledger, ask: Ask, weigh: Weigh) -> Judgement:
    """Whether a pod fits into a quota that selects its namespace."""
    if ledger.observed_generation < quota.generation:
        return NotYet(f"GPUQuota {quota.name} has changed and is being counted")
    if ask.namespace not in ledger.namespaces:
        return NotYet(f"GPUQuota {quota.name} has not counted namespace {ask.namespace} yet")
    subject = subject_of(quota, ask.namespace, ask.requester)
    known = ask.uid in ledger.reservations
    before = held(ledger, subject, leaving_out=ask.uid)
    fullest = Fits(subject, known, Fraction(0), "")
    for limit, hard in quota.hard.items():
        asked = amount_of(ask.counts, limit, weigh)
        if not asked:
            continue
        used = amount_of(before, limit, weigh)
        if used + asked > hard:
            return Short(subject, limit, used, hard, asked, ledger.holders.get(subject, ()))
        fullness = (used + asked) / hard
        if fullness > fullest.fullness:
            text = f"{show_amount(used + asked)} of {show_amount(hard)} {limit}"
            fullest = Fits(subject, known, fullness, text)
    return fullest if known else _unconfirmed_problem(quota, ledger, ask, weigh) or fullest


def concerns(quota: GPUQuota, counts: Counts, weigh: Weigh) -> bool:
    """Whether a pod asks for anything that the quota limits."""
    return any(amount_of(counts, limit, weigh) for limit in quota.hard)


def _unconfirmed_problem(quota: GPUQuota, ledger: Ledger, ask: Ask, weigh: Weigh) -> NotYet | None:
    """Why a namespace must wait: half of a shared quota is reserved for its pods that nobody has seen yet.

    Reviews can be forged by any pod of the cluster, and pods that we let in may be refused after us: a
    namespace cannot fill what others share with pods that will never be, be it a limit or the ledger. One pod
    is always let in, however large.
    """
    if len(ledger.reservations) >= MOST_RESERVATIONS:
        return NotYet(f"GPUQuota {quota.name} holds too many reservations")
    if len(ledger.namespaces) < 2:
        return None
    here = [one for one in ledger.reservations.values() if one.namespace == ask.namespace]
    if len(here) * 2 >= MOST_RESERVATIONS:
        return NotYet(f"namespace {ask.namespace} waits for {len(here)} of its pods to be confirmed")
    if quota.per is Per.NAMESPACE:
        return None
    subject = subject_of(quota, ask.namespace, ask.requester)
    mine = [one.counts for one in here if one.subject == subject]
    if not mine:
        return None
    reserved = added(*mine, ask.counts)
    for limit, hard in quota.hard.items():
        if amount_of(ask.counts, limit, weigh) and amount_of(reserved, limit, weigh) * 2 > hard:
            return NotYet(
                f"namespace {ask.namespace} waits for half of GPUQuota {quota.name} to be confirmed"
            )
    return None


def reserve(quota: GPUQuota, ledger: Ledger, ask: Ask, at: str) -> Ledger:
    """The ledger with a reservation for the pod; the same if there is one already."""
    if ask.uid in ledger.reservations:
        return ledger
    subject = subject_of(quota, ask.namespace, ask.requester)
    counts = {name: count for name, count in added(ask.counts).items() if count}
    made = Reservation(ask.namespace, ask.name, subject, counts, at)
    return replace(ledger, reservations={**ledger.reservations, ask.uid: made})


def release(ledger: Ledger, uids: Iterable[str]) -> Ledger:
    """The ledger without some reservations; the same if it has none of them."""
    gone = set(uids) & ledger.reservations.keys()
    if not gone:
        return ledger
    left = {uid: one for uid, one in ledger.reservations.items() if uid not in gone}
    return replace(ledger, reservations=left)


def held(ledger: Ledger, subject: str, leaving_out: str = "") -> dict[str, int]:
    """What a subject holds, counted and reserved, but for the reservation of one UID."""
    reserved = (
        one.counts
        for uid, one in ledger.reservations.items()
        if one.subject == subject and uid != leaving_out
    )
    return added(ledger.used.get(subject, {}), *reserved)


def subjects(ledger: Ledger) -> tuple[str, ...]:
    """Everybody who holds something, sorted."""
    return tuple(sorted(ledger.used.keys() | {one.subject for one in ledger.reservations.values()}))


def added(*many: Counts) -> dict[str, int]:
    """The sum of counts, name by name; more than any limit can be is as much as can be written."""
    total: dict[str, int] = {}
    for counts in many:
        for name, count in counts.items():
            total[name] = min(total.get(name, 0) + count, MOST)
    return total


def folded(counts: Counts, limits: Collection[str], weigh: Weigh) -> dict[str, int]:
    """The same amounts under few names: pods can name slices without end, and a ledger is one object.

    Names that no limit is about are added to the first of the same weight.
    """
    if len(counts) <= MOST_NAMES:
        return dict(counts)
    firsts: dict[Fraction, str] = {}
    few: dict[str, int] = {}
    for name, count in sorted(counts.items()):
        first = name if name in limits else firsts.setdefault(weigh(name), name)
        few = added(few, {first: count})
    return few


def amount_of(counts: Counts, limit: str, weigh: Weigh) -> Fraction:
    """What counts amount to under a limit: weighted devices, or units of one resource."""
    if limit != DEVICES:
        return Fraction(counts.get(limit, 0))
    return sum((weigh(name) * count for name, count in counts.items()), Fraction(0))


def show_amount(amount: Fraction) -> str:
    """An amount for people: whole numbers as they are, others with up to two decimals."""
    return f"{float(amount):.2f}".rstrip("0").rstrip(".")
