"""Whether a process' memory grows: pure, over samples of its resident size; reads no process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

SETTLED_SECONDS = 180.0
"""A process fills its caches and pools at first, and meets each kind of fault for the first time."""

JUDGED_SECONDS = 300.0
"""Below so long a time a slope says nothing: who takes over the lead fills once more, by some 5 MB."""

GROWTH_LIMIT = 1_000_000.0
"""Bytes a minute; at two seconds a cycle 33 kB each."""


@dataclass
class Growth:
    """The resident memory of one process: samples of seconds since its start and bytes."""

    name: str
    samples: list[tuple[float, int]] = field(default_factory=list)

    @property
    def settled(self) -> list[tuple[float, int]]:
        """The samples after the first filling."""
        return [one for one in self.samples if one[0] >= SETTLED_SECONDS]

    @property
    def per_minute(self) -> float | None:
        """By how many bytes a minute it grows; None if it has not lived for long enough."""
        settled = self.settled
        if not settled or settled[-1][0] - settled[0][0] < JUDGED_SECONDS:
            return None
        return slope(settled) * 60

    @property
    def flat(self) -> bool:
        """False if it has lived for long and grows."""
        found = self.per_minute
        return found is None or found <= GROWTH_LIMIT


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line nearest to the samples (least squares); 0 for fewer than two."""
    middle = fmean(at for at, _ in samples) if samples else 0.0
    level = fmean(value for _, value in samples) if samples else 0.0
    spread = sum((at - middle) ** 2 for at, _ in samples)
    return sum((at - middle) * (value - level) for at, value in samples) / spread if spread else 0.0
