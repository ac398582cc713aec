"""Jittered exponential back-off as a value. Knows nothing of what is tried again, and never waits itself."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Grows the pause between attempts from `first` to `limit` seconds; each is drawn from its upper half.

    `draw` returns a float in [0, 1); tests pass a constant.
    """

    def __init__(
        self, first: float = 0.5, limit: float = 60.0, draw: Callable[[], float] = random.random
    ) -> None:
        self._first = first
        self._limit = limit
        self._draw = draw
        self.failures = 0

    def next_pause(self) -> float:
        """Returns the seconds to wait after one more failure."""
        ceiling = min(self._limit, self._first * 2.0 ** min(self.failures, 32))
        self.failures += 1
        return ceiling * (0.5 + self._draw() / 2)

    def reset(self) -> None:
        """Starts again from the first pause; to be called on real progress, not on a mere connection."""
        self.failures = 0
