"""Decides about large objects in a thread of its own, one after the other; knows nothing of what is decided.

A workload with thousands of templates takes seconds. Whoever sends such ones must not have others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from webhook.reception import overloaded

T = TypeVar("T")
PATIENCE_SECONDS = 2.0
"""How long one may wait for its turn: then the API server has given it up."""


class Aside:
    """The thread's queue."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, which must be pure but for what it remembers.

        Raises:
            FailureError: there is no time for it now.
        """
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise overloaded() from None
        task = asyncio.ensure_future(asyncio.to_thread(work))
        # Nobody can end a thread: its turn lasts as long as it works, also if its sender goes away.
        task.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(task)
