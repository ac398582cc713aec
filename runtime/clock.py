"""The only place that reads a clock. Knows nothing of what the time is for."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)

Sleep = Callable[[float], Awaitable[object]]
"""Waits for a number of seconds; `asyncio.sleep` outside of tests."""


class Clock(Protocol):
    """What components take as their source of time."""

    def now(self) -> datetime:
        """Returns the wall-clock time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Returns seconds since an arbitrary moment, never going back; only differences mean anything."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Returns the wall-clock time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Returns seconds since an arbitrary moment, never going back; time suspended counts where it can."""
        return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)
