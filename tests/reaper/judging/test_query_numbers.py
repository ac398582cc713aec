"""How many queries a cycle asks, by exporter: a fixed number and one per window, never one per pod."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from reaper.criteria import JudgeSettings
from reaper.exporters import SOURCES
from reaper.observation import observe
from reaper.prometheus import Sample
from reaper.queries import HAS
from reaper.sources import Role, Source
from tests.reaper.judging.past import HOUR, NOW

PAGE = Path(__file__).parents[3] / "docs" / "sources.md"
ROW = re.compile(r"^\| `([a-z0-9.-]+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
BY = re.compile(r"max by \(([^)]*)\)")
OTHER_PREFIX = "amd_"
ANSWERS = (
    ("[600000ms]", 40.0),
    ("[120000ms]", 8.0),
    (" offset ", NOW.timestamp() - 604),
    ("timestamp(", NOW.timestamp() - 4),
)
"""What a series that is scraped every 15 s answers to parts of queries; to all others 0."""


class Counting:
    """A Prometheus that has every metric of a source, in its first form, for some pods; counts queries."""

    def __init__(self, source: Source, pods: int) -> None:
        self.number = 0
        self._source = source
        self._pods = pods

    async def query(self, expression: str, at: datetime) -> list[Sample]:
        """Answers every query about every pod."""
        assert at == NOW
        self.number += 1
        if expression.startswith("count by (__name__"):
            return list(self._discovered())
        found = BY.search(expression)
        assert found
        value = next((value for part, value in ANSWERS if part in expression), 0.0)
        kept = found.group(1).split(", ")
        return [Sample(dict.fromkeys(kept, f"x{number}"), value) for number in range(self._pods)]

    def _discovered(self) -> Sequence[Sample]:
        marks = self._source.forms[0].marks if self._source.forms else ()
        labels = {"job": "j", **{HAS + mark: "1" for mark in marks}}
        names = (one.name for one in self._source.metrics if not one.name.startswith(OTHER_PREFIX))
        return [Sample({"__name__": name, **labels}, 1.0) for name in names]


async def asked(
    source: Source,
    windows: Sequence[int],
    thresholds: Sequence[int],
    pods: int = 1,
    averaged: Sequence[int] = (),
) -> int:
    """The number of queries of one observation."""
    counting = Counting(source, pods)
    found = await observe(counting, windows, NOW, JudgeSettings(sources=(source,)), thresholds, averaged)
    assert found.complete, found.problems
    assert found.metrics
    return counting.number


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
async def test_the_numbers_are_those_of_the_documentation(source: Source) -> None:
    """Fixed, per window, for its averages, and per threshold; the same for a hundred pods as for one."""
    documented = {name: tuple(map(int, numbers)) for name, *numbers in ROW.findall(PAGE.read_text())}
    one = await asked(source, [HOUR], [5])
    window = await asked(source, [HOUR, 1800], [5]) - one
    threshold = await asked(source, [HOUR], [5, 10]) - one
    average = await asked(source, [HOUR], [5], averaged=[HOUR]) - one
    assert (one - window - threshold, window, average, threshold) == documented[source.name]
    assert await asked(source, [HOUR, 1800, 900], [5]) == one + 2 * window
    assert await asked(source, [HOUR], [5], pods=100) == one


def test_every_source_has_a_row() -> None:
    """And no row is of a source that is gone."""
    assert {name for name, *_ in ROW.findall(PAGE.read_text())} == {source.name for source in SOURCES}


def test_every_metric_is_documented() -> None:
    """By its name, in the row of its source, with its role and whether it proves idleness."""
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    told = {
        (cells[1].strip(" `"), cells[2].strip(" `")): cells
        for cells in rows
        if len(cells) == 7 and "`" in cells[2]
    }
    metrics = {
        (source.name, metric.name): (metric.role, metric.principal)
        for source in SOURCES
        for metric in source.metrics
        if not metric.name.startswith(OTHER_PREFIX)
    }
    assert metrics == {
        key: (Role(cells[4].strip()), cells[5].strip() == "yes") for key, cells in told.items()
    }
