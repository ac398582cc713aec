"""Windows that are too long to be asked raw: the recording rules and how they are read; asks nothing.

A rule sums up five minutes of one metric, so that a window of a day takes 288 points of a device instead of
5,760 samples. Its labels are those by which judging tells pods and devices apart, so that the series of a
form are found by the matchers of that form.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from reaper.queries import Series, braces, quoted, span
from reaper.sources import Metric, Role, Source

LONG_SECONDS: Final = 6 * 3_600
"""Longer windows are read from recorded series where there are any."""

PIECE_SECONDS: Final = 300
"""What a rule sums up, and how often it is evaluated: ranges that do not overlap and leave nothing out."""

LATEST_SECONDS: Final = 2 * PIECE_SECONDS
"""What may not have been recorded yet, and is asked raw."""
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


def recorded(series: Series, part: Part) -> Series:
    """The recorded series of some series."""
    return replace(series, metric=replace(series.metric, name=recorded_name(series.metric, part), where=()))


def discovery(sources: Collection[Source], extra: str, ago: float) -> str:
    """Which recorded series there were so many seconds ago."""
    names = "|".join(
        recorded_name(metric, Part.MAXIMUM)
        for source in sources
        for metric in source.metrics
        if metric.role in RECORDED_ROLES
    )
    selector = braces(f"__name__=~{quoted(names)}", extra)
    offset = f" offset {span(ago)}" if ago else ""
    return f"count by (__name__) (last_over_time({selector}[{span(LATEST_SECONDS)}]{offset}))"


def maximum(series: Series, window: int) -> str:
    """The largest sample: of the pieces, and of the latest minutes, which may not be recorded yet."""
    pieces = f"max_over_time({recorded(series, Part.MAXIMUM).selector}[{span(window)}])"
    latest = f"max_over_time({series.selector}[{span(LATEST_SECONDS)}])"
    # The mark keeps a raw series from vanishing behind a recorded one of the same labels.
    return series.largest(f'{pieces} or label_replace({latest}, "gpu_tenure_latest", "1", "", "")')


def samples(series: Series, window: int) -> str:
    """How many samples the pieces had together."""
    return series.largest(f"sum_over_time({recorded(series, Part.SAMPLES).selector}[{span(window)}])")


def pieces(series: Series, window: int) -> str:
    """How many pieces had samples at all."""
    return series.largest(f"count_over_time({recorded(series, Part.SAMPLES).selector}[{span(window)}])")


def average(series: Series, window: int) -> str:
    """The mean of the pieces, each weighed by its samples."""
    mean, many = (recorded(series, part) for part in (Part.AVERAGE, Part.SAMPLES))
    over = f"[{span(window)}:{span(PIECE_SECONDS)}]"
    weighed = f"{mean.largest(mean.selector)} * {many.largest(many.selector)}"
    return f"sum_over_time(({weighed}){over}) / sum_over_time(({many.largest(many.selector)}){over})"
