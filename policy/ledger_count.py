"""Counts pods into the ledger of a GPUQuota, and releases what was reserved for them. Pure.

This is the side of the one writer that may remove: what it must not know is when, and from which cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from msgspec import Struct, json
from msgspec.structs import replace

from policy.gpuquota import SUBJECT_CHARACTERS, GPUQuota, Per, Together, subject_of
from policy.ledger import (
    Counts,
    Ledger,
    Weigh,
    added,
    amount_of,
    folded,
    held,
    release,
    show_amount,
    subjects,
)
from policy.revisions import revision

MOST_HOLDERS: Final = 3
SUMMARY_CHARACTERS: Final = 240
OWNER_CHARACTERS: Final = 400
"""Names of owners are as long as their pods' creators like."""
HOLDERS_BYTES: Final = 256 * 1024
"""Of all subjects together, as they are written: a ledger that etcd does not take would stand still."""
MOST_REQUESTERS: Final = 256
"""Of pods that do not name theirs any more, per quota."""


class HeldPod(Struct, frozen=True):
    """A GPU pod that exists. `ended`: it is Succeeded or Failed and holds nothing any more.

    Pods that terminate hold until they are gone, and gated pods hold as they do for a ResourceQuota. `owner`
    names its workload for people, `remark` what is known of its idleness, or nothing. `recalled`: the
    pod does not name its requester any more, it is known from before.
    """

    uid: str
    namespace: str
    name: str
    requester: str | None
    counts: dict[str, int]
    ended: bool = False
    owner: str = ""
    remark: str = ""
    created: str = ""
    recalled: bool = False


class Excess(Struct, frozen=True):
    """A subject holds more than its limit; `pods` are the newest that make up the excess."""

    subject: str
    limit: str
    used: Fraction
    hard: Fraction
    pods: tuple[HeldPod, ...]


def count_pods(
    quota: GPUQuota,
    ledger: Ledger,
    pods: Iterable[HeldPod],
    namespaces: Sequence[str],
    version: str,
    weigh: Weigh,
    gone: Iterable[str] = (),
) -> Ledger:
    """The ledger as it should be, given all pods that existed at the resource version `version`.

    Removed are the reservations of pods that are counted by the same write, of those that have ended, and of
    the UIDs in `gone`, which are known never to come. `namespaces` are all that the quota selects.
    """
    pods = recall(quota, ledger, pods)
    selected = frozenset(namespaces)
    used: dict[str, dict[str, int]] = {}
    owners: dict[str, dict[str, _Holder]] = {}
    for pod in pods:
        if pod.ended or pod.namespace not in selected:
            continue
        subject = subject_of(quota, pod.namespace, pod.requester)
        used[subject] = added(used.get(subject, {}), pod.counts)
        _note_owner(owners.setdefault(subject, {}), pod)
    counted = release(ledger, (*(pod.uid for pod in pods), *gone))
    counted = replace(
        counted,
        used={subject: folded(counts, quota.hard, weigh) for subject, counts in sorted(used.items())},
        pods_resource_version=version,
        observed_generation=quota.generation,
        namespaces=tuple(sorted(selected)),
        requesters=_remembered(quota, ledger, [pod for pod in pods if pod.namespace in selected]),
        holders=_holders(owners, used, quota, weigh),
    )
    over = tuple(subject for subject in subjects(counted) if _is_over(quota, counted, subject, weigh))
    return replace(counted, over=over, summary=summary_of(quota, counted, weigh))


def recall(quota: GPUQuota, ledger: Ledger, pods: Iterable[HeldPod]) -> list[HeldPod]:
    """The pods with who asked for them, where the ledger knows what they do not say any more."""
    if quota.per is not Per.REQUESTER:
        return list(pods)
    return [_recalled(ledger, pod) for pod in pods]


def _recalled(ledger: Ledger, pod: HeldPod) -> HeldPod:
    first = ledger.requesters.get(pod.uid)
    if first is None and pod.requester in (None, Together.UNKNOWN) and pod.uid in ledger.reservations:
        # It said so when it was let in, and nobody has counted it since.
        subject = ledger.reservations[pod.uid].subject
        first = None if subject.partition(":")[0] == Together.UNKNOWN else subject
    return pod if first is None else replace(pod, requester=first, recalled=True)


def _remembered(quota: GPUQuota, ledger: Ledger, pods: Iterable[HeldPod]) -> dict[str, str]:
    """Who asked for pods that do not say it any more; those that are known already come first."""
    if quota.per is not Per.REQUESTER:
        return {}
    found = [pod for pod in pods if pod.recalled and not pod.ended]
    found.sort(key=lambda pod: (pod.uid not in ledger.requesters, pod.uid))
    return {pod.uid: (pod.requester or "")[:SUBJECT_CHARACTERS] for pod in found[:MOST_REQUESTERS]}


def differs(before: Ledger, after: Ledger) -> bool:
    """Whether a write is worth it: a newer version alone says nothing new."""
    return replace(before, pods_resource_version="") != replace(after, pods_resource_version="")


