"""The dashboards' files: what Grafana needs to load them, and that they are those of the tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DASHBOARDS = sorted((ROOT / "manifests" / "chart" / "files" / "dashboards").glob("*.json"))


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_dashboards_can_be_shipped(file: Path) -> None:
    """A fixed uid, the data source a variable, nothing to fill in, panels that do not overlap."""
    board = json.loads(file.read_text())
    assert board["uid"] == f"gpu-tenure-{file.stem}"
    assert "__inputs" not in board
    assert [one["name"] for one in board["templating"]["list"]] == ["datasource"]
    cells = set()
    for panel in board["panels"]:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24
                assert (x, y) not in cells
                cells.add((x, y))


def test_dashboards_are_those_of_the_tables() -> None:
    """The generator would write nothing else."""
    script = [sys.executable, str(ROOT / "manifests" / "dashboards.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
