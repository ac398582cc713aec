"""What a backtest plays, and what comes of it, as values; plays nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from msgspec import Struct, field

from policy.selection import PolicySet
from policy.terms import Terms
from reaper.criteria import JudgeSettings
from reaper.limits import BrakeLimits, Limits
from reaper.lives import Census
from reaper.pods import GpuPod
from reaper.tallies import Tally


class Play(Struct, frozen=True, kw_only=True):
    """What is played.

    Attributes:
        since: The first moment,
        until: and the last.
        step: Between two moments.
        policies: The policies that apply,
        proposed: which are only proposed: pods carry no terms of them.
        census: What is known of pods beside their series.
        judging: How strict judging is.
        limits: The limits of planning, for one moment instead of one cycle.
        brakes: When everything is held.
        excluded: Namespaces left alone.
    """

    since: datetime
    until: datetime
    step: timedelta
    policies: PolicySet
    census: Census
    proposed: bool = False
    judging: JudgeSettings = JudgeSettings()
    limits: Limits = Limits()
    brakes: BrakeLimits = BrakeLimits()
    excluded: Collection[str] = ()

    def moments(self) -> Iterator[datetime]:
        """Gives the moments, the first after `since`."""
        at = self.since
        while at <= self.until:
            yield at
            at += self.step


class Ghost(Struct):
    """A pod that the policy would have taken, and that in truth went on."""

    pod: GpuPod
    terms: Terms
    devices: int
    taken_at: datetime


class Result(Struct):
    """What came of a play.

    Attributes:
        tallies: By namespace.
        moments: How many moments were looked at,
        held: at how many of them Prometheus had no full answer,
        braked: and at how many the brake held everything.
        problem: Why the play was broken off; empty if it was not.
        queries: How many questions Prometheus was asked.
        assumed: Pods whose class is only assumed.
        pods: All pods.
    """

    tallies: dict[str, Tally] = field(default_factory=dict)
    moments: int = 0
    held: int = 0
    braked: int = 0
    problem: str = ""
    queries: int = 0
    assumed: set[str] = field(default_factory=set)
    pods: set[str] = field(default_factory=set)

    def of(self, namespace: str) -> Tally:
        """Gives the tally of a namespace."""
        return self.tallies.setdefault(namespace, Tally())
