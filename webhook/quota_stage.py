"""The last check of a pod: does it fit into its GPUQuotas? If so it is in their ledgers before it is let in.

Only pods in namespaces that a quota selects reserve. Whether one does must be known for certain where quotas
are enforced: who cannot tell asks clients to come again, and lets nobody past a quota that may be new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from policy.ledger import Ask, Counts, Judgement, NotYet, Short, Weigh, concerns, folded, judge_ask
from policy.profile import is_enforcing
from policy.requester import requester_of
from policy.resourcequota import Room
from runtime.clock import Clock
from runtime.kube import KubePort
from runtime.quotas import StoredQuota
from webhook import quota_words
from webhook.answers import TOO_MANY_REQUESTS, Denied, try_again
from webhook.quota_metrics import QuotaMetrics, QuotaOutcome
from webhook.quotas import SETTLE_SECONDS, Labels, QuotaBook
from webhook.reservations import Desk, Desks, Result, Taken
from webhook.stages import PASSED, Checked, Finding, Stage

ENFORCING_SECONDS = 3.5
"""How long a pod may wait for its reservation: with what comes before, below the API server's limit, 5 s."""
WARNING_SECONDS = 1.0
GIVE_BACK_SECONDS = 2.0
LONGEST_UID = 128
LONGEST_NAME = 253
NEARLY_FULL = Fraction(9, 10)
Rooms = Callable[[str], Sequence[Room]]
"""What the ResourceQuotas of a namespace leave."""


class QuotaStage:
    """The stage, over what is known of quotas and the desks that write to them."""

    def __init__(
        self, book: QuotaBook, desks: Desks, rooms: Rooms, weigh: Weigh, metrics: QuotaMetrics, clock: Clock
    ) -> None:
        self._book = book
        self._desks = desks
        self._rooms = rooms
        self._weigh = weigh
        self._metrics = metrics
        self._clock = clock
        self._backs: set[asyncio.Task[None]] = set()

    async def __call__(self, checked: Checked) -> Finding:
        """Reserves for the pod in every quota that it is under, or refuses it."""
        request, scene = checked.subject.request, checked.subject.scene
        enforcing = is_enforcing(scene.profile, scene.enforcement)
        until = self._clock.monotonic() + ENFORCING_SECONDS
        if not self._book.synced:
            later = try_again("GPUQuotas have not been read yet")
            return self._finding(QuotaOutcome.LATER, later) if enforcing else PASSED
        labels: list[Labels | None] = [checked.subject.namespace.metadata.labels]
        if enforcing:
            heard = await self._book.heard(request.namespace)
            if heard is None:
                return self._finding(QuotaOutcome.STALE, try_again(quota_words.UNHEARD))
            labels.append(heard)
        charges = checked.subject.devices.charges
        quotas, counts = _concerned(self._book.covering(request.namespace, *labels), charges, self._weigh)
        if not quotas:
            return PASSED if enforcing else self._unheard()
        for room in self._rooms(request.namespace):
            asked = charges.get(room.resource, 0)
            if asked > room.left:
                return self._finding(QuotaOutcome.RESOURCE_QUOTA, quota_words.refused_by_room(room, asked))
        ask = _ask(checked, counts)
        if request.dry_run:
            return self._look(checked, quotas, ask)
        return await (self._take(checked, quotas, ask, until) if enforcing else self._note(quotas, ask))

    def _unheard(self) -> Finding:
        """What there is to say of a pod that no known quota is about, where nothing is refused."""
        unheard = self._book.unheard()
        return PASSED if unheard is None else Finding(remarks=(quota_words.would_wait(unheard),))

    async def _take(self, checked: Checked, quotas: Sequence[StoredQuota], ask: Ask, until: float) -> Finding:
        """Reserves in the order of names; what was taken is given back when a later quota refuses."""
        taken: list[Desk] = []
        remarks: list[str] = []
        for stored in quotas:
            desk = self._desks.at(stored.name)
            result: Result | Denied
            if stored.problem is not None:
                result = quota_words.broken(stored.name, stored.problem)
            else:
                result = await desk.take(ask, until - self._clock.monotonic())
            refusal = _refusal_of(stored.name, result, checked)
            if refusal is not None:
                self._give_back(taken, ask)
                return self._finding(_outcome_of(refusal), refusal)
            if isinstance(result, Taken):
                taken += [desk] if result.added else []
                remarks += _remarks(stored.name, result, ask)
        self._metrics.decided(QuotaOutcome.RESERVED if taken else QuotaOutcome.KNOWN)
        return Finding(remarks=tuple(remarks))

    async def _note(self, quotas: Sequence[StoredQuota], ask: Ask) -> Finding:
        """Where nothing is refused the pod counts all the same, and its creator is told."""
        until = self._clock.monotonic() + WARNING_SECONDS
        remarks: list[str] = []
        noted = False
        for stored in quotas:
            if stored.problem is not None:
                continue
            left = until - self._clock.monotonic()
            result = await self._desks.at(stored.name).take(ask, left, forced=True)
            if isinstance(result, Taken):
                noted = noted or result.added
                remarks += _remarks(stored.name, result, ask)
        self._metrics.decided(QuotaOutcome.RESERVED if noted else QuotaOutcome.KNOWN)
        return Finding(remarks=tuple(remarks))

    def _look(self, checked: Checked, quotas: Sequence[StoredQuota], ask: Ask) -> Finding:
        """The same answer for a dry run, from what is known, without a trace."""
        latest = [self._desks.at(stored.name).latest() or stored for stored in quotas]
        self._metrics.decided(QuotaOutcome.LOOKED)
        return Finding(refusal=_first_refusal(latest, checked, ask, self._weigh))

    def _give_back(self, taken: Sequence[Desk], ask: Ask) -> None:
        """Begins to take back what this review added; the refusal need not wait for it."""
        for desk in taken:
            task = asyncio.create_task(desk.give_back(ask, GIVE_BACK_SECONDS), name="give back")
            self._backs.add(task)
            task.add_done_callback(self._backs.discard)

    def _finding(self, outcome: QuotaOutcome, refusal: Denied) -> Finding:
        self._metrics.decided(outcome)
        return Finding(refusal=refusal)


