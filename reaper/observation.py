"""What Prometheus showed at one moment, for every window that the cycle asked for; judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from policy.verdicts import Reason
from reaper.signals import Signals


class Observation(Struct, frozen=True):
    """The signals of one cycle.

    Attributes:
        observed_at: The moment that every query named.
        complete: Whether every query was answered in full; nothing may act on an incomplete observation.
        problem: Why it is incomplete, PrometheusUnavailable or PartialAnswer; None if complete.
        problems: The same in sentences, said once per cycle.
        windows: Signals by window in seconds.
    """

    observed_at: datetime
    complete: bool
    problem: Reason | None
    problems: tuple[str, ...]
    windows: Mapping[int, Signals]
