"""`gpu-tenure webhook`: what it says when it cannot start."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import build, main
from webhook.settings import WebhookSettings

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""
Start = Callable[..., list[str]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Start:
    """Runs the command, which must end at once with the code, and gives its errors."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)

    def start(*flags: str, code: int = 2) -> list[str]:
        own = ("--kubeconfig", str(kubeconfig), "--ops-host", "127.0.0.1", "--ops-port", "0")
        monkeypatch.setattr(sys, "argv", ["gpu-tenure", "webhook", *own, *flags])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == code
        lines = capsys.readouterr().err.splitlines()
        return [line for line in lines if line.startswith("error: ")]

    return start


def test_every_setting_has_the_flag_that_errors_name() -> None:
    """The settings class is the one list of them."""
    shown = CliRunner().invoke(build(["webhook"]), ["webhook", "--help"], env={"COLUMNS": "300"}).output
    for name in [*WebhookSettings.model_fields, "settings"]:
        assert f"--{name.replace('_', '-')}" in shown, name


def test_all_bad_settings_are_told_at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """With flag and variable named."""
    monkeypatch.setenv("GPU_TENURE_WEBHOOK_DRAIN", "soon")
    errors = start("--profile", "strict", "--port", "70000")
    assert len(errors) == 3
    for part in ("--profile", "--port", "GPU_TENURE_WEBHOOK_DRAIN"):
        assert any(part in error for error in errors)


def test_a_missing_certificate_is_named(start: Start, tmp_path: Path) -> None:
    """The file, and that it is not there."""
    errors = start("--tls-cert", str(tmp_path / "tls.crt"), "--tls-key", str(tmp_path / "tls.key"))
    assert len(errors) == 1
    assert errors[0].startswith("error: --tls-cert, --tls-key: ")
    assert "tls.crt" in errors[0]
    assert "No such file" in errors[0]


def test_a_port_that_is_taken_is_named(start: Start) -> None:
    """The address, and that it is in use; nothing is wrong with the settings."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        errors = start("--host", "127.0.0.1", "--port", str(port), code=1)
    assert len(errors) == 1
    assert str(port) in errors[0]
