"""Every Event and every metric of the reaper is explained in docs/audit.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from reaper import metrics
from reaper.messages import EventReason

DOCS = Path(__file__).parents[3] / "docs"
AUDIT = (DOCS / "audit.md").read_text(encoding="utf-8")
METRICS = [one for one in vars(metrics).values() if isinstance(one, MetricWrapperBase)]


def name_of(metric: MetricWrapperBase) -> str:
    """Gives the name under which a metric is scraped."""
    (family,) = metric.describe()
    return family.name + ("_total" if family.type == "counter" else "")


@pytest.mark.parametrize("reason", EventReason)
def test_every_reason_of_an_event_is_explained(reason: EventReason) -> None:
    """Where Events are told of; whoever sees one can look it up."""
    assert f"`{reason.value}`" in AUDIT.partition("## Events")[2].partition("\n## ")[0]


@pytest.mark.parametrize("metric", METRICS, ids=name_of)
def test_every_metric_is_explained(metric: MetricWrapperBase) -> None:
    """With the labels that it has."""
    labels = ",".join(metric._labelnames)
    name = name_of(metric)
    assert f"`{name}{{{labels}}}`" in AUDIT if labels else f"`{name}`" in AUDIT
