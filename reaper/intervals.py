"""Tells scrape intervals from the data, never above the truth, so that no step skips a sample; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec import Struct

DETECT_SECONDS: Final = (600, 120)
"""Ranges in which samples are counted: for settled series, and for those that have just begun."""
EARLIER_SECONDS: Final = 600
"""How much earlier a second sample is looked up, to measure whole intervals: as far as the longer range."""
FEWEST_SAMPLES: Final = 3
USUAL_SECONDS: Final = (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180)
CLOCK_ERROR: Final = 0.005
JITTER: Final = 0.002
LIKE_OTHERS: Final = 1.25
FEW: Final = 0.6

_Place = TypeVar("_Place")


class Scrapes(Struct, frozen=True):
    """What is known of how often one series is scraped.

    Attributes:
        counts: Numbers of samples in each of DETECT_SECONDS.
        between: Seconds between the last sample and the last one before EARLIER_SECONDS ago: a multiple of
            the interval, and so exact where the counts are not. None for a series that has just begun.
        age: How many seconds old the last sample is.
    """

    counts: Mapping[int, float]
    between: float | None = None
    age: float = 0.0


def tell_intervals(series: Mapping[_Place, Scrapes]) -> dict[_Place, float]:
    """The interval in seconds of each series of one metric; those with too few samples are left out.

    A series that has just begun, or has gaps, is told roughly; where others of its metric have an interval
    that fits, it is taken to have the same.
    """
    exact = {place: found for place, one in series.items() if (found := exact_interval(one)) is not None}
    rough = {place: found for place, one in series.items() if (found := rough_interval(one)) is not None}
    settled = sorted(set(exact.values()))
    told = dict(exact)
    for place, least in rough.items():
        if place not in told:
            told[place] = next((one for one in settled if least <= one <= LIKE_OTHERS * least), least)
    return told


def rough_interval(scrapes: Scrapes) -> float | None:
    """A lower bound from the shorter range, for a series that is older than that."""
    settled, begun = (scrapes.counts.get(seconds, 0) for seconds in DETECT_SECONDS)
    return DETECT_SECONDS[1] / (begun + 1) if settled > begun >= FEWEST_SAMPLES else None


def exact_interval(scrapes: Scrapes) -> float | None:
    """The interval of a series that has been scraped all along; None for others, and if gaps are in doubt."""
    between, count = scrapes.between, scrapes.counts.get(DETECT_SECONDS[0], 0)
    if between is None or between <= 0 or count < FEWEST_SAMPLES:
        return None
    # Each scrape that was lost makes a count short: the interval may be shorter than it seems, never longer.
    fewest = math.floor(between * count / max(DETECT_SECONDS[0] - scrapes.age, 1.0)) - 1
    lengths = [between / many for many in range(fewest, fewest + 4) if many > 0]
    fitting = [one for one in lengths if count <= _samples(one, scrapes.age)]
    usual = [
        float(one) for one in USUAL_SECONDS if _is_near(one, fitting) and count <= _samples(one, scrapes.age)
    ]
    found = usual[-1] if usual else min(fitting[:2], default=None)
    least = rough_interval(scrapes)
    return found if found is not None and (least is None or least >= FEW * found) else None


def _samples(interval: float, age: float) -> int:
    """How many samples the longer range has, if none is lost and the last one is so many seconds old.

    One that is older than the interval was followed by some that were lost.
    """
    return math.ceil((DETECT_SECONDS[0] - age % interval - JITTER) / interval)


def _is_near(seconds: float, fitting: list[float]) -> bool:
    return any(abs(one - seconds) <= seconds * CLOCK_ERROR for one in fitting)
