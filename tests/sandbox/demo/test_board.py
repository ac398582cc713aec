from io import StringIO

from rich.console import Console, RenderableType

from sandbox.demo.board import WIDE, admitted, judged
from sandbox.demo.rows import Row


def drawn(*rows: Row, width: int = WIDE) -> str:
    """The table of the reaper as text."""
    return text_of(judged(rows, "title", width), width)


def text_of(table: RenderableType, width: int) -> str:
    """A table as a terminal of this width shows it."""
    console = Console(file=StringIO(), width=width)
    with console.capture() as capture:
        console.print(table)
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
    assert "evicted at 09:10:11Z" in drawn(row)


def test_a_parked_pod_is_called_parked() -> None:
    """Idle with memory held is shown as such."""
    assert "Idle, parked" in drawn(Row("a", "p", 1, verdict="Idle", reason="BelowThreshold", parked=True))


LONGEST = Row(
    "team-services",
    "llm-server-5fc4f69948-zlrnd",
    1,
    pod_class="interactive",
    deadline="none: ControllerOwned",
    verdict="Idle",
    reason="BelowThreshold",
    parked=True,
    reclaim_at="2026-01-01T09:10:11Z",
    outcome="warned",
    naive=True,
)


def test_a_wide_terminal_shows_each_pod_on_one_line() -> None:
    """Nothing is folded, whatever comes together in one row."""
    text = drawn(LONGEST)
    line = next(line for line in text.splitlines() if "llm-server" in line)
    assert "llm-server-…-zlrnd" in line
    assert line.rstrip().endswith("kills it")
    assert "none: ControllerOwned" in line


def test_a_narrow_terminal_drops_what_admission_said_before() -> None:
    """Class and deadline had a table of their own."""
    text = drawn(LONGEST, width=100)
    line = next(line for line in text.splitlines() if "llm-server" in line)
    assert "ControllerOwned" not in text
    assert line.rstrip().endswith("kills it")


def test_the_table_of_admission_has_no_verdicts() -> None:
    """There are none yet."""
    text = text_of(admitted([LONGEST]), 80)
    assert "none: ControllerOwned" in text
    assert "verdict" not in text
