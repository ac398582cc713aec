"""Waiting with a deadline; does not know what is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from runtime.clock import SystemClock

T = TypeVar("T")
POLL_SECONDS = 0.05
_CLOCK = SystemClock()


def monotonic() -> float:
    """Seconds of a clock that never goes back; only differences mean something."""
    return _CLOCK.monotonic()


def utc_now() -> datetime:
    """The time of day, aware, in UTC."""
    return _CLOCK.now()


def wall_clock() -> float:
    """Seconds since 1970, UTC."""
    return _CLOCK.now().timestamp()


def wait(predicate: Callable[[], T | None], timeout: float, what: str, poll: float = POLL_SECONDS) -> T:
    """Gives the first true value of the predicate; TimeoutError names what did not come in time."""
    end = monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if monotonic() > end:
            msg = f"not within {timeout:g} s: {what}"
            raise TimeoutError(msg)
        time.sleep(poll)