def build_quota_stage(
    client: KubePort,
    clock: Clock,
    rooms: Rooms,
    weigh: Weigh,
    metrics: QuotaMetrics,
    settle_seconds: float = SETTLE_SECONDS,
) -> tuple[QuotaBook, QuotaStage]:
    """The stage with all that it needs; the book must be run for it to know anything."""
    book = QuotaBook(client, clock=clock, settle_seconds=settle_seconds)
    desks = Desks(lambda name: Desk(client, partial(book.get, name), weigh, clock, metrics))
    return book, QuotaStage(book, desks, rooms, weigh, metrics, clock)


def known_quotas_stage(quotas: Sequence[StoredQuota], weigh: Weigh) -> Stage:
    """The check against quotas that are given, by name, without a cluster; nothing is reserved."""

    async def check(checked: Checked) -> Finding:
        some, counts = _concerned(quotas, checked.subject.devices.charges, weigh)
        return Finding(refusal=_first_refusal(some, checked, _ask(checked, counts), weigh))

    return check


def _concerned(
    quotas: Sequence[StoredQuota], charges: Counts, weigh: Weigh
) -> tuple[list[StoredQuota], dict[str, int]]:
    """The quotas that have a say, one that cannot be read included, and what the pod is for them."""
    counts = folded(charges, {limit for stored in quotas for limit in stored.quota.hard}, weigh)
    return [one for one in quotas if one.problem is not None or concerns(one.quota, counts, weigh)], counts


def _first_refusal(quotas: Sequence[StoredQuota], checked: Checked, ask: Ask, weigh: Weigh) -> Denied | None:
    """The refusal of the first quota that does not let the pod pass."""
    for stored in quotas:
        if stored.problem is not None:
            return quota_words.broken(stored.name, stored.problem)
        judged = judge_ask(stored.quota, stored.ledger, ask, weigh)
        refusal = _refusal_of(stored.name, judged, checked)
        if refusal is not None:
            return refusal
    return None


def _ask(checked: Checked, counts: dict[str, int]) -> Ask:
    """What the pod asks; a real one has a UID when it comes here.

    Only forged reviews have longer names and UIDs: they must not spoil the write that they share with others.
    """
    metadata, request = checked.pod.metadata, checked.subject.request
    name = metadata.name or f"{metadata.generate_name or ''}*"
    requester = requester_of(metadata.annotations)
    uid = metadata.uid or request.uid
    return Ask(uid[:LONGEST_UID], request.namespace, name[:LONGEST_NAME], requester, counts)


def _outcome_of(refusal: Denied) -> QuotaOutcome:
    """How a refusal is counted."""
    again = refusal.code == TOO_MANY_REQUESTS
    return QuotaOutcome.LATER if again else QuotaOutcome.OVER


def _remarks(quota: str, taken: Taken, ask: Ask) -> list[str]:
    """What to say to somebody whose pod is let in."""
    if taken.short is not None:
        return [quota_words.over(quota, taken.short, ask)]
    if taken.fits is not None and taken.fits.fullness >= NEARLY_FULL:
        return [quota_words.nearly_full(quota, taken.fits)]
    return []


def _refusal_of(quota: str, result: Result | Judgement | Denied, checked: Checked) -> Denied | None:
    """The refusal for what a quota answered; None if it let the pod pass."""
    if isinstance(result, Denied):
        return result
    if isinstance(result, Short):
        return quota_words.refused(quota, result, checked.decision.controller)
    return try_again(result.why) if isinstance(result, NotYet) else None
