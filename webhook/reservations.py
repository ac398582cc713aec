"""Writes reservations into the ledgers of quotas: batched, by compare-and-swap, tried again until a deadline.

This side only adds, and takes back only what the same review added. It must not know what a review is.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from msgspec import Struct

from policy.durations import format_time
from policy.ledger import (
    MOST_RESERVATIONS,
    Ask,
    Fits,
    Ledger,
    NotYet,
    Short,
    Weigh,
    judge_ask,
    release,
    reserve,
)
from policy.revisions import revision
from runtime.backoff import Backoff
from runtime.clock import Clock, Sleep
from runtime.kube import ApiError, ApiUnreachable, KubePort
from runtime.quotas import StoredQuota, fetch_quota, write_ledger
from webhook.quota_metrics import QuotaMetrics

REQUEST_SECONDS = 2.0
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5
DOUBT_SECONDS = 30.0
DOUBT_PAUSE_SECONDS = 1.0
"""For so long it is looked so often whether a write without an answer came through all the same."""
CONTENTION = "too many pods are created at once under GPUQuota {}, or the API server is slow"
log = structlog.get_logger(__name__)


class Taken(Struct, frozen=True):
    """The pod is in the ledger. `added`: by this wish; `fits` is how full the quota is with it.

    `short` is set if it went in although it does not fit.
    """

    added: bool
    fits: Fits | None = None
    short: Short | None = None


class Gone(Struct, frozen=True):
    """The quota has been deleted: there is nothing to keep to."""


Result = Taken | Short | NotYet | Gone


@dataclass
class _Wish:
    """One pod that wants in, or out; `until` is in monotonic seconds."""

    ask: Ask
    until: float
    forced: bool
    back: bool
    answer: asyncio.Future[Result] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    # Set once a write that adds it was sent: what then is there already is by this very wish.
    sent: bool = False


class Desk:
    """The one writer of this process for one quota; everything that waits goes into the next write."""

    def __init__(
        self,
        client: KubePort,
        known: Callable[[], StoredQuota | None],
        weigh: Weigh,
        clock: Clock,
        metrics: QuotaMetrics,
        *,
        sleep: Sleep = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._known = known
        self._weigh = weigh
        self._clock = clock
        self._metrics = metrics
        self._sleep = sleep
        self._draw = draw
        self._own: StoredQuota | None = None
        self._wishes: list[_Wish] = []
        self._work: asyncio.Task[None] | None = None
        self._doubts: dict[str, tuple[Ask, float]] = {}
        self._doubting: asyncio.Task[None] | None = None

    async def take(self, ask: Ask, seconds: float, *, forced: bool = False) -> Result:
        """Reserves for a pod within `seconds`; `forced` also if it does not fit.

        What may have been written although nobody could say so in time is taken back later: such a pod is
        refused, and comes again under another UID. Where it is `forced`, it is let in all the same.
        """
        wish = _Wish(ask, self._clock.monotonic() + seconds, forced, back=False)
        result = await self._wish(wish)
        if isinstance(result, NotYet) and wish.sent and not forced:
            self._doubt(ask)
        return result

    async def give_back(self, ask: Ask, seconds: float) -> None:
        """Takes a reservation out again; what cannot be written in time is left to expire."""
        await self._wish(_Wish(ask, self._clock.monotonic() + seconds, forced=False, back=True))

    def latest(self) -> StoredQuota | None:
        """The quota as the watch or the own last write has it, whichever is newer."""
        watched, own = self._known(), self._own
        if watched is None or own is None or own.quota.uid != watched.quota.uid:
            return watched
        return own if revision(own.version) > revision(watched.version) else watched

    async def _wish(self, wish: _Wish) -> Result:
        self._wishes.append(wish)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._serve(), name="write reservations")
        try:
            # A request that hangs must not make anybody wait beyond the time that was given.
            async with asyncio.timeout(wish.until - self._clock.monotonic()):
                return await wish.answer
        except TimeoutError:
            self._wishes = [one for one in self._wishes if one is not wish]
            return NotYet(CONTENTION.format(self._quota_name()))

    def _quota_name(self) -> str:
        known = self.latest()
        return known.name if known is not None else ""

    async def _serve(self) -> None:
        """Works until nobody waits any more."""
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, self._draw)
        base = self.latest()
        try:
            while self._wishes:
                self._expire()
                if base is None:
                    self._answer_all(Gone())
                elif await self._write(base):
                    backoff.reset()
                    base = self.latest()
                else:
                    await self._sleep(backoff.next_pause())
                    base = await self._reread(base)
        except BaseException:
            # Nobody may wait for an answer that never comes.
            self._answer_all(NotYet("reserving failed; see the webhook's log"))
            raise

    async def _write(self, base: StoredQuota) -> bool:
        """Decides about everything that waits; returns whether it is decided, and False to try again."""
        wishes = tuple(self._wishes)
        ledger, results = _decide(base, wishes, self._weigh, self._clock.now())
        if ledger is not base.ledger:
            self._metrics.wrote()
            for wish in wishes:
                wish.sent = wish.sent or wish.ask.uid not in base.ledger.reservations
            try:
                self._own = await write_ledger(self._client, base, ledger, REQUEST_SECONDS)
            except (ApiError, ApiUnreachable) as error:
                self._failed(base, error)
                return False
        self._answer(list(zip(wishes, results, strict=True)))
        return True

    async def _reread(self, base: StoredQuota) -> StoredQuota | None:
        """The quota as it is now; what was known before if it cannot be read."""
        try:
            self._own = await fetch_quota(self._client, base.name, REQUEST_SECONDS)
        except (ApiError, ApiUnreachable) as error:
            self._failed(base, error)
            return base
        return self._own

    def _doubt(self, ask: Ask) -> None:
        """Begins to look whether a reservation is there that nobody waits for any more."""
        self._doubts[ask.uid] = ask, self._clock.monotonic() + DOUBT_SECONDS
        if self._doubting is None or self._doubting.done():
            self._doubting = asyncio.create_task(self._end_doubts(), name="take back lost reservations")

    async def _end_doubts(self) -> None:
        """Takes back what turns up, until it cannot any more; the rest is left to expire."""
        while self._doubts:
            await self._sleep(DOUBT_PAUSE_SECONDS)
            try:
                found = await fetch_quota(self._client, self._quota_name(), REQUEST_SECONDS)
            except (ApiError, ApiUnreachable):
                found = None
            if found is not None:
                if self._own is None or revision(found.version) > revision(self._own.version):
                    self._own = found
                there = [one for uid, (one, _) in self._doubts.items() if uid in found.ledger.reservations]
                await asyncio.gather(*(self.give_back(one, REQUEST_SECONDS) for one in there))
            now = self._clock.monotonic()
            self._doubts = {uid: doubt for uid, doubt in self._doubts.items() if now < doubt[1]}

    def _failed(self, base: StoredQuota, error: ApiError | ApiUnreachable) -> None:
        if isinstance(error, ApiError) and error.status in (404, 409):
            self._metrics.conflicted()
            return
        self._metrics.failed()
        log.warning("reservation not written", quota=base.name, error=str(error))

    def _expire(self) -> None:
        now, why = self._clock.monotonic(), CONTENTION.format(self._quota_name())
        self._answer([(wish, NotYet(why)) for wish in self._wishes if wish.until <= now])

    def _answer(self, results: list[tuple[_Wish, Result]]) -> None:
        answered = {id(wish) for wish, _ in results}
        self._wishes = [wish for wish in self._wishes if id(wish) not in answered]
        for wish, result in results:
            if not wish.answer.done():
                wish.answer.set_result(result)

    def _answer_all(self, result: Result) -> None:
        self._answer([(wish, result) for wish in self._wishes])


class Desks:
    """A desk for each quota that anybody asked for."""

    def __init__(self, make: Callable[[str], Desk]) -> None:
        self._make = make
        self._desks: dict[str, Desk] = {}

    def at(self, quota: str) -> Desk:
        """The desk of a quota."""
        desk = self._desks.get(quota)
        if desk is None:
            desk = self._desks[quota] = self._make(quota)
        return desk


def _decide(
    base: StoredQuota, wishes: tuple[_Wish, ...], weigh: Weigh, now: datetime
) -> tuple[Ledger, list[Result]]:
    """What becomes of each wish, in their order, and the ledger that says so."""
    ledger, results, at = base.ledger, list[Result](), format_time(now)
    for wish in wishes:
        if wish.back:
            ledger = release(ledger, [wish.ask.uid])
            results.append(Gone())
            continue
        judged = judge_ask(base.quota, ledger, wish.ask, weigh)
        forced = wish.forced and isinstance(judged, Short) and len(ledger.reservations) < MOST_RESERVATIONS
        if isinstance(judged, Fits) or forced:
            known = wish.ask.uid in ledger.reservations
            ledger = reserve(base.quota, ledger, wish.ask, at)
            fits, short = (judged, None) if isinstance(judged, Fits) else (None, judged)
            results.append(Taken(not known or wish.sent, fits, short if isinstance(short, Short) else None))
        else:
            results.append(judged)
    return ledger, results
