"""`gpu-tenure judge --nvidia-smi`: what it prints and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reaper.judging.test_nvidia_smi import HEADER, WHOLE, line, quiet

POLICY = """\
apiVersion: gpu-tenure.io/v1alpha1
kind: GPUPolicy
metadata: {name: strict}
spec: {idle: {action: warn, after: 1h, utilization: 60}}
"""


def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    argv = [sys.executable, "-m", "cli", "judge", *args]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A node with a card that does nothing and one that works."""
    path = tmp_path / "node-7.csv"
    busy = [line(number, "55 %", index="1", uuid="GPU-2") for number in range(WHOLE)]
    path.write_text("\n".join([HEADER, *quiet(), *busy]))
    return path


def test_cards_are_shown_with_what_is_known(recording: Path) -> None:
    """A table, what was asked of them, and that they are no pods."""
    shown = run("--nvidia-smi", str(recording)).stdout
    assert "node-7" in shown
    assert "1 Active, 1 Idle: idle for 2h (maximum below 5 %)." in shown
    assert "Cards, not pods" in shown


def test_what_a_recording_says_steers_no_terminal(tmp_path: Path) -> None:
    """Names of cards and files are text: neither markup nor an escape."""
    path = tmp_path / "[red]node.csv"
    path.write_text("\n".join([HEADER, line(0, "9 %", name="odd [/b] \x1b[31mname")]))
    done = run("--nvidia-smi", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "[red]node" in done.stdout
    assert "odd [/b]" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_policy_and_json(recording: Path, tmp_path: Path) -> None:
    """The terms of a policy; every number, for a script."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    done = run("--nvidia-smi", str(recording), "--policy", str(policy), "--output", "json")
    found = json.loads(done.stdout)
    assert [(one["card"], one["verdict"], one["maximum"]) for one in found] == [
        ("GPU-1", "Idle", 0.0),
        ("GPU-2", "Idle", 55.0),
    ]
    assert found[0]["memoryBytes"] == 433 << 20


def test_standard_input_is_a_recording_too() -> None:
    """As from a pipe that ends."""
    done = run("--nvidia-smi", "-", "--output", "json", stdin="\n".join([HEADER, line(0, "9 %")]))
    assert [(one["recording"], one["verdict"]) for one in json.loads(done.stdout)] == [("stdin", "Active")]


def test_what_is_no_text_is_refused_and_not_a_traceback() -> None:
    """Whatever the locale makes of standard input."""
    argv = [sys.executable, "-m", "cli", "judge", "--nvidia-smi", "-"]
    environ = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(
        argv, input=b"\xff\xfe\x00", capture_output=True, check=False, timeout=60, env=environ
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: --nvidia-smi -: has no header")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(("--nvidia-smi", "/none.csv"), ["--nvidia-smi: cannot read /none.csv"], id="no file"),
        pytest.param(
            ("--nvidia-smi", "-", "--pods", "x"), ["--pods: does not go with --nvidia-smi"], id="with pods"
        ),
        pytest.param(("--nvidia-smi", "-"), ["--nvidia-smi -: has no header"], id="nothing recorded"),
        pytest.param((), ["--pods: is needed", "--prometheus-url: is needed"], id="nothing given"),
    ],
)
def test_bad_input_is_refused(args: tuple[str, ...], said: list[str]) -> None:
    """A line each, exit code 2."""
    done = run(*args)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == len(said)
    assert all(found.startswith(f"error: {text}") for found, text in zip(lines, said, strict=True))
