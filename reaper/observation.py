"""Asks Prometheus what one cycle needs, at one moment, in a constant number of queries; judges nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from policy.defaults import UTILIZATION_PERCENT
from policy.terms import Statistic, Terms
from policy.verdicts import Reason
from reaper import queries
from reaper.answers import Asked, Key, Table, intervals, table_of
from reaper.assembly import Timing, assemble
from reaper.criteria import JudgeSettings
from reaper.intervals import DETECT_SECONDS
from reaper.prometheus import PrometheusError, PrometheusPort, Sample
from reaper.queries import Series
from reaper.signals import Signals
from reaper.sources import CLASHING, PROVING_ROLES, Role

RANGED = frozenset({Role.ACTIVITY, Role.HOST, Role.MEMORY, Role.ALLOCATED})
"""Roles whose samples are counted over the window."""
CURRENT = frozenset({Role.KERNEL, Role.MEMORY, Role.FREE, Role.LIMIT, Role.HOLDER, Role.PROCESS})
"""Roles whose last value is asked for."""
MAXIMAL = frozenset({Role.FAULT_CODE, Role.POWER, Role.PROCESS, Role.NAME})
"""Further roles whose maximum over the window is asked for."""
SMALLEST_PIECE = 300
HISTORY_STEP = 60


class Observation(Struct, frozen=True):
    """The signals of one cycle.

    Attributes:
        observed_at: The moment that every query named.
        complete: Whether every query was answered in full; nothing may act on an incomplete observation.
        problem: Why not: PrometheusUnavailable, PartialAnswer or GarbageAnswer; None if complete.
        problems: The same in sentences, said once per cycle.
        windows: Signals by window in seconds.
        metrics: The names of the known metrics that exist.
    """

    observed_at: datetime
    complete: bool
    problem: Reason | None = None
    problems: tuple[str, ...] = ()
    windows: Mapping[int, Signals] = msgspec.field(default_factory=dict)
    metrics: frozenset[str] = frozenset()

    def covering(self, seconds: int) -> Signals | None:
        """The signals of the shortest window that is as long: idle in a longer one is idle in this one."""
        return self.windows.get(min((one for one in self.windows if one >= seconds), default=0))


async def observe(
    prometheus: PrometheusPort,
    windows: Collection[int],
    at: datetime,
    settings: JudgeSettings,
    thresholds: Collection[int] = (UTILIZATION_PERCENT,),
    averaged: Collection[int] | None = None,
) -> Observation:
    """Observes all devices over windows, in seconds, that end at `at`; never raises for Prometheus' trouble.

    For `thresholds` (percent) the start of idle stretches is looked for beyond the windows. Averages are
    asked for over the windows `averaged`, or over all; they cost as much as all that is asked besides.
    """
    few = few_windows(windows, settings.windows)
    means = set(few) if averaged is None else {min(one for one in few if one >= long) for long in averaged}
    observer = _Observer(prometheus, at, settings, tuple(sorted(set(thresholds))), means)
    try:
        async with asyncio.timeout(settings.limit_seconds):
            return await observer.observe(few)
    except PrometheusError as error:
        return Observation(at, False, error.reason, (str(error),))
    except (ValueError, OverflowError) as error:
        # A count that is no number, a time that no calendar has.
        return Observation(at, False, Reason.GARBAGE_ANSWER, (f"answers hold impossible numbers: {error}",))
    except TimeoutError:
        text = f"the queries took longer than {settings.limit_seconds:.0f} s together"
        return Observation(at, False, Reason.PROMETHEUS_UNAVAILABLE, (text,))


async def observe_terms(
    prometheus: PrometheusPort, terms: Collection[Terms], at: datetime, settings: JudgeSettings
) -> Observation:
    """Observes the windows and thresholds of some terms, with averages only where terms look at them."""
    return await observe(
        prometheus,
        {one.after.seconds for one in terms},
        at,
        settings,
        thresholds={one.utilization for one in terms},
        averaged={one.after.seconds for one in terms if one.statistic is Statistic.AVERAGE},
    )


def few_windows(windows: Collection[int], most: int) -> list[int]:
    """At most so many windows, of which one covers each that was asked for; the nearest are merged upwards.

    Users may choose windows, and must not be able to multiply the queries.
    """
    kept = sorted(set(windows))
    while len(kept) > most:
        nearest = min(range(len(kept) - 1), key=lambda index: kept[index + 1] / kept[index])
        del kept[nearest]
    return kept


class _Observer:
    """One observation in the making: which series exist, how often they are scraped, then their values."""

    def __init__(
        self,
        prometheus: PrometheusPort,
        at: datetime,
        settings: JudgeSettings,
        thresholds: tuple[int, ...],
        averaged: Collection[int],
    ) -> None:
        self._thresholds = thresholds
        self._averaged = averaged
        self._prometheus = prometheus
        self._at = at
        self._settings = settings
        self._extra = queries.matchers_of(settings.matchers)
        self._own_jobs: dict[str, set[str]] = {}

    async def observe(self, windows: list[int]) -> Observation:
        if not windows:
            return Observation(self._at, True)
        series = await self._series(max(windows))
        table = dict(await self._table(dict(_timing_questions(series))))
        timings = {one: self._timing(table, one, windows) for one in series if one.counted}
        timings.update({one: _like_pods(one, timings) for one in series if not one.counted})
        for ask in (self._window_questions, self._closer_questions):
            table.update(await self._table(dict(ask(timings, windows, table))))
        if self._thresholds:
            table.update(await self._table(dict(self._history_questions(timings))))
        signals = {window: assemble(table, timings, window, self._at) for window in windows}
        return Observation(self._at, True, windows=signals, metrics=queries.names_of(series))

    async def _series(self, seconds: int) -> list[Series]:
        """The series that exist within so many seconds; notes the scrape jobs that keep targets' labels."""
        expression = queries.discovery(seconds, self._extra, self._settings.sources)
        found: dict[str, list[frozenset[str]]] = {}
        for sample in await self._prometheus.query(expression, self._at):
            name, present = sample.labels.get("__name__", ""), queries.found_labels(sample.labels)
            found.setdefault(name, []).append(present)
            if present & CLASHING:
                self._own_jobs.setdefault(name, set()).add(sample.labels.get("job", ""))
        return list(self._existing(found))

    def _existing(self, found: Mapping[str, Sequence[frozenset[str]]]) -> Iterator[Series]:
        for source in self._settings.sources:
            for metric in source.metrics:
                kinds = found.get(metric.name, ())
                for form in source.forms_of(metric):
                    if any(form == source.alias or form.fits(present) for present in kinds):
                        one = Series(source, metric, form, self._extra)
                        yield msgspec.structs.replace(one, counted=_is_counted(one, kinds))

    async def _table(self, questions: Mapping[Key, str]) -> Table:
        """Asks many questions at once; the first that fails ends the observation."""
        tasks: dict[Key, asyncio.Task[list[Sample]]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for key, expression in questions.items():
                    tasks[key] = group.create_task(self._prometheus.query(expression, self._at))
        except* PrometheusError as errors:
            raise _first(errors) from None
        return table_of({key: task.result() for key, task in tasks.items()}, self._own_jobs)

    def _timing(self, table: Table, series: Series, windows: list[int]) -> Timing:
        """Chooses the steps for the series of one metric: never above the shortest interval of any."""
        given = self._settings.intervals.get(series.source.name)
        found = intervals(table, series, given, self._at.timestamp())
        if not found:
            return Timing()
        step, places = min(found.values()), len(found)
        steps = {window: step for window in windows if places * window / step <= self._settings.points}
        history = self._settings.history
        longest = max(2 * max(found.values()), HISTORY_STEP, places * history / self._settings.points)
        return Timing(found, steps, history, longest, self._thresholds)

    def _reach(self, table: Table, series: Series, timing: Timing) -> float:
        """How old a sample may be to count for a step: two intervals, so that gaps show.

        The longest interval of those series that go on decides; those that have ended would seem to be slow.
        """
        times = table.get((series, Asked.LAST_TIME, 0), {})
        now = self._at.timestamp()
        going = [
            seconds for place, seconds in timing.intervals.items() if now - times.get(place, 0) <= 3 * seconds
        ]
        return min(2 * max(going, default=queries.LOOKBACK_SECONDS), queries.LOOKBACK_SECONDS)

    def _window_questions(
        self, timings: Mapping[Series, Timing], windows: list[int], table: Table
    ) -> Iterator[tuple[Key, str]]:
        for series, timing in timings.items():
            role = series.metric.role
            reach = self._reach(table, series, timing)
            for window in windows:
                if role in RANGED | MAXIMAL:
                    yield (series, Asked.MAXIMUM, window), queries.maximum(series, window)
                if role is Role.LAST_FAULT:
                    yield (series, Asked.MAXIMUM, window), queries.fresh_code(series, window)
                if role is Role.FAULT_COUNT:
                    yield (series, Asked.MOVED, window), queries.movement(series, window)
                if role is Role.ENERGY:
                    piece = min(window, max(SMALLEST_PIECE, 4 * max(timing.intervals.values(), default=0)))
                    yield (series, Asked.MOVED, window), queries.least_movement(series, window, piece)
                    yield (series, Asked.MOVED_LAST, window), queries.sure_movement(series, piece)
                step = timing.steps.get(window)
                if role in RANGED and step and series.counted:
                    yield (series, Asked.VALID, window), queries.valid_count(series, window, step, reach)
                    if reach > 2 * step:
                        near = queries.valid_count(series, window, step, 2 * step)
                        yield (series, Asked.VALID_NEAR, window), near
                    if role in PROVING_ROLES and window in self._averaged:
                        yield (series, Asked.AVERAGE, window), queries.average(series, window, step, reach)

    def _closer_questions(
        self, timings: Mapping[Series, Timing], windows: list[int], table: Table
    ) -> Iterator[tuple[Key, str]]:
        """Questions about metrics of which some maximum cannot be true."""
        for series, timing in timings.items():
            for window in windows:
                step = timing.steps.get(window)
                maxima = table.get((series, Asked.MAXIMUM, window), {}).values()
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

    def _history_questions(self, timings: Mapping[Series, Timing]) -> Iterator[tuple[Key, str]]:
        """Questions about the time before the windows."""
        for series, timing in timings.items():
            seconds, step = timing.history, timing.history_step
            if series.metric.role not in {Role.ACTIVITY, Role.HOST} or not series.counted or not step:
                continue
            yield (series, Asked.FIRST, seconds), queries.first_time(series, seconds, step)
            yield (series, Asked.SEEN, seconds), queries.steps_seen(series, seconds, step)
            for threshold in self._thresholds:
                yield (series, Asked.ABOVE, threshold), queries.last_above(series, threshold, seconds, step)


def _is_counted(series: Series, kinds: Sequence[frozenset[str]]) -> bool:
    """Whether samples are counted: of whole devices only where the series of pods do not have them all."""
    source = series.source
    sharers = series.metric.principal and any(source.virtual in present for present in kinds)
    return not series.whole or source.apart or sharers


def _like_pods(series: Series, timings: Mapping[Series, Timing]) -> Timing:
    """The steps for whole devices: the shortest of those of the same metric by pod."""
    steps: dict[int, float] = {}
    for other, timing in timings.items():
        for window, step in timing.steps.items() if other.metric == series.metric else ():
            steps[window] = min(step, steps.get(window, step))
    return Timing(steps=steps)


def _timing_questions(series: Collection[Series]) -> Iterator[tuple[Key, str]]:
    for one in series:
        role = one.metric.role
        if one.counted and role in RANGED | {Role.KERNEL, Role.ENERGY}:
            for seconds in DETECT_SECONDS:
                yield (one, Asked.COUNT, seconds), queries.sample_count(one, seconds)
            yield (one, Asked.LAST_TIME, 0), queries.last_time(one)
            yield (one, Asked.EARLIER_TIME, 0), queries.earlier_time(one)
        if role in CURRENT:
            yield (one, Asked.LAST, 0), queries.last_value(one)


def _first(errors: BaseExceptionGroup[PrometheusError]) -> PrometheusError:
    """One error of a group: they tell the same trouble."""
    for error in errors.exceptions:
        return _first(error) if isinstance(error, BaseExceptionGroup) else error
    raise AssertionError("a group holds at least one error")
