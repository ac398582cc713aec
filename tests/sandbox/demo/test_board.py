from io import StringIO

from rich.console import Console

from sandbox.demo.board import table
from sandbox.demo.rows import Row


def drawn(*rows: Row) -> str:
    """The table as text."""
    console = Console(file=StringIO(), width=200)
    with console.capture() as capture:
        console.print(table(rows, "title"))
    return capture.get()


def test_pods_of_one_run_that_fare_alike_share_a_line() -> None:
    """Seven waiting ranks are one line that counts them; the busy one has its own."""
    waiting = [
        Row("a", f"sweep-{n}-x", 1, verdict="Idle", reason="BelowThreshold", skip="PeerNotIdle")
        for n in range(7)
    ]
    text = drawn(*waiting, Row("a", "sweep-7-x", 1, verdict="Active", reason="AboveThreshold"))
    assert "sweep-… (7 pods)" in text
    assert "sweep-7-x" in text
    assert text.count("PeerNotIdle") == 1


def test_a_warned_pod_shows_when_it_will_be_evicted() -> None:
    """The announced time is in the table."""
    row = Row(
        "a",
        "p",
        1,
        verdict="Idle",
        reason="BelowThreshold",
        reclaim_at="2026-01-01T09:10:11Z",
        outcome="warned",
    )
    assert "evicted at 09:10:11Z unless used" in drawn(row)


def test_a_parked_pod_is_called_parked() -> None:
    """Idle with memory held is shown as such."""
    assert "Idle, parked" in drawn(Row("a", "p", 1, verdict="Idle", reason="BelowThreshold", parked=True))
