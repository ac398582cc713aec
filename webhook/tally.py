"""Counters that cost a dictionary entry, read out when they are scraped; knows nothing of what they count.

A counter of the client library takes a lock and several calls per increment. All reviews run on one event
loop, so none of that is needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

Labels = tuple[str, ...]


class Tally:
    """A counter by label values; `name` is without `_total`.

    `known` are label values that are shown from the start: how a series grew that begins at 1 nobody can see.
    """

    def __init__(
        self, name: str, documentation: str, labels: Sequence[str] = (), known: Iterable[Labels] = ()
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = tuple(labels)
        self.counts: dict[Labels, int] = dict.fromkeys(known, 0) if labels else {(): 0}

    def add(self, *values: str) -> None:
        """Counts one more for these label values."""
        self.counts[values] = self.counts.get(values, 0) + 1

    def family(self) -> Metric:
        """The counter as it is exposed."""
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for values, count in self.counts.items():
            family.add_metric(values, count)
        return family


class Spread:
    """A histogram of seconds by label values."""

    def __init__(
        self, name: str, documentation: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._bounds = tuple(bounds)
        self._labels = tuple(labels)
        self._buckets: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def add(self, seconds: float, *values: str) -> None:
        """Counts one observation for these label values."""
        buckets = self._buckets.get(values)
        if buckets is None:
            buckets = self._buckets[values] = [0] * (len(self._bounds) + 1)
            self._sums[values] = 0.0
        buckets[bisect_left(self._bounds, seconds)] += 1
        self._sums[values] += seconds

    def family(self) -> Metric:
        """The histogram as it is exposed: buckets add up."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        names = [*(str(bound) for bound in self._bounds), "+Inf"]
        for values, buckets in self._buckets.items():
            totals = [sum(buckets[: index + 1]) for index in range(len(buckets))]
            family.add_metric(values, list(zip(names, map(float, totals), strict=True)), self._sums[values])
        return family


class Tallies(Collector):
    """Exposes tallies and spreads."""

    def __init__(self, parts: Sequence[Tally | Spread]) -> None:
        self._parts = tuple(parts)

    def collect(self) -> Iterable[Metric]:
        """All families as they stand."""
        return [part.family() for part in self._parts]
