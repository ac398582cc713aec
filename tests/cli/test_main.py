"""The command `gpu-tenure` itself; its subcommands have tests of their own."""

from __future__ import annotations

import importlib.metadata

from typer.testing import CliRunner

from cli.main import COMMANDS, build


def test_the_version_is_that_of_the_package() -> None:
    """One place says it."""
    done = CliRunner().invoke(build(["--version"]), ["--version"])
    assert (done.exit_code, done.output) == (0, f"gpu-tenure {importlib.metadata.version('gpu-tenure')}\n")


def test_the_help_begins_with_what_only_reads() -> None:
    """All commands are there, and the one to start with can be copied in one piece."""
    shown = CliRunner().invoke(build(["--help"]), ["--help"], env={"COLUMNS": "100"}).output
    assert "kubectl get pods -A -o json | gpu-tenure judge --pods - --prometheus-url URL" in shown
    assert all(f" {command} " in shown for command in COMMANDS)
