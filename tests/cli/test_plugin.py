"""The command as a plugin of kubectl, completion, and the command `version`."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox

SCRIPTS = Path(sys.executable).parent


def ask(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with our scripts on the path."""
    env = {**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}", **environ}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=env)


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        pytest.param(["unpa"], ["unpause"], id="a command"),
        pytest.param(["pause", "--rea"], ["--reason"], id="an option"),
        pytest.param(["sandbox", "do"], ["down"], id="a command of a command"),
        pytest.param(["nothing-like-it"], [], id="nothing"),
    ],
)
def test_kubectl_is_told_what_could_come_next(words: list[str], suggested: list[str]) -> None:
    """In the form that kubectl reads."""
    done = ask("kubectl_complete-gpu_tenure", *words)
    assert done.stdout.splitlines() == [*suggested, ":4"]


def test_the_shell_is_told_the_same() -> None:
    """By the script that `--show-completion` prints."""
    given = {"COMP_WORDS": "gpu-tenure unpa", "COMP_CWORD": "1", "_GPU_TENURE_COMPLETE": "complete_bash"}
    assert ask("gpu-tenure", **given).stdout.split() == ["unpause"]


def test_the_help_of_the_plugin_says_how_it_was_called() -> None:
    """What it prints can be typed."""
    assert "kubectl gpu-tenure version" in ask("kubectl-gpu_tenure", "version", "--help").stdout


def test_without_a_cluster_the_version_of_the_program_is_told() -> None:
    """Nothing is asked with `--client`."""
    done = ask("gpu-tenure", "version", "--client", "--output", "json")
    told = json.loads(done.stdout)
    assert told["client"] == importlib.metadata.version("gpu-tenure")
    assert (told["kubernetes"], done.returncode) == ("", 0)


def test_without_an_answer_the_exit_code_says_so(tmp_path: Path) -> None:
    """A kubeconfig that is none is bad input."""
    done = ask("gpu-tenure", "version", "--kubeconfig", str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: --kubeconfig:")
    assert "--client asks no cluster" in done.stderr


def test_kubectl_finds_and_completes_the_plugin(sandbox: Sandbox) -> None:
    """A real kubectl runs it, and the version of the real API server is one that is supported."""
    kubectl, kubeconfig = sandbox.layout.binaries.path("kubectl"), str(sandbox.kubeconfig("admin"))
    done = ask(kubectl, "gpu-tenure", "version", "--kubeconfig", kubeconfig)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].endswith("is supported")
    completed = ask(kubectl, "__complete", "gpu-tenure", "unpa")
    assert completed.stdout.splitlines()[0] == "unpause"
