"""A sandbox in the background."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.api import Api
from sandbox.binaries import ensure
from sandbox.cluster import SandboxOptions
from sandbox.deadline import wait
from sandbox.ports import LOOPBACK
from sandbox.session import SessionError, down, exports, status, up

pytestmark = pytest.mark.real


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A user of their own, who has the built programs of this one."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for program, path in ensure(os.environ).paths.items():
        (assets / program).symlink_to(path)
    made = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "KUBEBUILDER_ASSETS": str(assets)}
    yield made
    down(made)


def processes_of(folder: str) -> list[str]:
    """The command lines of all processes that were given a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if folder in (line := path.read_text()):
                found.append(line)
    return found


def test_a_session_lives_until_it_is_ended(environ: dict[str, str]) -> None:
    """Up, told by status, refused a second time, and down without a trace."""
    assert status(environ) is None
    assert down(environ) is False
    options = SandboxOptions(environ=environ, prometheus=False, alertmanager=False, exporter=False)
    info = up(options, nodes={"only": {"nvidia.com/gpu": 1}})
    assert status(environ) == info
    with pytest.raises(SessionError, match="gpu-tenure sandbox down"):
        up(options)
    config = Path(info.kubeconfig).read_text()
    token = config.split("token: ")[1].split()[0]
    api = Api(info.api_url, token, Path(info.folder) / "apiserver" / "apiserver.crt")
    assert [node["metadata"]["name"] for node in api.list("/api/v1/nodes")] == ["only"]
    api.close()
    assert info.kubeconfig_of("dev-a").is_file()
    shell = "; ".join((*exports(info.kubeconfig, info.folder), "kubectl get nodes -o name; helm version"))
    bare = {"HOME": str(info.folder), "PATH": "/nowhere"}
    said = subprocess.run(["/bin/sh", "-c", shell], env=bare, capture_output=True, text=True, check=True)
    assert "node/only" in said.stdout
    assert down(environ) is True
    assert status(environ) is None
    assert not Path(info.folder).exists()


def test_a_killed_session_leaves_nothing_and_misleads_nobody(environ: dict[str, str]) -> None:
    """The warden ends the rest, and the state file of before counts no more."""
    options = SandboxOptions(environ=environ, prometheus=False, alertmanager=False, exporter=False)
    info = up(options, nodes={})
    assert len(processes_of(info.folder)) >= 6
    os.kill(info.pid, signal.SIGKILL)
    wait(lambda: not processes_of(info.folder), 10, "all processes are gone")
    assert not Path(info.folder).exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, int(info.api_url.rsplit(":", 1)[1])), 1)
    wait(lambda: status(environ) is None, 10, "the session is known to have ended")
