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
from reaper import long_windows, queries
from reaper.answers import Key, Table, intervals, table_of
from reaper.assembly import Timing, assemble
from reaper.criteria import JudgeSettings
from reaper.long_windows import LONG_SECONDS, PIECE_SECONDS, RECORDED_ROLES, Part, recorded_name
from reaper.prometheus import PrometheusError, PrometheusPort, Sample
from reaper.queries import Series
from reaper.questions import Questions, of_timing
from reaper.signals import Signals
from reaper.sources import CLASHING

HISTORY_STEP = 60
REACHED = 0.9
"""Recorded series that reach so far into a span, and are still written, are read for it."""


class Observation(Struct, frozen=True):
    """The signals of one cycle.

    Attributes:
        observed_at: The moment that every query named.
        complete: Whether every query was answered in full; nothing may act on an incomplete observation.
        problem: Why not, such as PrometheusUnavailable, PartialAnswer or SeveralClusters; None if complete.
        problems: The same in sentences, said once per cycle.
        windows: Signals by window in seconds.
        metrics: The names of the known metrics that exist.
        remarks: What an administrator could do better, in sentences.
    """

    observed_at: datetime
    complete: bool
    problem: Reason | None = None
    problems: tuple[str, ...] = ()
    windows: Mapping[int, Signals] = msgspec.field(default_factory=dict)
    metrics: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()

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
        asking = Questions(self._at, windows, self._thresholds, self._averaged)
        # Over a long window that would read every sample of everything: what is gone for hours is not found.
        series = await self._series(min(max(windows), LONG_SECONDS))
        recorded = await self._recorded(windows)
        table = dict(await self._table(dict(of_timing(series))))
        timings = {one: self._timing(table, one, windows, recorded) for one in series if one.counted}
        timings.update({one: _like_pods(one, timings) for one in series if not one.counted})
        for ask in (asking.of_windows, asking.of_garbage):
            table.update(await self._table(dict(ask(timings, table))))
        if self._thresholds:
            table.update(await self._table(dict(asking.of_history(timings))))
        signals = {window: assemble(table, timings, window, self._at) for window in windows}
        remarks = tuple(_raw_windows(timings, windows))
        return Observation(self._at, True, windows=signals, metrics=queries.names_of(series), remarks=remarks)

    async def _recorded(self, windows: Collection[int]) -> Mapping[int, Collection[str]]:
        """The recorded series that are still written and reach far into each long span, by the span."""
        spans = {window for window in windows if window > LONG_SECONDS}
        spans |= {self._settings.history} if self._thresholds else set()
        if not spans:
            return {}
        now = await self._names_recorded(0)
        if not now:
            return {}
        return {span: now & await self._names_recorded(REACHED * span) for span in sorted(spans)}

    async def _names_recorded(self, ago: float) -> frozenset[str]:
        expression = long_windows.discovery(self._settings.sources, self._extra, ago)
        samples = await self._prometheus.query(expression, self._at)
        return frozenset(sample.labels.get("__name__", "") for sample in samples)

    async def _series(self, seconds: int) -> list[Series]:
        """The series that exist within so many seconds; notes the scrape jobs that keep targets' labels."""
        expression = queries.discovery(seconds, self._extra, self._settings.sources)
        found: dict[str, list[frozenset[str]]] = {}
        answer = await self._prometheus.query(expression, self._at)
        _refuse_several_clusters({one for sample in answer for one in queries.clusters_of(sample.labels)})
        for sample in answer:
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

    def _timing(
        self, table: Table, series: Series, windows: list[int], recorded: Mapping[int, Collection[str]]
    ) -> Timing:
        """Chooses the steps for the series of one metric: never above the shortest interval of any."""
        given = self._settings.intervals.get(series.source.name)
        found = intervals(table, series, given, self._at.timestamp())
        if not found:
            return Timing()
        step, places = min(found.values()), len(found)
        spans = _spans(series, recorded)
        read = frozenset(window for window in windows if window > LONG_SECONDS and window in spans)
        few = {window for window in windows if places * window / step <= self._settings.points}
        steps = dict.fromkeys(few | read, step)
        history, from_recorded = self._settings.history, self._settings.history in spans
        longest = max(2 * max(found.values()), HISTORY_STEP, places * history / self._settings.points)
        longest = max(longest, PIECE_SECONDS) if from_recorded else longest
        return Timing(found, steps, history, longest, self._thresholds, read, from_recorded)


def _refuse_several_clusters(found: Collection[tuple[str, str]]) -> None:
    """Two clusters may have pods of one name, and the series of one must not speak for the other's pod."""
    for name in queries.CLUSTERS:
        values = sorted(value for label, value in found if label == name)
        if len(values) > 1:
            some = ", ".join(value[:63] for value in values[:3])
            text = f"series of {len(values)} clusters ({some}): name this one in matchers by its label {name}"
            raise PrometheusError(Reason.SEVERAL_CLUSTERS, text)


def _is_counted(series: Series, kinds: Sequence[frozenset[str]]) -> bool:
    """Whether samples are counted: of whole devices only where the series of pods do not have them all."""
    source = series.source
    sharers = series.metric.principal and any(source.virtual in present for present in kinds)
    return not series.whole or source.apart or sharers


def _spans(series: Series, recorded: Mapping[int, Collection[str]]) -> frozenset[int]:
    """The spans that recorded series of a metric reach into."""
    if series.metric.role not in RECORDED_ROLES:
        return frozenset()
    name = recorded_name(series.metric, Part.MAXIMUM)
    return frozenset(span for span, names in recorded.items() if name in names)


def _raw_windows(timings: Mapping[Series, Timing], windows: Collection[int]) -> Iterator[str]:
    """Which metrics are asked raw over long windows, for want of recorded series."""
    for window in windows:
        names = {
            series.metric.name
            for series, timing in timings.items()
            if series.metric.role in RECORDED_ROLES and series.counted and window not in timing.recorded
        }
        if window > LONG_SECONDS and names:
            some = ", ".join(sorted(names)[:3]) + (", …" if len(names) > 3 else "")
            yield (
                f"the window of {window // 3_600} h is asked raw for {some}: no recording rules that reach"
                " over it (rules.longWindows of the chart); beyond 40 million samples it is not counted"
            )


def _like_pods(series: Series, timings: Mapping[Series, Timing]) -> Timing:
    """The steps for whole devices: the shortest of those of the same metric by pod."""
    steps: dict[int, float] = {}
    recorded: frozenset[int] = frozenset()
    for other, timing in timings.items():
        if other.metric == series.metric:
            recorded |= timing.recorded
            for window, step in timing.steps.items():
                steps[window] = min(step, steps.get(window, step))
    return Timing(steps=steps, recorded=recorded)


def _first(errors: BaseExceptionGroup[PrometheusError]) -> PrometheusError:
    """One error of a group: they tell the same trouble."""
    for error in errors.exceptions:
        return _first(error) if isinstance(error, BaseExceptionGroup) else error
    raise AssertionError("a group holds at least one error")
