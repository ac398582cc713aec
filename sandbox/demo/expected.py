"""Compares what the demo ended with to the table of expected outcomes; no I/O but reading that table."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from sandbox.demo.rows import Row

TABLE = Path(__file__).with_name("expected.yaml")
COMPARED = {
    "class": "pod_class",
    "deadline": "deadline",
    "verdict": "verdict",
    "reason": "reason",
    "skip": "skip",
    "parked": "parked",
    "outcome": "outcome",
    "naive": "naive",
}

# What a row of the table means where it does not say.
UNSAID = {"skip": "", "parked": False}


@dataclass
class Comparison:
    """How rows and expectations differ; nothing differs if `differences` is empty."""

    differences: list[str] = field(default_factory=list)
    matched: int = 0


def load_expected(path: Path = TABLE) -> list[dict[str, Any]]:
    """Return the rows of the table."""
    return list(yaml.safe_load(path.read_text(encoding="utf-8")))


def compare(rows: Iterable[Row], expected: Iterable[dict[str, Any]]) -> Comparison:
    """Match every expectation to as many rows as it counts; a row left over is a difference too."""
    left = list(rows)
    comparison = Comparison()
    for wanted in expected:
        _take(wanted, left, comparison)
    comparison.differences += [
        f"{row.namespace}/{row.pod}: not in the table of expected outcomes" for row in left
    ]
    return comparison


def _take(wanted: dict[str, Any], left: list[Row], comparison: Comparison) -> None:
    count = int(wanted.get("count", 1))
    here = [
        row for row in left if row.namespace == wanted["namespace"] and fnmatchcase(row.pod, wanted["pod"])
    ]
    fitting = [row for row in here if not _differences(wanted, row)][:count]
    for row in fitting:
        left.remove(row)
    comparison.matched += len(fitting)
    missing = count - len(fitting)
    nearest = [row for row in here if row not in fitting][:missing]
    for row in nearest:
        left.remove(row)
        comparison.differences += _differences(wanted, row)
    if missing > len(nearest):
        comparison.differences.append(
            f"{wanted['namespace']}/{wanted['pod']}: {missing - len(nearest)} missing"
        )


def _differences(wanted: dict[str, Any], row: Row) -> list[str]:
    differing = []
    for key, attribute in COMPARED.items():
        found, expected = getattr(row, attribute), wanted.get(key, UNSAID.get(key))
        if found != expected:
            differing.append(f"{row.namespace}/{row.pod}: {key} is {found!r}, expected {expected!r}")
    return differing
