"""Runs cycles at their times until told to stop; must not know what a cycle does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from reaper import metrics
from reaper.cycle import CycleResult
from runtime.clock import Clock, Sleep

log = structlog.get_logger(__name__)

EARLIEST = 1 / 6
"""The share of the time between two cycles that passes in any case, however often somebody wakes the loop."""


class Loop:
    """The cycles of one leadership, and how they went.

    Attributes:
        last_ended: Monotonic seconds at the end of the last cycle that did not fail; None before the first.
    """

    def __init__(
        self,
        cycle: Callable[[datetime | None], Awaitable[CycleResult]],
        *,
        clock: Clock,
        seconds: float,
        quiet_seconds: float,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.last_ended: float | None = None
        self._cycle = cycle
        self._clock = clock
        self._seconds = seconds
        self._quiet_seconds = quiet_seconds
        self._sleep = sleep
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Runs for ever; each leadership calls it anew and so begins with the quiet time."""
        quiet_until = self._clock.now() + timedelta(seconds=self._quiet_seconds)
        while True:
            began = self._clock.monotonic()
            self._woken.clear()
            await self.once(quiet_until)
            # Who woke it meanwhile gets another cycle: this one may have looked before.
            await self._rest(began)

    def wake(self) -> None:
        """Brings the next cycle forward, though not without bounds: it does what it always does, sooner."""
        self._woken.set()

    async def _rest(self, began: float) -> None:
        left = self._seconds - (self._clock.monotonic() - began)
        woken = asyncio.ensure_future(self._woken.wait())
        rested = asyncio.ensure_future(self._sleep(max(left, self._seconds / 10)))
        try:
            await asyncio.wait({woken, rested}, return_when=asyncio.FIRST_COMPLETED)
            if rested.done():
                await rested
            else:
                await self._sleep(max(0, self._seconds * EARLIEST - (self._clock.monotonic() - began)))
        finally:
            woken.cancel()
            rested.cancel()

    async def once(self, quiet_until: datetime | None) -> CycleResult | None:
        """Runs one cycle and measures it; None if it failed, which is logged, counted and ends nothing."""
        began = self._clock.monotonic()
        try:
            result = await self._cycle(quiet_until)
        except Exception:
            log.exception("cycle failed")
            metrics.CYCLES.labels("failed").inc()
            return None
        finally:
            metrics.CYCLE_SECONDS.observe(self._clock.monotonic() - began)
        self.last_ended = self._clock.monotonic()
        return result

    def stalled(self, limit_seconds: float, started: float) -> str | None:
        """Gives a sentence if no cycle has ended for too long while this process leads."""
        since = self._clock.monotonic() - (self.last_ended if self.last_ended is not None else started)
        return f"no cycle has ended for {since:.0f} s" if since > limit_seconds else None
