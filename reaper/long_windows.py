"""The recording rules for windows that are too long to be asked raw: their names and PromQL; asks nothing.

A rule sums up five minutes of one metric, so that a window of a day takes 288 points of a device instead of
5,760 samples. Its labels are those by which judging tells pods and devices apart, so that the series of a
form are found by the matchers of that form.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, Final

from reaper.queries import Series, span
from reaper.sources import Metric, Role, Source

PIECE_SECONDS: Final = 300
"""What a rule sums up, and how often it is evaluated: ranges that do not overlap and leave nothing out."""

RECORDED_ROLES: Final = frozenset({Role.ACTIVITY, Role.HOST, Role.MEMORY})


class Part(StrEnum):
    """What is recorded of a piece.

    The largest sample, the mean of the samples, and how many there were of the most frequent scraper. Over a
    window the first is summed up by its maximum, the second weighed by the third, the third by its sum.
    """

    MAXIMUM = "max5m"
    AVERAGE = "avg5m"
    SAMPLES = "samples5m"


_OVER: Final = {Part.MAXIMUM: "max", Part.AVERAGE: "avg", Part.SAMPLES: "count"}


def recorded_name(metric: Metric, part: Part) -> str:
    """Gives the name of a recorded series: `device:DCGM_FI_DEV_GPU_UTIL:max5m`."""
    return f"device:{metric.name}:{part.value}"


def groups(sources: Collection[Source]) -> list[dict[str, Any]]:
    """Gives the groups of rules, one per exporter, in the spelling of Prometheus' rule files."""
    return [
        {
            "name": f"gpu-tenure-long-windows-{source.name}",
            "interval": f"{PIECE_SECONDS}s",
            "rules": [
                {"record": recorded_name(metric, part), "expr": _expression(source, metric, part)}
                for metric in source.metrics
                if metric.role in RECORDED_ROLES
                for part in Part
            ],
        }
        for source in sources
    ]


def _expression(source: Source, metric: Metric, part: Part) -> str:
    """Gives the series of every form: their labels differ, so that none hides another."""
    forms = (Series(source, metric, form) for form in source.forms_of(metric))
    over = f"{_OVER[part]}_over_time"
    return " or ".join(one.largest(f"{over}({one.selector}[{span(PIECE_SECONDS)}])") for one in forms)
