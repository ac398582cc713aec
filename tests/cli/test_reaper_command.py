"""The command `reaper`: its flags are the settings, and whatever is wrong with them is told at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import build
from reaper.settings import ReaperSettings


def run(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line with more environment."""
    argv = [sys.executable, "-m", "cli", "reaper", *args]
    env = {**os.environ, **environ}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=env)


def test_every_setting_has_a_flag() -> None:
    """The settings class is the one list of them."""
    shown = CliRunner().invoke(build(["reaper"]), ["reaper", "--help"], env={"COLUMNS": "300"}).output
    for name in [*ReaperSettings.model_fields, "once", "settings"]:
        assert f"--{name.replace('_', '-')}" in shown, name


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        pytest.param("--cycle", "[default: 60s]", id="spans as they are typed"),
        pytest.param("--quiet", "[default: 10m]", id="not as seconds"),
        pytest.param("--dry-run", "[default: on]", id="switches as on or off"),
        pytest.param("--coverage", "[default: 0.9]", id="shares as numbers"),
    ],
)
def test_help_shows_defaults_as_people_type_them(flag: str, told: str) -> None:
    """Nobody should have to count seconds."""
    shown = CliRunner().invoke(build(["reaper"]), ["reaper", "--help"], env={"COLUMNS": "300"}).output
    assert told in next(line for line in shown.splitlines() if f"{flag} " in line)


def test_wrong_settings_are_told_all_at_once(tmp_path: Path) -> None:
    """From flag, variable and file alike, with exit code 2."""
    file = tmp_path / "settings.yaml"
    file.write_text("cylce: 60s\nquiet: 10m\n")
    done = run("--profile=strict", f"--settings={file}", GPU_TENURE_REAPER_DEVICE_PERCENT="110")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    told = "\n".join(lines)
    for text in ("--prometheus-url", "--profile", "--device-percent", "did you mean cycle"):
        assert text in told


@pytest.mark.parametrize("mode", [("--once",), ()], ids=["once", "loop"])
def test_a_kubeconfig_that_is_not_there_is_bad_input(mode: tuple[str, ...]) -> None:
    """In both modes, before anything is sent."""
    flags = ["--prometheus-url=http://127.0.0.1:1", "--kubeconfig=/nonexistent"]
    done = run(*flags, *mode)
    assert done.returncode == 2
    assert "error: --kubeconfig" in done.stderr


def test_a_single_run_that_reaches_no_api_server_fails(tmp_path: Path) -> None:
    """Exit code 1 and a line that says why."""
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )
    flags = ["--prometheus-url=http://127.0.0.1:1", f"--kubeconfig={config}", "--sync-timeout=1s"]
    done = run("--once", *flags, "--log-format=json")
    assert done.returncode == 1
    assert "lists not read in time" in done.stderr
