"""The command `gpu-tenure sandbox`, as people type it; what it starts is tested in `tests/sandbox`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `gpu-tenure sandbox` for a user who has nothing, on a machine without Go or a package registry."""
    closed = "http://127.0.0.1:1/simple"
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PIP_INDEX_URL": closed, "UV_INDEX_URL": closed}
    return subprocess.run(
        [sys.executable, "-m", "cli.main", "sandbox", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**env, "PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/dev/null"},
        timeout=60,
    )


def test_no_sandbox_is_said_with_what_to_type(tmp_path: Path) -> None:
    """Standard output is for a shell and stays empty."""
    done = run(tmp_path, "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert "gpu-tenure sandbox up" in done.stderr


def test_ending_what_is_not_up_is_no_error(tmp_path: Path) -> None:
    """It is as it was wanted."""
    assert run(tmp_path, "down").returncode == 0


@pytest.mark.parametrize("command", ["build", "up"])
def test_an_unknown_kubernetes_release_is_bad_input(tmp_path: Path, command: str) -> None:
    """One line that names a release that is there, no traceback."""
    done = run(tmp_path, command, "--kubernetes", "v9.9.9")
    assert done.returncode == 2
    assert done.stderr.startswith("error: Kubernetes v9.9.9")
    assert "v1.36.3" in done.stderr
    assert "Traceback" not in done.stderr
