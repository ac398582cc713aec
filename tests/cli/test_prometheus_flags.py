"""The flags by which commands reach Prometheus: the same for each, with variables of their own names."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import build
from cli.prometheus_flags import Reach, reaches_prometheus
from policy.errors import FieldError

COMMANDS = ("judge", "status", "backtest", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_asks_prometheus_has_them(command: str) -> None:
    """With a variable named after the command."""
    shown = CliRunner().invoke(build([command]), [command, "--help"], env={"COLUMNS": "200"}).output
    for field in Reach.__struct_fields__:
        assert f"--{field.replace('_', '-')} " in shown
        variable = f"GPU_TENURE_{command.upper()}_{field.upper()}"
        assert (variable in shown) is (field != "header")


def test_what_was_typed_reaches_the_command_in_one_piece() -> None:
    """Flags, defaults of the command, and its other arguments in their order."""
    got: list[object] = []

    @reaches_prometheus
    def ask(first: str, reach: Reach = Reach(timeout="9s"), last: int = 1) -> None:  # noqa: B008 - frozen
        """Asks."""
        got.extend((first, reach, last))

    names = list(inspect.signature(ask).parameters)
    assert (names[0], names[-1], len(names)) == ("first", "last", 2 + len(Reach.__struct_fields__))
    timeout = inspect.signature(ask).parameters["timeout"].default
    ask(first="a", last=2, **dict.fromkeys(Reach.__struct_fields__) | {"timeout": timeout, "username": "u"})
    assert got == ["a", Reach(timeout="9s", username="u"), 2]


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """Files that are not there, a header that is none, a certificate without its key."""
    errors: list[FieldError] = []
    (tmp_path / "cert").touch()
    reach = Reach("soon", tmp_path / "token", cert_file=tmp_path / "cert", header=["no-sign"])
    assert reach.options("nowhere", errors) is None
    assert {error.path for error in errors} >= {
        "--bearer-token-file",
        "--timeout",
        "--header",
        "--cert-file",
        "--prometheus-url",
    }
