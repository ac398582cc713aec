"""From samples of pod creations to medians and verdicts on targets; pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

import msgspec

from bench.doors import MUTATED, NO_WEBHOOK, OTHER, Door

PACE_PER_SECOND = 50


class Creation(msgspec.Struct, frozen=True, rename="camel"):
    """What was measured of one door in one round."""

    creations: int
    seconds: float
    p50_seconds: float
    p99_seconds: float

    @property
    def per_second(self) -> float:
        """How many pods a second were created."""
        return self.creations / self.seconds


class Creations(msgspec.Struct, frozen=True):
    """One door's samples, one per round: at a steady pace, and as fast as it went."""

    paced: list[Creation]
    closed: list[Creation]


class CreationFigures(msgspec.Struct, frozen=True, rename="camel"):
    """One door: medians over the rounds. What is added, is added to no webhook within the same round."""

    door: str
    p50_seconds: float
    p99_seconds: float
    added_p50_seconds: float
    creations_per_second: float
    rounds: int


class CreationTargets(msgspec.Struct, frozen=True, rename="camel"):
    """Ours beside the other's, a mutating webhook each, as medians over the rounds.

    `added_p50_seconds` is what ours adds less what the other adds, to be at most 0; `per_second` how many
    times as many pods a second ours lets through, to be at least 1.
    """

    added_p50_seconds: float
    per_second: float

    @property
    def is_quicker(self) -> bool:
        """Whether ours adds no more than the other."""
        return self.added_p50_seconds <= 0

    @property
    def lets_more_through(self) -> bool:
        """Whether at least as many pods a second are created with ours."""
        return self.per_second >= 1


def summarize_creations(found: Mapping[str, Creations]) -> tuple[CreationFigures, ...]:
    """Gives the medians of every door."""
    return tuple(
        CreationFigures(
            name,
            median(one.p50_seconds for one in creations.paced),
            median(one.p99_seconds for one in creations.paced),
            _less_p50(found, name, NO_WEBHOOK.name),
            median(one.per_second for one in creations.closed),
            len(creations.paced),
        )
        for name, creations in found.items()
    )


def compare_creations(
    found: Mapping[str, Creations], ours: Door = MUTATED, other: Door = OTHER
) -> CreationTargets:
    """Compares two doors round by round, so that what slows the machine down for a while slows both."""
    return CreationTargets(
        _less_p50(found, ours.name, other.name),
        median(
            one.per_second / another.per_second
            for one, another in zip(found[ours.name].closed, found[other.name].closed, strict=True)
        ),
    )


def _less_p50(found: Mapping[str, Creations], name: str, other: str) -> float:
    """How many seconds more one door's median takes than another's, within each round."""
    pairs = zip(found[name].paced, found[other].paced, strict=True)
    return median(one.p50_seconds - another.p50_seconds for one, another in pairs)
