"""What a soak prints for people."""

from __future__ import annotations

from collections import Counter
from io import StringIO

from rich.console import Console

from sandbox.soak.faults import Kind
from sandbox.soak.memory import Growth
from sandbox.soak.report import Report, show


def shown(*wrongs: str) -> str:
    """Gives what is printed of a soak that found this wrong."""
    report = Report(
        seed=7,
        seconds=90.0,
        faults=Counter({Kind.LEADER_KILLED: 2}),
        pods=20,
        evicted=3,
        handovers={Kind.LEADER_KILLED: [16.25, 15.5]},
        cycles={"complete": 40.0, "held": 2.0},
        growths=[Growth("first.1", [(0.0, 70_000_000), (60.0, 71_000_000)])],
        wrongs=wrongs,
    )
    out = StringIO()
    show(report, Console(file=out, width=110))
    return out.getvalue()


def test_a_soak_says_what_came_and_what_it_found() -> None:
    """Faults with their hand-overs, memory, and the seed that repeats it."""
    text = shown()
    assert "1.5 minutes of faults" in text
    assert "16.2 s, 15.5 s" in text
    assert "too short to tell" in text
    assert "20 pods, 3 evicted; cycles: 40 complete, 2 held; seed 7" in text
    assert "no pod in use was evicted" in text


def test_what_went_wrong_is_told_as_it_is() -> None:
    """An error's text may look like markup."""
    text = shown("API server killed: ApiError: [/team] is gone")
    assert "✘ API server killed: ApiError: [/team] is gone" in text
    assert "no pod in use" not in text
