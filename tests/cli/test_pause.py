"""The commands `pause` and `unpause`: what they refuse, and what they write on a real API server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from cli import pause
from reaper.pause import paused_data
from runtime.answers import ApiError, Response
from sandbox.install import Installation

PATH = "/api/v1/namespaces/gpu-tenure-system/configmaps/gpu-tenure-pause"
Run = Callable[..., subprocess.CompletedProcess[str]]


def run(*args: str, kubeconfig: Path | str = "/nonexistent") -> subprocess.CompletedProcess[str]:
    """Runs the command line."""
    argv = [sys.executable, "-m", "cli", *args, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


REFUSED = [
    pytest.param(("pause", "--reason", " "), ["--reason: must not be empty"], id="without a reason"),
    pytest.param(
        ("pause", "--reason", "x", "--for", "soon"), ["--for: must be a duration"], id="no duration"
    ),
    pytest.param(("pause", "--reason", "x", "--for", "0m"), ["--for: must be longer"], id="for no time"),
    pytest.param(("pause", "--reason", "", "--for", "1"), ["--reason", "--for"], id="both at once"),
    pytest.param(("pause", "--reason", "x"), ["--kubeconfig"], id="no such kubeconfig"),
    pytest.param(("unpause",), ["--kubeconfig"], id="no such kubeconfig to unpause"),
]


@pytest.mark.parametrize(("args", "said"), REFUSED)
def test_bad_input_is_refused_with_exit_code_two(args: tuple[str, ...], said: list[str]) -> None:
    """One line per error, no traceback."""
    done = run(*args)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == len(said)
    for line, text in zip(lines, said, strict=True):
        assert line.startswith(f"error: {text}")


@pytest.fixture
def as_admin(installation: Installation) -> Run:
    """Runs the command line as the administrator of the sandbox."""
    kubeconfig = installation.sandbox.kubeconfig("admin")
    return lambda *args: run(*args, kubeconfig=kubeconfig)


def data_of(installation: Installation) -> dict[str, Any]:
    """Gives what the switch says."""
    found: dict[str, Any] = installation.sandbox.api().get(PATH)["data"]
    return found


def test_pause_and_unpause_write_the_switch(installation: Installation, as_admin: Run) -> None:
    """For a time, for ever, and off again; releasing the brake leaves a pause alone."""
    try:
        done = as_admin("pause", "--reason", "maintenance of rack 4", "--for", "2h")
        assert done.returncode == 0, done.stderr
        assert "maintenance of rack 4" in done.stdout
        data = data_of(installation)
        assert (data["paused"], data["reason"]) == ("true", "maintenance of rack 4")
        assert data["until"] in done.stdout
        assert datetime.fromisoformat(data["until"]).tzinfo is not None
        assert as_admin("unpause", "--brake").returncode == 0
        assert data_of(installation)["paused"] == "true"
        assert "brake-released-at" in data_of(installation)
        assert as_admin("pause", "--reason", "x").returncode == 0
        assert "until" not in data_of(installation)
    finally:
        assert as_admin("unpause").returncode == 0
    data = data_of(installation)
    assert (data["paused"], data["reason"]) == ("false", "")
    assert "resumed-at" in data


async def test_times_are_those_of_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's clock that is behind would end a pause before it began."""
    written: list[Any] = []

    class Kube:
        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            return None

        async def request(self, method: str, path: str, **options: Any) -> Response:
            if method == "PATCH":
                written.append(options["body"]["data"])
            assert path in {PATH, "/version"}
            return Response(200, {"date": "Sat, 01 Mar 2025 12:00:00 GMT"}, b"{}")

    async def connect(*_: object) -> Kube:
        return Kube()

    monkeypatch.setattr("runtime.kube.KubeClient.connect", connect)
    await pause._send(lambda now: paused_data("x", now + timedelta(hours=2)), "gpu-tenure-system", None, None)
    assert written[0]["until"] == "2025-03-01T14:00:00Z"


def test_a_missing_switch_is_made_again(installation: Installation, as_admin: Run) -> None:
    """Until then everything is paused."""
    installation.sandbox.api().delete(PATH)
    assert as_admin("unpause").returncode == 0
    assert data_of(installation)["paused"] == "false"


def test_a_cluster_without_gpu_tenure_is_asked_about(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever is in the wrong context must not believe that anything was paused."""

    async def elsewhere(*_: object) -> None:
        raise ApiError(404, "NotFound", 'namespaces "gpu-tenure-system" not found')

    monkeypatch.setattr(pause, "_send", elsewhere)
    with pytest.raises(SystemExit) as ended:
        pause.pause("x")
    assert ended.value.code == 1
    hint = "not found; is gpu-tenure installed in the namespace gpu-tenure-system?\n"
    assert capsys.readouterr().err.endswith(hint)


def test_who_may_not_is_told(installation: Installation) -> None:
    """An ordinary developer cannot pause the cluster."""
    done = run("pause", "--reason", "x", kubeconfig=installation.sandbox.kubeconfig("dev-a"))
    assert done.returncode == 1
    assert done.stderr.startswith("error: the switch was not written: 403")
