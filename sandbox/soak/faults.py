"""The faults of a soak as data, and when they come: pure, from a seed; breaks nothing itself."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What goes wrong."""

    API_KILLED = "API server killed"
    API_FROZEN = "API server frozen"
    API_GARBAGE = "API server garbage for the leader"
    PROMETHEUS_KILLED = "Prometheus killed"
    PROMETHEUS_FROZEN = "Prometheus frozen"
    LEADER_KILLED = "leader killed"
    LEADER_STOPPED = "leader stopped"
    LEADER_FROZEN = "leader frozen"
    EXPORTER_KILLED = "exporter killed"
    EXPORTER_GARBAGE = "exporter garbage"
    BUSY_GARBAGE = "garbage from busy devices"
    RECREATED = "pods recreated"
    AWAKE = "idle pods wake up"


SECONDS: dict[Kind, tuple[float, float]] = {
    Kind.API_KILLED: (1, 8),
    Kind.API_FROZEN: (3, 14),
    Kind.API_GARBAGE: (4, 16),
    Kind.PROMETHEUS_KILLED: (1, 6),
    Kind.PROMETHEUS_FROZEN: (2, 10),
    Kind.LEADER_KILLED: (0, 0),
    Kind.LEADER_STOPPED: (0, 0),
    Kind.LEADER_FROZEN: (8, 22),
    Kind.EXPORTER_KILLED: (1, 6),
    Kind.EXPORTER_GARBAGE: (2, 10),
    Kind.BUSY_GARBAGE: (3, 20),
    Kind.RECREATED: (0, 0),
    Kind.AWAKE: (0, 0),
}
"""The shortest and the longest time that each lasts."""

ANSWERS = ("hang", "reset", "html", "status", "delay")
"""How a proxy before the API server misbehaves."""

SPOILT = ("html", "truncate", "rewrite", "reset")
"""How a proxy before the exporter does."""


@dataclass(frozen=True)
class Blow:
    """One fault.

    Attributes:
        pause: Seconds of peace before it.
        kind: What goes wrong.
        seconds: For how long.
        answer: How a proxy misbehaves, where one does.
    """

    pause: float
    kind: Kind
    seconds: float
    answer: str = ""


def blows(
    rng: random.Random, pause: tuple[float, float], kinds: Sequence[Kind] = tuple(Kind)
) -> Iterator[Blow]:
    """Gives faults without end: all kinds in a random order, then all in another one, and so on."""
    while True:
        for kind in rng.sample(list(kinds), len(kinds)):
            choices = {Kind.API_GARBAGE: ANSWERS, Kind.EXPORTER_GARBAGE: SPOILT}.get(kind, ("",))
            yield Blow(rng.uniform(*pause), kind, rng.uniform(*SECONDS[kind]), rng.choice(choices))
