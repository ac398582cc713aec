"""Sums of a backtest, and what they advise; must not know how anything was found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from policy.counting import counted
from policy.verdicts import Reason, VerdictKind
from reaper.subjects import Subject

HOUR = 3600.0
UNKNOWN_SHARE = 0.10
REGRET_SHARE = 0.01
ACTIVE_SHARE = 0.20
FEW = 20
"""Fewer warnings than this are too few to promise a share."""


class Tally(Struct):
    """What came of some pods, in device-seconds and in counts.

    Attributes:
        held_seconds: All devices of pods that were judged, or not yet old enough to be.
        idle_seconds: Of pods that were Idle.
        unknown_seconds: Of pods that were Unknown although their metrics should be there.
        unknown: The same by reason.
        warned: Pods that were warned,
        active_after_warning: and that were Active before anything was done.
        taken: Pods that were taken,
        taken_devices: with so many devices,
        regretted: and whose devices were in truth used again within an hour.
        reclaimed_seconds: How long devices that were taken were in truth held without use.
    """

    held_seconds: float = 0.0
    idle_seconds: float = 0.0
    unknown_seconds: float = 0.0
    unknown: Counter[str] = field(default_factory=Counter)
    warned: int = 0
    active_after_warning: int = 0
    taken: int = 0
    taken_devices: int = 0
    regretted: int = 0
    reclaimed_seconds: float = 0.0

    def judged(self, subject: Subject, seconds: float) -> None:
        """Adds one pod at one moment."""
        verdict = subject.verdict
        if verdict is None:
            return
        amount = subject.devices * seconds
        self.held_seconds += amount
        if verdict.kind is VerdictKind.IDLE:
            self.idle_seconds += amount
        elif verdict.puzzling:
            self.unknown_seconds += amount
            self.unknown[verdict.reason.value] += round(amount)

    def missed(self, amount: float) -> None:
        """Adds device-seconds of a pod that had no samples for a while, once it has some again."""
        self.held_seconds += amount
        self.unknown_seconds += amount
        self.unknown[Reason.STALE.value] += round(amount)

    @property
    def unknown_share(self) -> float:
        """Of the devices held, 0 to 1."""
        return self.unknown_seconds / self.held_seconds if self.held_seconds else 0.0

    @property
    def regret_share(self) -> float:
        """Of the pods taken, 0 to 1."""
        return self.regretted / self.taken if self.taken else 0.0

    @property
    def active_share(self) -> float:
        """Of the pods warned, 0 to 1."""
        return self.active_after_warning / self.warned if self.warned else 0.0


def total(tallies: Iterable[Tally]) -> Tally:
    """Adds tallies."""
    found = Tally()
    for one in tallies:
        found.held_seconds += one.held_seconds
        found.idle_seconds += one.idle_seconds
        found.unknown_seconds += one.unknown_seconds
        found.unknown.update(one.unknown)
        found.warned += one.warned
        found.active_after_warning += one.active_after_warning
        found.taken += one.taken
        found.taken_devices += one.taken_devices
        found.regretted += one.regretted
        found.reclaimed_seconds += one.reclaimed_seconds
    return found


class Advice(StrEnum):
    """When to enforce."""

    ENFORCE = "enforce"
    WARN = "warn"
    OBSERVE = "observe"


class Recommendation(Struct, frozen=True):
    """What to do, and why."""

    advice: Advice
    sentences: tuple[str, ...]


def recommend(tally: Tally) -> Recommendation:
    """Gives when to enforce: Unknown below 10 % of GPUs, regret below 1 %, warned-then-active below 20 %.

    Too many Unknown: go on observing. Too many that come back: warn, and mend the terms first.
    """
    if not tally.held_seconds:
        return Recommendation(Advice.OBSERVE, ("no GPU pod was seen: nothing can be said",))
    if tally.unknown_share >= UNKNOWN_SHARE:
        worst = ", ".join(name for name, _ in tally.unknown.most_common(2))
        share = f"{tally.unknown_share:.0%} of the GPUs were Unknown ({worst})"
        return Recommendation(
            Advice.OBSERVE, (f"{share}, not below {UNKNOWN_SHARE:.0%}: mend the metrics first",)
        )
    why = []
    if tally.regret_share >= REGRET_SHARE:
        share = f"({tally.regret_share:.1%}, not below {REGRET_SHARE:.0%})"
        were = "was" if tally.regretted == 1 else "were"
        taken = f"{tally.regretted} of {counted(tally.taken, 'pod')} taken {were}"
        why.append(f"{taken} used again within an hour {share}")
    if tally.active_share >= ACTIVE_SHARE:
        share = f"({tally.active_share:.0%}, not below {ACTIVE_SHARE:.0%})"
        why.append(
            f"{tally.active_after_warning} of {counted(tally.warned, 'pod')} warned became active {share}"
        )
    if why:
        return Recommendation(Advice.WARN, (*why, "a longer `after` warns and takes fewer"))
    if tally.warned < FEW:
        return Recommendation(Advice.WARN, (_few(tally.warned),))
    shares = f"{tally.unknown_share:.1%} of the GPUs Unknown, {tally.regret_share:.1%} regret"
    return Recommendation(Advice.ENFORCE, (f"{shares}, {tally.active_share:.0%} active after a warning",))


def _few(warned: int) -> str:
    """Why so few warnings tell nothing of what would be regretted."""
    if not warned:
        return (
            "no pod would have been warned, so that nothing is known of regret; look at a longer time, or at"
            " policies with a shorter `after`"
        )
    return (
        f"{counted(warned, 'pod')} would have been warned, and it takes {FEW} to tell; look at a longer time"
    )


def document(tally: Tally) -> dict[str, Any]:
    """A tally as docs/backtest.md has it: hours are device-hours."""
    return {
        "heldHours": round(tally.held_seconds / HOUR, 2),
        "idleHours": round(tally.idle_seconds / HOUR, 2),
        "unknownHours": round(tally.unknown_seconds / HOUR, 2),
        "unknownShare": round(tally.unknown_share, 4),
        "unknownHoursByReason": {
            name: round(seconds / HOUR, 2) for name, seconds in tally.unknown.most_common()
        },
        "warned": tally.warned,
        "activeAfterWarning": tally.active_after_warning,
        "taken": tally.taken,
        "takenDevices": tally.taken_devices,
        "regretted": tally.regretted,
        "reclaimedHours": round(tally.reclaimed_seconds / HOUR, 2),
    }
