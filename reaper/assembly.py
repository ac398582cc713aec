"""Joins answers into the Signals of one window: scales values, merges scrapers, gathers by pod; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from reaper.answers import Asked, Place, Table
from reaper.long_windows import PIECE_SECONDS
from reaper.queries import Series, expected_steps, maximum
from reaper.signals import Board, Device, PodKey, Reading, Signals
from reaper.sources import Metric, Role, Sharing

HISTORY_COVERAGE = 0.9
NEAR = 1.25
"""Series whose interval is at most so many steps long are counted with the reach of the shortest."""
JOINED = frozenset({Role.ACTIVITY, Role.MEMORY, Role.FREE, Role.LIMIT})
"""Roles of readings of whole devices that count for the pod that holds one."""


class Timing(Struct, frozen=True):
    """How the series of one metric were asked.

    Attributes:
        intervals: Scrape interval of each series, in seconds; absent where it cannot be told.
        steps: The step of the subqueries by window, in seconds; absent where none was asked.
        history: How far back the start of an idle stretch was looked for, in seconds, and
        history_step: in which steps; 0 for not at all.
        thresholds: The percentages that were looked for there.
        recorded: The windows that are read from recorded series,
        history_recorded: and whether the time before the windows is.
    """

    intervals: Mapping[Place, float] = msgspec.field(default_factory=dict)
    steps: Mapping[int, float] = msgspec.field(default_factory=dict)
    history: int = 0
    history_step: float = 0.0
    thresholds: tuple[int, ...] = ()
    recorded: frozenset[int] = frozenset()
    history_recorded: bool = False


class _Rows:
    """The answers about the series of one metric, for one window at one moment."""

    def __init__(self, table: Table, series: Series, timing: Timing, window: int, at: datetime) -> None:
        self._table = table
        self.series = series
        self.timing = timing
        self.window = window
        self.at = at
        self._query = maximum(series, window)
        self._above_rows = {
            threshold: table[series, Asked.ABOVE, threshold]
            for threshold in timing.thresholds
            if (series, Asked.ABOVE, threshold) in table
        }

    def rows(self, asked: Asked) -> Mapping[Place, float]:
        """The answer to a question, over the window if it has one."""
        for seconds in (self.window, 0):
            rows = self._table.get((self.series, asked, seconds))
            if rows is not None:
                return rows
        return {}

    def places(self) -> Iterator[Place]:
        """Everything that the answers describe."""
        merged: dict[Place, None] = {}
        for asked in (Asked.MAXIMUM, Asked.LAST, Asked.MOVED, Asked.MOVED_LAST):
            merged.update(dict.fromkeys(self.rows(asked)))
        return iter(merged)

    def reading(self, place: Place) -> Reading:
        """The metric of one device."""
        metric, window = self.series.metric, self.window
        step = self.timing.steps.get(window)
        time = self.rows(Asked.LAST_TIME).get(place)
        mean = self.rows(Asked.AVERAGE).get(place)
        return Reading(
            metric=metric,
            source=self.series.source.name,
            maximum=self._maximum(place),
            average=None if mean is None else mean * metric.scale,
            samples=round(self._samples(place)),
            expected=expected_steps(self.at.timestamp(), window, step) if step and self._is_counted() else 0,
            discarded=round(self.rows(Asked.DISCARDED).get(place, 0)),
            interval=self.timing.intervals.get(place),
            last_sample=None if time is None else datetime.fromtimestamp(time, UTC),
            last=_valid(metric, self.rows(Asked.LAST).get(place)),
            above=self._above(place),
            seen_since=self._seen_since(place),
            query=self._query,
            moved=self.rows(Asked.MOVED_LAST).get(place) if metric.role is Role.KERNEL else None,
        )

    def _is_counted(self) -> bool:
        """Whether the samples of the window were asked for."""
        return (self.series, Asked.VALID, self.window) in self._table

    def _samples(self, place: Place) -> float:
        """At how many steps there was a sample; of recorded series, no more than their pieces are long."""
        if self.window not in self.timing.recorded:
            return self._valid_rows(place).get(place, 0)
        step = self.timing.steps[self.window]
        counted = self.rows(Asked.VALID).get(place, 0) * self.timing.intervals.get(place, step) / step
        return min(counted, self.rows(Asked.PIECES).get(place, 0) * PIECE_SECONDS / step)

    def _valid_rows(self, place: Place) -> Mapping[Place, float]:
        """The counts with the reach that fits how often the series is scraped."""
        near = self.rows(Asked.VALID_NEAR)
        step = NEAR * self.timing.steps.get(self.window, 0.0)
        return near if near and self.timing.intervals.get(place, 0.0) <= step else self.rows(Asked.VALID)

    def _maximum(self, place: Place) -> float | None:
        """The largest true sample: of the plain range, or of the closer look where that has a false one."""
        plain = _valid(self.series.metric, self.rows(Asked.MAXIMUM).get(place))
        if plain is not None:
            return plain
        looks = [self.rows(asked).get(place) for asked in (Asked.CLOSER_HIGH, Asked.CLOSER_LOW)]
        return max((value * self.series.metric.scale for value in looks if value is not None), default=None)

    def _above(self, place: Place) -> dict[int, datetime | None]:
        found = {threshold: rows.get(place) for threshold, rows in self._above_rows.items()}
        return {
            threshold: None if time is None else datetime.fromtimestamp(time, UTC)
            for threshold, time in found.items()
        }

    def _seen_since(self, place: Place) -> datetime | None:
        first = self._table.get((self.series, Asked.FIRST, self.timing.history), {}).get(place)
        seen = self._table.get((self.series, Asked.SEEN, self.timing.history), {}).get(place, 0)
        if first is None or not self.timing.history_step:
            return None
        expected = (self.at.timestamp() - first) / self.timing.history_step
        return datetime.fromtimestamp(first, UTC) if seen >= HISTORY_COVERAGE * expected else None


def assemble(table: Table, timings: Mapping[Series, Timing], window: int, at: datetime) -> Signals:
    """Joins the answers for one window, in seconds, that ends at `at`."""
    found: dict[tuple[Sharing, bool, Place], dict[str, Reading]] = {}
    boards: dict[str, Board] = {}
    allocated: dict[tuple[Sharing, bool, Place], dict[str, Reading]] = {}
    aliased: list[_Rows] = []
    for series, timing in timings.items():
        rows = _Rows(table, series, timing, window, at)
        if series.aliased:
            aliased.append(rows)
            continue
        given = series.metric.role is Role.ALLOCATED
        for place in rows.places():
            reading = rows.reading(place)
            if not given:
                boards[place.device] = _noted(boards.get(place.device, Board()), rows, place, reading)
            if place.pod:
                kind = (series.source.sharing, series.source.rests, _anywhere(place))
                whole = (allocated if given else found).setdefault(kind, {})
                other = whole.get(series.metric.name)
                whole[series.metric.name] = _both(other, reading)
    for device, reading in _processes(aliased).items():
        boards[device] = msgspec.structs.replace(boards.get(device, Board()), processes=reading)
    return Signals(window, _by_pod(found), boards, _by_pod(allocated))


def _by_pod(
    found: Mapping[tuple[Sharing, bool, Place], Mapping[str, Reading]],
) -> dict[PodKey, tuple[Device, ...]]:
    pods: dict[PodKey, tuple[Device, ...]] = {}
    for (sharing, rests, place), readings in found.items():
        pods[place.key] = (*pods.get(place.key, ()), _device(sharing, rests, place, readings))
    return pods


def _processes(aliased: Iterable[_Rows]) -> dict[str, Reading]:
    """What processes hold of each device, 0 for none; both kinds of series have the alias."""
    devices: dict[tuple[PodKey, str], dict[str, Reading]] = {}
    used: dict[tuple[PodKey, str], Reading] = {}
    for rows in aliased:
        for place in rows.places():
            alias = (place.key, place.container)
            if rows.series.metric.role is Role.NAME:
                devices.setdefault(alias, {})[place.device] = _nobody(rows.series)
            else:
                used[alias] = _both(used.get(alias), rows.reading(place))
    found: dict[str, Reading] = {}
    for alias, names in devices.items():
        # An address that two exporters had in turn stands for the devices of both.
        for name, nobody in names.items():
            found[name] = _both(found.get(name), used.get(alias, nobody))
    return found


def _nobody(series: Series) -> Reading:
    """What a source that tells of processes says of a device that has none."""
    metric = next(one for one in series.source.metrics if one.role is Role.PROCESS)
    return Reading(metric, series.source.name, maximum=0.0)


def _both(one: Reading | None, other: Reading) -> Reading:
    return other if one is None else merge(one, other)


def merge(one: Reading, other: Reading) -> Reading:
    """What two scrapers know of one metric of one device: the busier, the better covered, the later."""
    return Reading(
        metric=one.metric,
        source=one.source,
        maximum=_largest(one.maximum, other.maximum),
        average=_largest(one.average, other.average),
        samples=max(one.samples, other.samples),
        expected=max(one.expected, other.expected),
        discarded=max(one.discarded, other.discarded),
        interval=min((value for value in (one.interval, other.interval) if value is not None), default=None),
        last_sample=_latest(one.last_sample, other.last_sample),
        last=_smallest(one.last, other.last)
        if one.metric.role is Role.KERNEL
        else _largest(one.last, other.last),
        above={
            threshold: _latest(one.above[threshold], other.above[threshold])
            for threshold in one.above.keys() & other.above.keys()
        },
        seen_since=_latest(one.seen_since, other.seen_since),
        query=one.query,
        moved=_smallest(one.moved, other.moved),
    )


def _device(sharing: Sharing, rests: bool, place: Place, readings: Mapping[str, Reading]) -> Device:
    return Device(
        device=place.device,
        instance=place.instance,
        container=place.container,
        sharing=sharing,
        virtual=place.virtual,
        uid=place.uid,
        readings=tuple(readings.values()),
        divided=place.divided,
        rests=rests,
    )


def _noted(board: Board, rows: _Rows, place: Place, reading: Reading) -> Board:
    """The board with what one series says of it."""
    role = rows.series.metric.role
    replace = msgspec.structs.replace
    if role is Role.HOST:
        return replace(board, host=(*board.host, reading))
    if role in {Role.FAULT_CODE, Role.LAST_FAULT}:
        return replace(board, fault_code=max(board.fault_code, rows.rows(Asked.MAXIMUM).get(place, 0.0)))
    if role is Role.FAULT_COUNT:
        return replace(board, faults=max(board.faults, rows.rows(Asked.MOVED).get(place, 0.0)))
    if role is Role.POWER:
        return replace(board, watts=_largest(board.watts, reading.maximum))
    if role is Role.ENERGY:
        moved = [rows.rows(asked).get(place) for asked in (Asked.MOVED, Asked.MOVED_LAST)]
        return replace(board, moved=_smallest(*moved, board.moved))
    if rows.series.source.sharing is Sharing.DEVICE:
        return _used(board, rows.series, place, reading)
    return board


def _used(board: Board, series: Series, place: Place, reading: Reading) -> Board:
    """The board with what one series tells of the device: who uses it, or what it does as a whole."""
    replace, instance = msgspec.structs.replace, place.instance
    if place.pod:
        users = board.pods.get(instance, frozenset()) | {place.key}
        return replace(board, pods={**board.pods, instance: users})
    if series.whole:
        # A device whose samples are all out of range may be busy: it is not at rest.
        value = float("inf") if reading.maximum is None else reading.maximum
        known = board.activity.get(instance, 0.0)
        board = replace(board, activity={**board.activity, instance: max(known, value)})
    if series.counted and reading.metric.role in JOINED:
        readings = (*board.whole.get(instance, ()), reading)
        board = replace(board, whole={**board.whole, instance: readings})
    return board


def _anywhere(place: Place) -> Place:
    return msgspec.structs.replace(place, job="")


def _valid(metric: Metric, raw: float | None) -> float | None:
    """A value in the metric's unit; None if it is absent or cannot be true."""
    return raw * metric.scale if raw is not None and 0 <= raw <= metric.highest else None


def _largest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _smallest(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _latest(*values: datetime | None) -> datetime | None:
    return max((value for value in values if value is not None), default=None)
