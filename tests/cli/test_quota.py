"""`gpu-tenure quota`: its flags, and what it says when it cannot start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import build, main
from quota.settings import QuotaSettings


def test_every_setting_has_the_flag_that_errors_name() -> None:
    """The settings class is the one list of them."""
    shown = CliRunner().invoke(build(["quota"]), ["quota", "--help"], env={"COLUMNS": "300"}).output
    for name in [*QuotaSettings.model_fields, "settings"]:
        assert f"--{name.replace('_', '-')}" in shown, name


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        pytest.param(
            ["--settle", "soon", "--ops-port", "70000"], ["--settle", "--ops-port"], id="bad values"
        ),
        pytest.param(["--kubeconfig", "missing"], ["--kubeconfig"], id="no such kubeconfig"),
    ],
)
def test_what_is_wrong_is_told_at_once(
    flags: list[str],
    named: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the flags named, and exit code 2."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gpu-tenure", "quota", *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == len(named)
    assert all(any(flag in error for error in errors) for flag in named)
