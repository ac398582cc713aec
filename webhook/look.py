"""Something read from the API server that may be of a certain age at most; read again when it is asked for.

Nobody asks, nothing is read. Must not know what is read.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from runtime.clock import Clock
from runtime.kube import ApiError, ApiUnreachable

T = TypeVar("T")
LOOK_SECONDS = 2.0
"""How long anybody waits for a look; then another may begin, since the first may never be answered."""
LATE_SECONDS = 15.0
"""How long an answer may take: a late one still says that somebody is there."""
EARLY = 3
"""From this part of the limit on a look begins that nobody waits for."""
log = structlog.get_logger(__name__)


class Look(Generic[T]):
    """A value with the time it is known to be of; whoever finds it too old waits for one look, all together.

    `read` gets it and raises ApiError or ApiUnreachable; `limit` is the greatest age in seconds.
    """

    def __init__(self, name: str, read: Callable[[], Awaitable[T]], clock: Clock, limit: float) -> None:
        self.known: T | None = None
        self.problem: str | None = None
        self._name = name
        self._read = read
        self._clock = clock
        self._limit = limit
        self._since = -math.inf
        self._begun = -math.inf
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def age(self) -> float:
        """Returns the seconds since the last successful look began; inf before."""
        return self._clock.monotonic() - self._since

    async def value(self) -> T | None:
        """Returns what is known, if need be after a look; None if it cannot be read in time."""
        age = self.age()
        if age * EARLY <= self._limit:
            return self.known
        if age > self._limit:
            done, _ = await asyncio.wait({self._latest()}, timeout=LOOK_SECONDS)
            if not done:
                self._fail("no answer in time")
        else:
            self._latest()
        return self.known if self.age() <= self._limit else None

    def _latest(self) -> asyncio.Task[None]:
        """The present look, begun now if there is none that may be answered in time."""
        now, task = self._clock.monotonic(), self._task
        if task is None or task.done() or now - self._begun >= LOOK_SECONDS:
            self._begun = now
            task = self._task = asyncio.create_task(self._look(now), name=f"look at {self._name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return task

    async def _look(self, begun: float) -> None:
        """Reads; what comes counts as of `begun`, the moment before the request, unless newer is known."""
        try:
            async with asyncio.timeout(LATE_SECONDS):
                found = await self._read()
        except (ApiError, ApiUnreachable, TimeoutError) as error:
            self._fail(str(error) or "no answer in time")
            return
        if begun >= self._since:
            self.known, self._since = found, begun
        self.problem = None

    def _fail(self, problem: str) -> None:
        """Remembers what is wrong, and says it once."""
        if problem != self.problem:
            log.warning("not read", what=self._name, error=problem)
        self.problem = problem
