"""What the simulated devices really did, and which evictions that forbids: pure; asks nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

AFTER_SECONDS = 30.0
"""How long a pod of the soak must be idle."""

EDGE_SECONDS = 2.0
"""A sample at the very start of the window may or may not be in it."""

SLACK_SECONDS = 8.0
"""How late an eviction may come after the last look: missing samples, a scrape, a slow machine."""


@dataclass
class Life:
    """One pod from its creation to its end.

    Attributes:
        namespace: Its namespace, and
        name: its name, which others may have had before and may have after it.
        uid: Its UID.
        created: When its creation was asked for, unix seconds.
        spans: From which times on it may be evicted or may not, oldest first.
        removed: When the soak itself deleted it; None if it did not.
    """

    namespace: str
    name: str
    uid: str
    created: float
    spans: list[tuple[float, bool]] = field(default_factory=list)
    removed: float | None = None

    def turn(self, at: float, *, idle: bool) -> None:
        """Notes that its devices are idle, or that it must stay, from a time on."""
        self.spans.append((at, idle))

    @property
    def idle(self) -> bool:
        """Whether its devices are idle now."""
        return bool(self.spans) and self.spans[-1][1]

    def idle_throughout(self, start: float, end: float) -> bool:
        """Whether it may be evicted for what it did between two times."""
        ends = [at for at, _ in self.spans[1:]] + [float("inf")]
        touched = [
            idle for (at, idle), until in zip(self.spans, ends, strict=True) if at < end and until > start
        ]
        return bool(touched) and all(touched)


@dataclass(frozen=True)
class Eviction:
    """An accepted eviction: namespace, name and, where it is known, UID; when, in unix seconds."""

    namespace: str
    name: str
    at: float
    uid: str = ""


def life_of(lives: Iterable[Life], eviction: Eviction) -> Life | None:
    """Gives whose eviction it was: of that UID, or else the youngest of that name at that time."""
    named = [one for one in lives if (one.namespace, one.name) == (eviction.namespace, eviction.name)]
    if eviction.uid:
        return next((one for one in named if one.uid == eviction.uid), None)
    alive = [one for one in named if one.created <= eviction.at]
    return max(alive, key=lambda one: one.created, default=None)


def wrongs(
    lives: Sequence[Life],
    evictions: Sequence[Eviction],
    recorded: Sequence[str],
    living: Collection[str],
) -> list[str]:
    """Says what must not have happened, a sentence each.

    Args:
        lives: Every pod that ever was there.
        evictions: Every eviction that the API server accepted.
        recorded: The UIDs of all records of actions that were, or may have been, accepted.
        living: The UIDs of the pods that are there at the end.
    """
    found: list[str] = []
    counted: Counter[str] = Counter()
    for eviction in evictions:
        life = life_of(lives, eviction)
        if life is None:
            found.append(f"{eviction.namespace}/{eviction.name} was evicted and is no pod of the soak")
            continue
        counted[life.uid] += 1
        found += _hasty(life, eviction)
    for life in lives:
        found += _odd_end(life, counted[life.uid], recorded.count(life.uid), life.uid in living)
    return found


def _hasty(life: Life, eviction: Eviction) -> list[str]:
    who = f"{life.namespace}/{life.name} ({life.uid})"
    if eviction.at < life.created + AFTER_SECONDS:
        return [f"{who} was evicted {eviction.at - life.created:.1f} s after its creation"]
    start, end = eviction.at - AFTER_SECONDS + EDGE_SECONDS, eviction.at - SLACK_SECONDS
    if life.idle_throughout(start, end):
        return []
    spans = ", ".join(
        f"{'idle' if idle else 'in use'} {eviction.at - at:.1f} s before" for at, idle in life.spans
    )
    return [f"{who} was evicted although it was in use: {spans}"]


def _odd_end(life: Life, evicted: int, recorded: int, alive: bool) -> list[str]:
    who = f"{life.namespace}/{life.name} ({life.uid})"
    found = []
    if evicted > 1:
        found.append(f"{who} was evicted {evicted} times")
    if recorded > 1:
        found.append(f"{who} has {recorded} records")
    if evicted and not recorded:
        found.append(f"{who} was evicted without a record")
    if not alive and not evicted and not recorded and life.removed is None:
        found.append(f"{who} is gone and nobody evicted it")
    return found
