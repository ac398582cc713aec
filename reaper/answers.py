"""Reads the labels of Prometheus' answers: whom and what a value describes; knows no roles and no windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from msgspec import Struct

from reaper.intervals import DETECT_SECONDS, Scrapes, tell_intervals
from reaper.prometheus import Sample
from reaper.queries import Series
from reaper.signals import PodKey


class Asked(StrEnum):
    """What a query asked of the series of a metric."""

    COUNT = "count"
    LAST_TIME = "last-time"
    EARLIER_TIME = "earlier-time"
    LAST = "last"
    MAXIMUM = "maximum"
    VALID = "valid"
    VALID_NEAR = "valid-near"
    PIECES = "pieces"
    AVERAGE = "average"
    CLOSER_HIGH = "closer-high"
    CLOSER_LOW = "closer-low"
    DISCARDED = "discarded"
    MOVED = "moved"
    MOVED_LAST = "moved-last"
    ABOVE = "above"
    FIRST = "first"
    SEEN = "seen"


Key = tuple[Series, Asked, int]
"""A question: of which series, what, and over how many seconds (or, for ABOVE, above which percent)."""


class Place(Struct, frozen=True, cache_hash=True):
    """Whom and what one series describes."""

    namespace: str
    pod: str
    container: str
    device: str
    instance: str
    virtual: bool
    uid: str
    job: str
    divided: bool = False

    @property
    def key(self) -> PodKey:
        """The pod."""
        return self.namespace, self.pod


def place_of(series: Series, labels: Mapping[str, str]) -> Place | None:
    """Reads the labels of a series; None if no device is named, nor could be by an alias."""
    source, form = series.source, series.form
    parts = [labels.get(name, "") for name in source.device]
    if not parts[-1] and not series.aliased:
        return None
    return Place(
        namespace=labels.get(form.namespace, ""),
        pod=labels.get(form.pod, ""),
        container=labels.get(form.container, ""),
        device=_named("/".join(part for part in parts if part), source.prefix),
        instance=labels.get(source.instance, ""),
        virtual=bool(labels.get(source.virtual)),
        uid=next((labels[name] for name in source.uid if labels.get(name)), ""),
        job=labels.get("job", ""),
        divided=labels.get(source.mode, "").lower() not in {"", *source.undivided},
    )


def _named(device: str, prefix: str) -> str:
    """The device's name as other exporters print it."""
    return device if device.startswith(prefix) else prefix + device


Table = Mapping[Key, Mapping[Place, float]]
"""Answers by question, then by what the series describe."""


def table_of(answers: Mapping[Key, list[Sample]], exported_jobs: Mapping[str, Collection[str]]) -> Table:
    """Reads the labels of all answers.

    Where a scrape job names workloads in another way (by `exported_pod`, say), its plain series are free
    devices, and their `pod` is the exporter: they are dropped.
    """
    table: dict[Key, dict[Place, float]] = {}
    for key, samples in answers.items():
        series = key[0]
        own = exported_jobs.get(series.metric.name, ()) if series.form.clashes else ()
        rows = table.setdefault(key, {})
        for sample in samples:
            place = place_of(series, sample.labels)
            if place is None or (place.job and place.job in own):
                continue
            rows[place] = sample.value
    return table


def intervals(table: Table, series: Series, given: float | None, at: float) -> dict[Place, float]:
    """The scrape interval of each series at a unix time: detected, but never above the one that is given."""
    rows = {seconds: table.get((series, Asked.COUNT, seconds), {}) for seconds in DETECT_SECONDS}
    last = table.get((series, Asked.LAST_TIME, 0), {})
    earlier = table.get((series, Asked.EARLIER_TIME, 0), {})
    scrapes = {
        place: Scrapes(
            {seconds: counts.get(place, 0) for seconds, counts in rows.items()},
            last[place] - earlier[place] if place in last and place in earlier else None,
            at - last.get(place, at),
        )
        for place in {**rows[DETECT_SECONDS[0]], **rows[DETECT_SECONDS[1]]}
    }
    found = tell_intervals(scrapes)
    if given is None:
        return found
    return {place: min(found.get(place, given), given) for place in scrapes}
