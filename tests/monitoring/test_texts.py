"""Metrics that commands name to people, or ask Prometheus for, are exported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.monitoring.test_queries import exported_by_us

ROOT = Path(__file__).parents[2]
METRIC = re.compile(r"\bgpu_tenure_(?:webhook|reaper|quota|certs)_[a-z_]+")
NAMED = sorted(
    {(name, file.name) for file in (ROOT / "cli").rglob("*.py") for name in METRIC.findall(file.read_text())}
)


def test_some_metrics_are_named() -> None:
    """Otherwise nothing is looked at below."""
    assert {"gpu_tenure_reaper_alerts_total", "gpu_tenure_reaper_brake_engaged"} <= {
        name for name, _ in NAMED
    }


@pytest.mark.parametrize(("name", "file"), NAMED)
def test_a_metric_that_a_command_names_is_exported(name: str, file: str) -> None:
    """Under this very name, with its ending."""
    assert name in exported_by_us(), file