def may_count(ledger: Ledger, version: str) -> bool:
    """Whether a cache that has read up to `version` is at or beyond what the ledger counts already.

    Whoever counts from an older cache would take back pods that another has counted.
    """
    return revision(version) >= revision(ledger.pods_resource_version)


def excesses(quota: GPUQuota, ledger: Ledger, pods: Iterable[HeldPod], weigh: Weigh) -> tuple[Excess, ...]:
    """Who holds more than allowed by pods that exist; reservations are nobody's excess yet."""
    if not ledger.over:
        return ()
    pods = recall(quota, ledger, pods)
    counted = [pod for pod in pods if not pod.ended and pod.namespace in ledger.namespaces]
    counted.sort(key=lambda pod: (pod.created, pod.uid), reverse=True)
    found = []
    for subject in ledger.over:
        mine = [pod for pod in counted if subject_of(quota, pod.namespace, pod.requester) == subject]
        for limit, hard in quota.hard.items():
            used = amount_of(ledger.used.get(subject, {}), limit, weigh)
            if used > hard:
                newest = _making_up(mine, used - hard, limit, weigh)
                found.append(Excess(subject, limit, used, hard, newest))
    return tuple(found)


def summary_of(quota: GPUQuota, ledger: Ledger, weigh: Weigh) -> str:
    """`used/hard` for each limit of each subject, the fullest first, in one short line."""
    lines = []
    for subject in subjects(ledger) or ("*",):
        counts = held(ledger, subject)
        shares = [
            f"{show_amount(amount_of(counts, limit, weigh))}/{show_amount(hard)}{_unit(quota, limit)}"
            for limit, hard in quota.hard.items()
        ]
        prefix = "" if subject == "*" else f"{subject} "
        lines.append((-_fullness(quota, counts, weigh), prefix + " ".join(shares)))
    shown = ""
    texts = [text for _, text in sorted(lines)]
    for index, text in enumerate(texts):
        longer = f"{shown}, {text}" if shown else text
        if len(longer) > SUMMARY_CHARACTERS:
            return f"{shown[:SUMMARY_CHARACTERS]} and {len(texts) - index} more"
        shown = longer
    return shown


class _Holder(Struct):
    """What one owner holds so far."""

    counts: dict[str, int]
    remark: str


def _note_owner(owners: dict[str, _Holder], pod: HeldPod) -> None:
    """Adds a pod to what its owner holds."""
    name = f"{pod.namespace}/{pod.owner or f'Pod/{pod.name}'}"
    known = owners.setdefault(name, _Holder({}, pod.remark))
    known.counts = added(known.counts, pod.counts)
    known.remark = known.remark or pod.remark


def _holders(
    owners: Mapping[str, dict[str, _Holder]], used: Mapping[str, Counts], quota: GPUQuota, weigh: Weigh
) -> dict[str, tuple[str, ...]]:
    """Who holds most, by subject; of too many subjects those are left whose limits are fullest."""
    found = {subject: _largest(some, quota, weigh) for subject, some in sorted(owners.items())}
    left = HOLDERS_BYTES - len(json.encode(found))
    if left >= 0:
        return found
    for subject in sorted(found, key=lambda one: (_fullness(quota, used[one], weigh), one)):
        left += len(json.encode({subject: found.pop(subject)})) - 1
        if left >= 0:
            break
    return found


def _largest(owners: dict[str, _Holder], quota: GPUQuota, weigh: Weigh) -> tuple[str, ...]:
    """The owners that hold most, as people read it."""
    limit = next(iter(quota.hard), "")
    ranked = sorted(owners.items(), key=lambda item: (-amount_of(item[1].counts, limit, weigh), item[0]))
    lines = []
    for name, one in ranked[:MOST_HOLDERS]:
        amount = amount_of(one.counts, limit, weigh)
        remark = f", {one.remark}" if one.remark else ""
        lines += [f"{name[:OWNER_CHARACTERS]} ({show_amount(amount)}{remark})"] if amount else []
    return tuple(lines)


def _making_up(pods: Sequence[HeldPod], excess: Fraction, limit: str, weigh: Weigh) -> tuple[HeldPod, ...]:
    """The first pods that together are at least the excess."""
    chosen: list[HeldPod] = []
    for pod in pods:
        amount = amount_of(pod.counts, limit, weigh)
        if excess > 0 and amount:
            chosen.append(pod)
            excess -= amount
    return tuple(chosen)


def _is_over(quota: GPUQuota, ledger: Ledger, subject: str, weigh: Weigh) -> bool:
    """Whether the counted pods of a subject exceed a limit."""
    counts = ledger.used.get(subject, {})
    return any(amount_of(counts, limit, weigh) > hard for limit, hard in quota.hard.items())


def _fullness(quota: GPUQuota, counts: Counts, weigh: Weigh) -> Fraction:
    """The largest share of a limit that is held; a limit of nothing is full."""
    shares = (
        amount_of(counts, limit, weigh) / hard if hard else Fraction(1) for limit, hard in quota.hard.items()
    )
    return max(shares, default=Fraction(0))


def _unit(quota: GPUQuota, limit: str) -> str:
    """What a number counts, where there is more than one limit."""
    return f" {limit}" if len(quota.hard) > 1 else ""
