"""What a person, or a program, reads of a run."""

import json
from io import StringIO

from rich.console import Console

from bench.creation_figures import CreationFigures, CreationTargets
from bench.figures import CONTROLLER_RUNTIME, OURS, PLAIN, Figures, Ratio
from bench.processes import Memory
from bench.report import Run, as_json, show
from bench.rounds import Plan

GOOD = CreationTargets(-0.001, 1.2)


def run(
    load_share: float = 0.3,
    peak: int = 70_000_000,
    size: str = "10 kB",
    targets: CreationTargets = GOOD,
    rate: float = 321.0,
) -> Run:
    """A run with one size."""
    figures = tuple(
        Figures(name, size, 5000.0, 0.0002, 0.0015, 0.004, load_share, 60_000_000, 5)
        for name in (OURS, CONTROLLER_RUNTIME, PLAIN)
    )
    ratios = (
        Ratio(CONTROLLER_RUNTIME, "10 kB", 11.0, 9.5, 10.0),
        Ratio(PLAIN, "10 kB", 0.8, 0.7, 1.5),
        Ratio(PLAIN, "unlike", 0.4, 0.3),
    )
    creations = (CreationFigures(OURS, 0.0065, 0.02, 0.0012, rate, 5),)
    return Run(Plan(), figures, ratios, Memory(60_000_000, peak), creations, targets)


def printed(found: Run) -> str:
    """The tables as text."""
    out = StringIO()
    show(found, Console(file=out, width=110))
    return out.getvalue()


def test_tables_name_each_figure_and_say_which_targets_are_missed() -> None:
    """A missed target is said as plainly as a reached one."""
    lines = printed(run()).splitlines()
    row = next(line for line in lines if OURS in line and "10 kB" in line)
    assert all(cell in row for cell in ("5,000", "200 µs", "1.50 ms", "4.00 ms", "60.0 MB"))
    verdicts = [line for line in lines if "≥" in line]
    assert "11.00" in verdicts[0]
    assert "not reached" not in verdicts[0]
    assert "0.80" in verdicts[1]
    assert "not reached" in verdicts[1]
    assert not any("reached" in line for line in lines if "unlike" in line)


def test_memory_beyond_the_limit_is_said() -> None:
    """The peak counts, not what is left at the end."""
    said = next(line for line in printed(run(peak=81_000_000)).splitlines() if "resident" in line)
    assert "not reached" in said


def test_a_large_pod_is_judged_by_its_latency() -> None:
    """Only where such pods were measured."""
    assert not any("takes" in line for line in printed(run()).splitlines())
    said = next(line for line in printed(run(size="1 MB")).splitlines() if "takes" in line)
    assert "1.50 ms" in said
    assert said.endswith(": reached")


def test_creations_are_shown_with_what_the_webhook_adds() -> None:
    """Both targets are judged."""
    lines = printed(run()).splitlines()
    row = next(line for line in lines if "6.50 ms" in line)
    assert all(cell in row for cell in (OURS, "20.00 ms", "1.20 ms", "321"))
    assert [line.rsplit(": ", 1)[1] for line in lines[-2:]] == ["reached", "reached"]
    assert "adds 1.00 ms less" in lines[-2]


def test_a_slower_creation_is_said() -> None:
    """A missed target of the API server's part is said as plainly as the others."""
    lines = printed(run(targets=CreationTargets(0.001, 0.9))).splitlines()
    assert [line.rsplit(": ", 1)[1] for line in lines[-2:]] == ["not reached", "not reached"]
    assert "adds 1.00 ms more" in lines[-2]


def test_a_busy_load_generator_is_remarked() -> None:
    """Where it was the limit, the rate says nothing of the server."""
    assert "the load generator used" not in printed(run())
    assert "the load generator used 95% of its core" in printed(run(load_share=0.95))


def test_a_pace_that_the_machine_cannot_keep_is_remarked() -> None:
    """Then latency says nothing of the webhook."""
    assert "had to queue" not in printed(run())
    assert "49 creations a second were possible" in printed(run(rate=49.0))


def test_json_carries_the_same_figures() -> None:
    """Numbers are in base units."""
    found = json.loads(as_json(run()))
    assert found["plan"]["rounds"] == 5
    assert found["figures"][0]["cpuSecondsPerReview"] == 0.0002
    assert found["ratios"][0] == {
        "comparator": CONTROLLER_RUNTIME,
        "workload": "10 kB",
        "perCore": 11.0,
        "perSecond": 9.5,
        "target": 10.0,
    }
    assert found["memory"] == {"now": 60_000_000, "peak": 70_000_000}
