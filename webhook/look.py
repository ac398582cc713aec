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
"""How long a look may take; nobody waits for longer."""
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
        self._task: asyncio.Task[None] | None = None

    def age(self) -> float:
        """Returns the seconds since the last successful look began; inf before."""
        return self._clock.monotonic() - self._since

    async def value(self) -> T | None:
        """Returns what is known, if need be after a look; None if it cannot be read in time."""
        age = self.age()
        if age * EARLY <= self._limit:
            return self.known
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look(), name=f"look at {self._name}")
        if age > self._limit:
            await asyncio.wait({self._task})
        return self.known if self.age() <= self._limit else None

    async def _look(self) -> None:
        begun = self._clock.monotonic()
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                self.known = await self._read()
        except (ApiError, ApiUnreachable, TimeoutError) as error:
            problem = str(error) or "no answer in time"
            if problem != self.problem:
                log.warning("not read", what=self._name, error=problem)
            self.problem = problem
            return
        # Before the request: that is the moment that the answer is known to be true of.
        self._since = begun
        self.problem = None
