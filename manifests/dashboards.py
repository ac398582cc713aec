"""Writes Grafana's dashboards into the chart from the tables of manifests/panels.py.

`python manifests/dashboards.py` writes; with `--check` it only says what differs, and exits 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from manifests.panels import DASHBOARDS, Panel  # noqa: E402 - the script runs from anywhere

TARGET: Final = ROOT / "manifests" / "chart" / "files" / "dashboards"
WIDTH: Final = 24
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def placed(panels: Sequence[Panel]) -> Iterator[tuple[Panel, dict[str, int]]]:
    """Gives each panel its place, from left to right and from the top down."""
    column, row, tallest = 0, 0, 0
    for panel in panels:
        if column + panel.width > WIDTH:
            column, row, tallest = 0, row + tallest, 0
        yield panel, {"x": column, "y": row, "w": panel.width, "h": panel.height}
        column, tallest = column + panel.width, max(tallest, panel.height)


def panel_model(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    """A panel as Grafana reads it."""
    instant = panel.kind in {"stat", "table", "bargauge"}
    targets = [
        {
            "refId": chr(ord("A") + index),
            "expr": query,
            "legendFormat": legend or "__auto",
            "instant": instant,
        }
        for index, (query, legend) in enumerate(panel.queries)
    ]
    limits = {"min": 0, "max": 1} if panel.unit == "percentunit" and panel.kind != "stat" else {}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, **limits}, "overrides": []},
        "options": {},
        "targets": [{**target, "datasource": DATASOURCE} for target in targets],
    }


def dashboard(name: str, panels: Sequence[Panel]) -> dict[str, Any]:
    """A dashboard as Grafana reads it: a fixed uid, and the data source chosen above the panels."""
    choice = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    links = [{"type": "dashboards", "tags": ["gpu-tenure"], "title": "gpu-tenure", "asDropdown": True}]
    return {
        "uid": f"gpu-tenure-{name}",
        "title": f"gpu-tenure / {name.capitalize()}",
        "tags": ["gpu-tenure"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [choice]},
        "links": links,
        "panels": [
            panel_model(number, panel, place) for number, (panel, place) in enumerate(placed(panels), 1)
        ],
    }


def main(arguments: list[str]) -> int:
    """Writes, or compares; returns the exit code."""
    differing = 0
    for name, panels in DASHBOARDS.items():
        path, text = TARGET / f"{name}.json", json.dumps(dashboard(name, panels), indent=1) + "\n"
        if "--check" not in arguments:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path.name} differs: run python manifests/dashboards.py", file=sys.stderr)
            differing = 1
    return differing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
