"""Writes the PromQL of one cycle from the tables' names and our numbers; no label value goes into it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from reaper.intervals import EARLIER_SECONDS
from reaper.sources import Form, Metric, Role, Source

HAS = "gpu_tenure_has_"
"""What precedes a label's name in the discovery's answer."""

TARGET = "job, instance"
"""The labels that a target's series share with its `up`; where they were changed, `up` tells nothing."""

CLUSTERS = ("cluster", "cluster_id", "cluster_name", "k8s_cluster", "k8s_cluster_name")
"""Labels that say which cluster a series comes from, where one Prometheus answers for several."""

LOOKBACK_SECONDS = 300.0
"""How far Prometheus looks back for the last sample of a series by itself."""


class Series(Struct, frozen=True, cache_hash=True):
    """The series of one metric in one form, as PromQL.

    Attributes:
        source: The exporter.
        metric: The row of its table.
        form: How the workload is named.
        extra: Matchers of the settings.
        counted: Whether its samples are counted; those of whole devices need not be where the series of pods
            have the same samples.
    """

    source: Source
    metric: Metric
    form: Form
    extra: str = ""
    counted: bool = True

    @property
    def selector(self) -> str:
        """The name with its matchers."""
        where = matchers_of(dict(self.metric.where))
        return self.metric.name + braces(self.form.matchers, self._not_virtual, where, self.extra)

    @property
    def whole(self) -> bool:
        """Whether it is the activity of whole devices, beside that of the pods."""
        return self.metric.role is Role.ACTIVITY and not self.form.pod

    @property
    def aliased(self) -> bool:
        """Whether its labels stand for a device: a place's key and container are then its alias."""
        return bool(self.form.pod) and self.form == self.source.alias

    @property
    def _not_virtual(self) -> str:
        """What one sharer did is not the activity of the device."""
        return f'{self.source.virtual}=""' if self.whole and self.source.virtual else ""

    @property
    def by(self) -> str:
        """The labels kept: workload and device, never the exporter's, which change when it restarts."""
        kept = (*self.form.labels, *self.source.device, self.source.instance, self.source.mode)
        if self.form.pod:
            kept = (*kept, self.source.virtual, *self.source.uid)
        return ", ".join(dict.fromkeys(label for label in kept if label))

    def largest(self, inner: str) -> str:
        """The largest value of each device; several scrapers of one device become one series."""
        return f"max by ({self.by}) ({inner})"


def braces(*matchers: str) -> str:
    """Joins matchers; empty for none."""
    text = ",".join(matcher for matcher in matchers if matcher)
    return f"{{{text}}}" if text else ""


def matchers_of(settings: Mapping[str, str]) -> str:
    """Matchers for labels that the administrator named, quoted."""
    return ",".join(f"{name}={quoted(value)}" for name, value in sorted(settings.items()))


def quoted(text: str) -> str:
    """A PromQL string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def span(seconds: float) -> str:
    """A PromQL duration, exact to the millisecond."""
    return f"{round(seconds * 1000)}ms"


def number(value: float) -> str:
    """A PromQL number."""
    return repr(float(value))


def discovery(seconds: int, extra: str, sources: Collection[Source]) -> str:
    """Which metrics of the tables exist, by scrape job, cluster, and the telling labels they carry."""
    names = "|".join(metric.name for source in sources for metric in source.metrics)
    inner = f"last_over_time({braces(f'__name__=~{quoted(names)}', extra)}[{span(seconds)}])"
    marks = telling_labels(sources)
    for label in marks:
        inner = f'label_replace({inner}, "{HAS}{label}", "1", "{label}", ".+")'
    by = ", ".join(("__name__", "job", *CLUSTERS, *(HAS + label for label in marks)))
    return f"count by ({by}) ({inner})"


def telling_labels(sources: Collection[Source]) -> list[str]:
    """The labels that tell in which form, and of what, series are."""
    found: dict[str, None] = {}
    for source in sources:
        found.update(dict.fromkeys(label for form in source.forms for label in (*form.marks, *form.lacks)))
        found.update(dict.fromkeys([source.virtual] if source.virtual else []))
    return list(found)


def found_labels(labels: Mapping[str, str]) -> frozenset[str]:
    """The telling labels that the series behind one row of the discovery carry."""
    return frozenset(
        name.removeprefix(HAS) for name, value in labels.items() if name.startswith(HAS) and value
    )


def clusters_of(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Which cluster one row of the discovery is of, by each label that says so."""
    return frozenset((name, labels[name]) for name in CLUSTERS if labels.get(name))


def sample_count(series: Series, seconds: int) -> str:
    """How many samples each device should have got: the scrapes of its target, if they are more than it has.

    A scrape that failed is a sample of `up` all the same. Without that, a series with gaps would seem to be
    scraped more slowly, and its gaps would not show: an exporter may fail just when its devices are busy.
    """
    own = f"count_over_time({series.selector}[{span(seconds)}])"
    up = f"count_over_time(up{braces(series.extra)}[{span(seconds)}])"
    scrapes = f"0 * {own} + on ({TARGET}) group_left () max by ({TARGET}) ({up})"
    return series.largest(f"{scrapes} > {own} or {own}")


