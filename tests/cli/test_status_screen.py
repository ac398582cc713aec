"""What a watch shows while nothing newer can be read, on a terminal and in a pipe."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from cli.options import Output
from cli.status_input import Status
from cli.status_screen import Screen
from reaper.switches import Switches

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
STALE = "not current: nothing newer could be read since 2026-05-04T12:00:00Z: connection refused"


def status(minutes: int = 0, problem: str = "") -> Status:
    """What was found in a cluster without GPU pods."""
    return Status(
        at=NOW + timedelta(minutes=minutes),
        rows=(),
        pause=None,
        brake=None,
        switches=Switches(),
        remarks=(),
        missing={},
        problem=problem,
        judged=bool(problem),
    )


def terminal() -> tuple[Screen, io.StringIO]:
    """A screen on a terminal, and what is written to it."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=200, color_system=None)
    return Screen(console, Output.TABLE, exempt=False), written


def test_a_terminal_keeps_the_last_table() -> None:
    """With since when it is not current, until there is a newer one."""
    screen, written = terminal()
    with screen:
        screen.show(status())
        written.truncate(0)
        screen.keep("connection refused")
        assert "No GPU pods." in written.getvalue()
        assert STALE in written.getvalue()
        written.truncate(0)
        screen.show(status(1))
        assert "No GPU pods." in written.getvalue()
        assert "not current" not in written.getvalue()


def test_a_terminal_says_why_verdicts_are_not_of_prometheus() -> None:
    """As a single look says it."""
    screen, written = terminal()
    with screen:
        screen.show(status(problem="timed out"))
    assert "Prometheus: timed out; verdicts are what the reaper wrote on pods" in written.getvalue()


@pytest.mark.parametrize("output", list(Output))
def test_in_a_pipe_an_outage_is_told_once(capsys: pytest.CaptureFixture[str], output: Output) -> None:
    """And its end, both beside what programs read."""
    with Screen(Console(file=io.StringIO()), output, exempt=False) as screen:
        screen.show(status())
        for _ in range(3):
            screen.keep("connection refused")
        screen.show(status(1))
        screen.show(status(2))
    told = capsys.readouterr()
    assert told.err.splitlines() == [f"error: {STALE}", "the API server answers again"]
    times = [json.loads(line)["at"][14:16] for line in told.out.splitlines()]
    assert times == (["00", "01", "02"] if output is Output.JSON else [])


def test_nothing_is_kept_before_the_first_look() -> None:
    """Then there is nothing to wait with."""
    screen, written = terminal()
    assert screen.is_empty
    screen.keep("connection refused")
    assert written.getvalue() == ""
