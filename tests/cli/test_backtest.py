"""What `gpu-tenure backtest` refuses; what it plays is tested in `tests/reaper/judging/test_backtest.py`."""

from __future__ import annotations

import subprocess
import sys


def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the command for a Prometheus that nobody is to ask."""
    argv = [sys.executable, "-m", "cli", "backtest", "--prometheus-url", "http://127.0.0.1:9", *args]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=60)


def test_all_that_is_wrong_is_said_at_once_with_its_flag() -> None:
    """One line for each flag, and exit code 2."""
    times = ("--since", "0s", "--until", "soon", "--step", "1s")
    done = run(*times, "--class", "x", "--pods", "/nonexistent", "--policy", "/nonexistent")
    assert done.returncode == 2
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == [
        "--until",
        "--since",
        "--step",
        "--class",
        "--policy",
        "--pods",
    ]


def test_a_list_of_nothing_is_not_taken_for_no_list() -> None:
    """Else the cluster would be asked in its place."""
    done = run("--pods", "-")
    assert done.returncode == 2
    assert done.stderr == "error: --pods: must be what `kubectl get pods -A -o json` prints, is empty\n"
