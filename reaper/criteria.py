"""The numbers that judging rests on, with their defaults; every one is a setting; judges nothing."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from msgspec import Struct, field

from policy.defaults import COVERAGE, FRESH_SCRAPES, FRESH_SECONDS
from reaper.exporters import SOURCES, vendors_of
from reaper.sources import Source

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class JudgeSettings(Struct, frozen=True, dict=True):
    """How strict judging is.

    Attributes:
        coverage: The share of the expected samples that every signal needs, 0 to 1.
        fresh_scrapes: The last sample may be this many scrape intervals old,
        fresh_seconds: or this many seconds, whichever is more.
        intervals: Scrape interval in seconds by source name; detected from the data where it is not given.
        history: How many seconds before now the start of an idle stretch is looked for.
        points: The largest number of points that one query may make; Prometheus refuses 50 million.
        windows: How many windows are observed at most; other pods are judged by the next longer one.
        parked_bytes: An idle pod that holds at least so much memory per device is called parked.
        rest_watts: An AMD device above this power is not at rest, whatever its activity says.
        matchers: Labels that series must carry, such as `cluster` where one Prometheus serves several.
        limit_seconds: How long all queries of one observation may take together.
        sources: The exporters.
    """

    coverage: float = COVERAGE
    fresh_scrapes: int = FRESH_SCRAPES
    fresh_seconds: float = FRESH_SECONDS
    intervals: dict[str, float] = field(default_factory=dict)
    history: int = 86_400
    points: int = 40_000_000
    windows: int = 12
    parked_bytes: int = 500 << 20
    rest_watts: float = 200.0
    matchers: dict[str, str] = field(default_factory=dict)
    limit_seconds: float = 45.0
    sources: tuple[Source, ...] = SOURCES

    @cached_property
    def vendors(self) -> frozenset[str]:
        """Vendors whose devices some source sees."""
        return vendors_of(self.sources)

    def __post_init__(self) -> None:
        """Refuses values that could make a busy pod look idle, or that cannot be written in a query.

        Raises:
            ValueError: one of the numbers or names is impossible.
        """
        if not 0.5 <= self.coverage <= 1:
            raise ValueError("coverage: must be between 0.5 and 1")
        if self.windows < 1:
            raise ValueError("windows: must be at least 1")
        known = [source.name for source in self.sources]
        for name, seconds in self.intervals.items():
            if name not in known:
                raise ValueError(f"intervals: no source is named {name!r}; there are {', '.join(known)}")
            if not 0 < seconds <= 300:
                raise ValueError("intervals: must be above 0 and at most 300 seconds")
        for name in self.matchers:
            if not _LABEL.fullmatch(name):
                raise ValueError(f"matchers: {name!r} is not the name of a label")
