"""Which questions one cycle asks of the series that exist: what, over which windows; asks nothing itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from reaper import long_windows, queries
from reaper.answers import Asked, Key, Table
from reaper.assembly import Timing
from reaper.intervals import DETECT_SECONDS
from reaper.long_windows import Part
from reaper.queries import Series
from reaper.sources import PROVING_ROLES, Role

RANGED = frozenset({Role.ACTIVITY, Role.HOST, Role.MEMORY, Role.ALLOCATED})
"""Roles whose samples are counted over the window."""
CURRENT = frozenset({Role.KERNEL, Role.MEMORY, Role.FREE, Role.LIMIT, Role.HOLDER, Role.PROCESS})
"""Roles whose last value is asked for."""
MAXIMAL = frozenset({Role.FAULT_CODE, Role.POWER, Role.PROCESS, Role.NAME})
"""Further roles whose maximum over the window is asked for."""
CLOCKS = frozenset({Role.ENERGY, Role.KERNEL})
"""Roles of values that always move, if the exporter is alive."""
SMALLEST_PIECE = 300


class Questions(Struct, frozen=True):
    """What is asked at one moment.

    Attributes:
        at: The moment.
        windows: The windows, in seconds.
        thresholds: The percentages for which the start of idle stretches is looked for.
        averaged: The windows over which averages are asked for.
    """

    at: datetime
    windows: Collection[int]
    thresholds: Collection[int] = ()
    averaged: Collection[int] = ()

    def of_windows(self, timings: Mapping[Series, Timing], table: Table) -> Iterator[tuple[Key, str]]:
        """Questions about the samples of each window."""
        for series, timing in timings.items():
            reach = self._reach(table, series, timing)
            for window in self.windows:
                if window in timing.recorded:
                    yield from self._of_recorded(series, window)
                    continue
                yield from _of_whole(series, timing, window)
                if series.metric.works and window in self.averaged:
                    yield (series, Asked.AVERAGE, window), queries.plain_average(series, window)
                if window in timing.steps and series.counted and series.metric.role in RANGED:
                    yield from self._of_steps(series, timing.steps[window], window, reach)

    def _of_steps(self, series: Series, step: float, window: int, reach: float) -> Iterator[tuple[Key, str]]:
        """Questions that look at each step of a window."""
        yield (series, Asked.VALID, window), queries.valid_count(series, window, step, reach)
        if reach > 2 * step:
            yield (series, Asked.VALID_NEAR, window), queries.valid_count(series, window, step, 2 * step)
        if series.metric.role in PROVING_ROLES and window in self.averaged:
            yield (series, Asked.AVERAGE, window), queries.average(series, window, step, reach)

    def _of_recorded(self, series: Series, window: int) -> Iterator[tuple[Key, str]]:
        """The same of a window that is read from recorded series."""
        yield (series, Asked.MAXIMUM, window), long_windows.maximum(series, window)
        if series.counted:
            yield (series, Asked.VALID, window), long_windows.samples(series, window)
            yield (series, Asked.PIECES, window), long_windows.pieces(series, window)
        if series.counted and series.metric.role in PROVING_ROLES and window in self.averaged:
            yield (series, Asked.AVERAGE, window), long_windows.average(series, window)

    def of_garbage(self, timings: Mapping[Series, Timing], table: Table) -> Iterator[tuple[Key, str]]:
        """Questions about metrics of which some maximum cannot be true."""
        for series, timing in timings.items():
            for window in self.windows:
                step = timing.steps.get(window)
                maxima = table.get((series, Asked.MAXIMUM, window), {}).values()
                if window in timing.recorded:
                    # A piece hides what else it held: such a window proves nothing.
                    continue
                odd = any(not 0 <= value <= series.metric.highest for value in maxima)
                if odd and step and series.metric.role in RANGED:
                    yield (
                        (series, Asked.CLOSER_HIGH, window),
                        queries.closer_maximum(series, window, step, "max"),
                    )
                    yield (
                        (series, Asked.CLOSER_LOW, window),
                        queries.closer_maximum(series, window, step, "min"),
                    )
                    yield (series, Asked.DISCARDED, window), queries.discarded_count(series, window, step)

    def of_history(self, timings: Mapping[Series, Timing]) -> Iterator[tuple[Key, str]]:
        """Questions about the time before the windows."""
        for series, timing in timings.items():
            seconds, step = timing.history, timing.history_step
            if series.metric.role not in {Role.ACTIVITY, Role.HOST} or not series.counted or not step:
                continue
            one = long_windows.recorded(series, Part.MAXIMUM) if timing.history_recorded else series
            yield (series, Asked.FIRST, seconds), queries.first_time(one, seconds, step)
            yield (series, Asked.SEEN, seconds), queries.steps_seen(one, seconds, step)
            for threshold in self.thresholds:
                yield (series, Asked.ABOVE, threshold), queries.last_above(one, threshold, seconds, step)

    def _reach(self, table: Table, series: Series, timing: Timing) -> float:
        """How old a sample may be to count for a step: two intervals, so that gaps show.

        The longest interval of those series that go on decides; those that have ended would seem to be slow.
        """
        times = table.get((series, Asked.LAST_TIME, 0), {})
        now = self.at.timestamp()
        going = [
            seconds for place, seconds in timing.intervals.items() if now - times.get(place, 0) <= 3 * seconds
        ]
        return min(2 * max(going, default=queries.LOOKBACK_SECONDS), queries.LOOKBACK_SECONDS)


def _of_whole(series: Series, timing: Timing, window: int) -> Iterator[tuple[Key, str]]:
    """Questions about a window as a whole."""
    role = series.metric.role
    if role in RANGED | MAXIMAL:
        yield (series, Asked.MAXIMUM, window), queries.maximum(series, window)
    if role is Role.LAST_FAULT:
        yield (series, Asked.MAXIMUM, window), queries.fresh_code(series, window)
    if role is Role.FAULT_COUNT:
        yield (series, Asked.MOVED, window), queries.movement(series, window)
    piece = min(window, max(SMALLEST_PIECE, 4 * max(timing.intervals.values(), default=0)))
    if role is Role.ENERGY:
        yield (series, Asked.MOVED, window), queries.least_movement(series, window, piece)
    if role in CLOCKS:
        yield (series, Asked.MOVED_LAST, window), queries.sure_movement(series, piece)


def of_timing(series: Collection[Series]) -> Iterator[tuple[Key, str]]:
    """Questions that tell how often series are scraped, and their last values."""
    for one in series:
        role = one.metric.role
        if one.counted and role in RANGED | {Role.KERNEL, Role.ENERGY}:
            for seconds in DETECT_SECONDS:
                yield (one, Asked.COUNT, seconds), queries.sample_count(one, seconds)
            yield (one, Asked.LAST_TIME, 0), queries.last_time(one)
            yield (one, Asked.EARLIER_TIME, 0), queries.earlier_time(one)
        if role in CURRENT:
            yield (one, Asked.LAST, 0), queries.last_value(one)
