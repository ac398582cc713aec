"""`gpu-tenure judge --source-file`: exporters of one's own, from any settings file."""

from __future__ import annotations

from pathlib import Path

from policy.durations import format_time
from tests.cli.test_judge import listed, pod, run, terms, verdicts
from tests.reaper.judging.past import BUSY, IDLE, NOW, Line, prometheus_of, scraped, workload

FILE = """
cycle: 60s
sources:
  - name: lab
    vendors: [nvidia]
    labels: {}
    device: [uuid]
    metrics: [{name: lab_busy_percent, signal: utilization, role: activity, principal: true}]
"""


def test_an_exporter_of_a_file(tmp_path: Path) -> None:
    """Its pods are judged, and the evidence names it."""
    (tmp_path / "settings.yaml").write_text(FILE)
    lines = [
        Line("lab_busy_percent", scraped("lab", workload(name), uuid=f"GPU-{name}"), value)
        for name, value in (("idle", IDLE), ("busy", BUSY))
    ]
    with prometheus_of(lines, tmp_path) as url:
        arguments = ("--pods", "-", "--prometheus-url", url, "--at", format_time(NOW), "-o", "json")
        stdin = listed(*(pod(name, labels=terms()) for name in ("idle", "busy")))
        plain = run(*arguments, stdin=stdin)
        ran = run(*arguments, "--source-file", str(tmp_path / "settings.yaml"), stdin=stdin)
    assert {one["reason"] for one in verdicts(plain).values()} == {"NoSeries"}
    found = verdicts(ran)
    assert {name: one["verdict"] for name, one in found.items()} == {"idle": "Idle", "busy": "Active"}
    assert found["idle"]["evidence"]["signals"][0]["source"] == "lab"


def test_what_is_wrong_with_the_file_is_said(tmp_path: Path) -> None:
    """With its place, and before anything is asked."""
    arguments = ("--pods", "-", "--prometheus-url", "http://127.0.0.1:9")
    for text, said in (
        (FILE.replace("activity", "busyness"), "sources[0].metrics[0].role: must be one of activity"),
        ("cycle: 60s\n", "must hold a list of exporters under `sources`"),
        ("sources: {}\n", "must hold a list of exporters under `sources`"),
        ("sources: [", "not valid YAML"),
    ):
        (tmp_path / "settings.yaml").write_text(text)
        ran = run(*arguments, "--source-file", str(tmp_path / "settings.yaml"), stdin=listed())
        assert ran.code == 2
        assert said in ran.err
