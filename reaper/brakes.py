"""Decides whether a whole cycle is too suspect to act on; must not know pods, Prometheus or a clock.

The brake looks at sums of devices only. It engages when too much changes at once, and lets go when that has
been over for a while, or when an administrator says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct, structs

from reaper.limits import BrakeLimits


class Condition(StrEnum):
    """Why a brake is engaged."""

    TURNED_IDLE = "TurnedIdle"
    UNKNOWN = "Unknown"
    FALLEN = "Fallen"


class Sample(Struct, frozen=True, kw_only=True):
    """What one complete cycle saw, in devices.

    Attributes:
        at: When.
        judged: Devices with a verdict: Active, Idle or Unknown.
        unknown: Of them, devices of pods that are Unknown although their metrics should be there.
        turned_idle: Of them, devices of pods whose verdict became Idle with this cycle.
        reclaimed: Devices the reaper itself has taken since the sample before; they do not count as a fall.
    """

    at: datetime
    judged: int
    unknown: int = 0
    turned_idle: int = 0
    reclaimed: int = 0


class Brake(Struct, frozen=True):
    """The brake after a cycle.

    Attributes:
        samples: The samples that may still matter, oldest first.
        conditions: The conditions that hold now, waived ones left out.
        engaged_at: Since when the brake holds; None if it does not.
        last_true: When a condition last held.
        waived: Conditions an administrator released while they held; each counts again after it was false
            once.
        sentence: Why it holds, for people.
    """

    samples: tuple[Sample, ...] = ()
    conditions: tuple[Condition, ...] = ()
    engaged_at: datetime | None = None
    last_true: datetime | None = None
    waived: frozenset[Condition] = frozenset()
    sentence: str = ""

    @property
    def engaged(self) -> bool:
        """True while the brake holds."""
        return self.engaged_at is not None


def advance(brake: Brake, sample: Sample, released_at: datetime | None, limits: BrakeLimits) -> Brake:
    """Gives the brake after one more sample; `released_at` is the administrator's last `unpause --brake`."""
    samples = _recent((*brake.samples, sample), limits)
    holding = conditions_of(samples, limits)
    released = (
        brake.engaged_at is not None
        and released_at is not None
        and brake.engaged_at <= released_at <= sample.at
    )
    waived = (brake.waived | frozenset(brake.conditions)) if released else brake.waived
    # What was released stays released only as long as it lasts.
    waived &= frozenset(holding)
    kept = structs.replace(brake, engaged_at=None, last_true=None, sentence="") if released else brake
    acting = {condition: why for condition, why in holding.items() if condition not in waived}
    return _settle(structs.replace(kept, samples=samples, waived=waived), sample.at, acting, limits)


def _settle(brake: Brake, now: datetime, acting: dict[Condition, str], limits: BrakeLimits) -> Brake:
    conditions = tuple(sorted(acting))
    if acting:
        return structs.replace(
            brake,
            conditions=conditions,
            engaged_at=brake.engaged_at or now,
            last_true=now,
            sentence="; ".join(acting[condition] for condition in conditions),
        )
    over = brake.last_true is None or now - brake.last_true >= timedelta(seconds=limits.release_seconds)
    if over:
        return structs.replace(brake, conditions=(), engaged_at=None, last_true=None, sentence="")
    return structs.replace(brake, conditions=())


def _recent(samples: Iterable[Sample], limits: BrakeLimits) -> tuple[Sample, ...]:
    ordered = tuple(samples)
    span = timedelta(seconds=max(limits.idle_seconds, limits.fall_seconds))
    return tuple(sample for sample in ordered if ordered[-1].at - sample.at < span)


def conditions_of(samples: tuple[Sample, ...], limits: BrakeLimits) -> dict[Condition, str]:
    """Gives the conditions that hold at the last sample, each with a sentence."""
    found = {
        Condition.TURNED_IDLE: _turned_idle(samples, limits),
        Condition.UNKNOWN: _unknown(samples[-1], limits),
        Condition.FALLEN: _fallen(samples, limits),
    }
    return {condition: sentence for condition, sentence in found.items() if sentence}


def _turned_idle(samples: tuple[Sample, ...], limits: BrakeLimits) -> str:
    last = samples[-1]
    span = timedelta(seconds=limits.idle_seconds)
    turned = sum(sample.turned_idle for sample in samples if last.at - sample.at < span)
    if turned < limits.idle_minimum or turned * 100 < limits.idle_percent * last.judged:
        return ""
    return f"{turned} of {last.judged} devices turned idle within {limits.idle_seconds} s"


def _unknown(last: Sample, limits: BrakeLimits) -> str:
    if last.judged == 0 or last.unknown * 100 < limits.unknown_percent * last.judged:
        return ""
    return f"{last.unknown} of {last.judged} devices are Unknown"


def _fallen(samples: tuple[Sample, ...], limits: BrakeLimits) -> str:
    last = samples[-1]
    span = timedelta(seconds=limits.fall_seconds)
    reclaimed = 0
    highest = last.judged
    # From the newest back: what the reaper took after a sample is no loss of that sample.
    for sample in reversed(samples):
        if last.at - sample.at >= span:
            break
        highest = max(highest, sample.judged - reclaimed)
        reclaimed += sample.reclaimed
    lost = highest - last.judged
    if lost <= 0 or lost * 100 < limits.fall_percent * highest:
        return ""
    return f"judged devices fell from {highest} to {last.judged} within {limits.fall_seconds} s"
