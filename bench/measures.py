"""One figure beside its limit and its comparator, as a value; and the CPU that it is taken from."""

from __future__ import annotations

import resource

import msgspec


class Measure(msgspec.Struct, frozen=True, rename="camel", kw_only=False):
    """One figure of one run.

    Attributes:
        what: What was measured.
        ours: The figure.
        unit: `s`, `µs`, `MB`, or empty for a number.
        limit: What it must stay below; None if it is only told.
        comparator: Whom it is compared with; empty for nobody.
        theirs: The comparator's figure in the same run.
    """

    what: str
    ours: float
    unit: str
    limit: float | None = None
    comparator: str = ""
    theirs: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether it stays below its limit; None if it has none."""
        return None if self.limit is None else self.ours < self.limit

    @property
    def ratio(self) -> float | None:
        """How many times as much the comparator takes; None without one."""
        return None if self.theirs is None or not self.ours else self.theirs / self.ours


def cpu_seconds() -> float:
    """Gives the CPU, user and system, that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_bytes() -> int:
    """Gives the largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