def last_time(series: Series) -> str:
    """When the last sample of each device was taken, in unix seconds."""
    return series.largest(f"timestamp({series.selector})")


def earlier_time(series: Series) -> str:
    """When the last sample before EARLIER_SECONDS ago was taken, in unix seconds."""
    return series.largest(f"timestamp({series.selector} offset {span(EARLIER_SECONDS)})")


def last_value(series: Series) -> str:
    """The last value of each device."""
    return series.largest(series.selector)


def maximum(series: Series, window: int) -> str:
    """The largest sample, over the plain range, so that no sample can fall between two steps."""
    return series.largest(f"max_over_time({series.selector}[{span(window)}])")


def _valid(series: Series, reach: float) -> str:
    inner = f"last_over_time({series.selector}[{span(reach)}])"
    return series.largest(f"{inner} >= 0 <= {number(series.metric.highest)}")


def valid_count(series: Series, window: int, step: float, reach: float) -> str:
    """At how many steps the device's last sample, at most `reach` seconds old, exists and can be true."""
    return f"count_over_time(({_valid(series, reach)})[{span(window)}:{span(step)}])"


def average(series: Series, window: int, step: float, reach: float) -> str:
    """The mean over the same steps."""
    return f"avg_over_time(({_valid(series, reach)})[{span(window)}:{span(step)}])"


def plain_average(series: Series, window: int) -> str:
    """The mean of all samples, of series whose samples are not counted."""
    return series.largest(f"avg_over_time({series.selector}[{span(window)}])")


def closer_maximum(series: Series, window: int, step: float, pick: str) -> str:
    """The largest sample that can be true, looking at slices of one interval each.

    A slice has one sample, or two when a scrape was early; `pick` (`max` or `min`) of them is taken, so that
    the two queries together see every true sample, also beside one that cannot be true.
    """
    inner = f"{pick}_over_time({series.selector}[{span(step)}]) >= 0 <= {number(series.metric.highest)}"
    return f"max_over_time(({series.largest(inner)})[{span(window)}:{span(step)}])"


def discarded_count(series: Series, window: int, step: float) -> str:
    """In how many slices a sample was out of range."""
    highest = number(series.metric.highest)
    inner = f"max_over_time({series.selector}[{span(step)}]) > {highest}"
    return f"count_over_time(({series.largest(inner)})[{span(window)}:{span(step)}])"


def fresh_code(series: Series, window: int) -> str:
    """The largest code of the window; nothing for a code that was there before it and has not changed since.

    What began within the window with a code, or went through any other value, may be new.
    """
    most = maximum(series, window)
    least = f"min by ({series.by}) (min_over_time({series.selector}[{span(window)}]))"
    before = series.largest(f"{series.selector} offset {span(window)}")
    return f"{most} unless ({most} == {least} == {before})"


def movement(series: Series, window: int) -> str:
    """By how much a counter moved."""
    return series.largest(
        f"max_over_time({series.selector}[{span(window)}]) - min_over_time({series.selector}[{span(window)}])"
    )


def sure_movement(series: Series, seconds: float) -> str:
    """The same, where there are at least two samples: one alone cannot move."""
    enough = series.largest(f"count_over_time({series.selector}[{span(seconds)}])")
    return f"{movement(series, math.ceil(seconds))} and ({enough} >= 2)"


def least_movement(series: Series, window: int, piece: float) -> str:
    """The least that a counter moved in any piece of the window."""
    return f"min_over_time(({sure_movement(series, piece)})[{span(window)}:{span(piece / 2)}])"


def last_above(series: Series, threshold: float, seconds: int, step: float) -> str:
    """When, to one step, the device was last at or above a threshold in percent.

    Each step looks at the maximum of the whole step before it: no sample is lost, whatever the step.
    """
    raw = number(threshold / series.metric.scale)
    inner = series.largest(f"max_over_time({series.selector}[{span(step)}])")
    return f"max_over_time((0 * ({inner} >= {raw} < Inf) + time())[{span(seconds)}:{span(step)}])"


def first_time(series: Series, seconds: int, step: float) -> str:
    """When, to one step, the device was first seen."""
    inner = series.largest(f"count_over_time({series.selector}[{span(step)}])")
    return f"min_over_time((0 * {inner} + time())[{span(seconds)}:{span(step)}])"


def steps_seen(series: Series, seconds: int, step: float) -> str:
    """At how many steps the device had any sample."""
    inner = series.largest(f"count_over_time({series.selector}[{span(step)}])")
    return f"count_over_time(({inner})[{span(seconds)}:{span(step)}])"


def expected_steps(at: float, window: int, step: float) -> int:
    """How many steps of a subquery lie in the window that ends at `at`: all are multiples of `step`."""
    step_ms = round(step * 1000)
    end = round(at * 1000)
    return max(1, end // step_ms - (end - window * 1000) // step_ms)


def names_of(series: Iterable[Series]) -> frozenset[str]:
    """The names of the metrics of some series."""
    return frozenset(one.metric.name for one in series)
