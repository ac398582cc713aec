"""Shorthand for rows of the tables: how each kind of metric is scaled and bounded; names no metric."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from reaper.sources import MIB, TEN_YEARS, Metric, Role

ROUNDING: Final = 1.05
"""Rounding in an exporter can lift a full ratio slightly above 1."""
MOST_BYTES: Final = 1e14
MOST_WATTS: Final = 5_000.0
MOST_COUNTED: Final = 1e18
SIGNALS: Final = {Role.MEMORY: "memory", Role.FREE: "memory-free", Role.LIMIT: "memory-limit"}


def percent(name: str, signal: str, principal: bool = False, role: Role = Role.ACTIVITY) -> Metric:
    """Activity in percent."""
    return Metric(name, signal, role, principal=principal)


def ratio(name: str, signal: str, principal: bool = False) -> Metric:
    """Activity from 0 to 1."""
    return Metric(name, signal, Role.ACTIVITY, scale=100.0, highest=ROUNDING, principal=principal)


def memory(name: str, role: Role = Role.MEMORY, scale: float = MIB) -> Metric:
    """Device memory, in units of `scale` bytes."""
    return Metric(name, SIGNALS[role], role, scale=scale, highest=MOST_BYTES / scale, unit="B")


def counted(name: str, signal: str, role: Role, where: tuple[tuple[str, str], ...] = ()) -> Metric:
    """A code or a counter without a unit, which only vetoes."""
    return Metric(name, signal, role, highest=MOST_COUNTED, unit="", where=where)


def watts(name: str) -> Metric:
    """The power of the board."""
    return Metric(name, "power", Role.POWER, highest=MOST_WATTS, unit="W")


def kernel(name: str) -> Metric:
    """Seconds since the last kernel."""
    return Metric(name, "last-kernel", Role.KERNEL, highest=TEN_YEARS, unit="s")


def summed(name: str, signal: str, role: Role = Role.ACTIVITY) -> Metric:
    """Percent, summed over processes, so that several exceed 100 together; it may prove idleness."""
    return Metric(name, signal, role, highest=10_000.0, principal=True)


def given(name: str, signal: str, role: Role, scale: float = 1.0) -> Metric:
    """Bytes that tell by being there: of a share that was given out, or of a process."""
    return Metric(name, signal, role, scale=scale, highest=MOST_BYTES / scale, unit="B")


def prefixed(metrics: Iterable[Metric], prefix: str) -> tuple[Metric, ...]:
    """The same rows of an exporter that was told to begin its names so."""
    return tuple(replace(one, name=prefix + one.name) for one in metrics)
