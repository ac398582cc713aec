"""A sandbox in the background."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.api import Api
from sandbox.cluster import SandboxOptions
from sandbox.deadline import wait
from sandbox.ports import LOOPBACK
from sandbox.session import SessionError, down, exports, status, up

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]


def processes_of(folder: str) -> list[str]:
    """The command lines of all processes that were given a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if folder in (line := path.read_text()):
                found.append(line)
    return found


def test_a_session_lives_until_it_is_ended(environ: dict[str, str], kubernetes: str) -> None:
    """Up, told by status, refused a second time, and down without a trace."""
    assert status(environ) is None
    assert down(environ) is False
    options = SandboxOptions(
        environ=environ, prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes
    )
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
    lines = exports(info.kubeconfig, info.folder, info.prometheus_url)
    shell = "; ".join((*lines, "kubectl get nodes -o name; helm version; echo $PROMETHEUS_URL"))
    bare = {"HOME": str(info.folder), "PATH": "/nowhere"}
    said = subprocess.run(["/bin/sh", "-c", shell], env=bare, capture_output=True, text=True, check=True)
    assert "node/only" in said.stdout
    assert info.prometheus_url in said.stdout
    assert down(environ) is True
    assert status(environ) is None
    assert not Path(info.folder).exists()


def test_a_killed_session_leaves_nothing_and_misleads_nobody(
    environ: dict[str, str], kubernetes: str
) -> None:
    """The warden ends the rest, and the state file of before counts no more."""
    options = SandboxOptions(
        environ=environ, prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes
    )
    info = up(options, nodes={})
    assert len(processes_of(info.folder)) >= 6
    os.kill(info.pid, signal.SIGKILL)
    wait(lambda: not processes_of(info.folder), 10, "all processes are gone")
    assert not Path(info.folder).exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, int(info.api_url.rsplit(":", 1)[1])), 1)
    wait(lambda: status(environ) is None, 10, "the session is known to have ended")


def test_a_start_that_is_called_off_leaves_nothing(
    environ: dict[str, str], kubernetes: str, tmp_path: Path
) -> None:
    """Ctrl-C ends what was begun at once, and the next may start."""
    folder = tmp_path / "short"
    folder.mkdir()
    argv = [sys.executable, "-m", "cli", "sandbox", "up", f"--kubernetes={kubernetes}"]
    asking = subprocess.Popen(argv, env={**environ, "TMPDIR": str(folder)}, cwd=ROOT)
    wait(lambda: any(folder.iterdir()), 60, "a sandbox is starting")
    asking.send_signal(signal.SIGINT)
    assert asking.wait(30) == 130
    wait(lambda: not any(folder.iterdir()), 30, "its folder is gone")
    wait(lambda: not processes_of(str(folder)), 10, "its processes are gone")
    assert status(environ) is None


def test_a_start_that_fails_says_why_in_a_sentence(environ: dict[str, str], kubernetes: str) -> None:
    """What happened in the background reaches whoever asked, without a traceback."""
    broken = Path(environ["KUBEBUILDER_ASSETS"]) / "etcd"
    broken.unlink()
    broken.write_text("#!/bin/sh\necho disk on fire >&2\nexit 7\n")
    broken.chmod(0o755)
    with pytest.raises(
        SessionError, match=r"(?s)did not start: etcd ended by itself.*disk on fire"
    ) as failed:
        up(SandboxOptions(environ=environ, kubernetes=kubernetes), nodes={})
    assert "Traceback" not in str(failed.value)
