"""A sandbox in the background for people who want to play: one per user, until `down`; knows no component."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sandbox.api import ApiError
from sandbox.binaries import cache_dir, ensure
from sandbox.children import ChildError
from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import wait
from sandbox.kubelet.run import Kubelet
from sandbox.startup import ROOT

UP_SECONDS = 120.0
DOWN_SECONDS = 60.0
LOCK_SECONDS = 3.0
NODES: Mapping[str, Mapping[str, int]] = {f"gpu-{n}": {"nvidia.com/gpu": 8} for n in (1, 2, 3)}


class SessionError(RuntimeError):
    """The session cannot be started or ended; the message says what to do."""


@dataclass(frozen=True)
class SessionInfo:
    """Where the parts of a running session are.

    Attributes:
        pid: The process that holds it; SIGTERM ends everything.
        folder: Its folder, with logs and kubeconfigs.
        kubeconfig: The administrator's kubeconfig: what to put into KUBECONFIG.
        api_url: The address of the API server, as are the rest of theirs.
    """

    pid: int
    folder: str
    kubeconfig: str
    api_url: str
    prometheus_url: str
    alertmanager_url: str
    exporter_url: str

    def kubeconfig_of(self, user: str) -> Path:
        """The kubeconfig of another user, such as `dev-a`."""
        return Path(self.kubeconfig).with_name(user)


def exports(kubeconfig: str | Path, folder: str | Path, prometheus_url: str) -> tuple[str, ...]:
    """Gives lines for a shell: the kubeconfig, where the tools are, and where Prometheus answers."""
    tools = f"{folder}/bin:{Path(sys.executable).parent}"
    return (
        f"export KUBECONFIG={kubeconfig}",
        f'export PATH="$PATH:{tools}"',
        f"export PROMETHEUS_URL={prometheus_url}",
    )


def status(environ: Mapping[str, str]) -> SessionInfo | None:
    """Gives the running session of this user, or None."""
    try:
        with _lock(environ):
            return None
    except SessionError:
        return _read(environ)


def up(
    options: SandboxOptions | None = None, nodes: Mapping[str, Mapping[str, int | str]] = NODES
) -> SessionInfo:
    """Starts a session with these nodes and returns when it is ready; it lives on when the caller ends.

    Raises:
        SessionError: If one runs already, or this one did not start.
    """
    options = options or SandboxOptions()
    environ = options.environ
    running = status(environ)
    if running is not None:
        msg = (
            f"a sandbox is up already (KUBECONFIG={running.kubeconfig}); end it with: gpu-tenure sandbox down"
        )
        raise SessionError(msg)
    # Here, where the caller sees the progress, and not in the background.
    ensure(environ, kubernetes=options.kubernetes)
    wanted = {key: value for key, value in asdict(options).items() if key != "environ"}
    argument = json.dumps({"options": wanted, "nodes": {name: dict(has) for name, has in nodes.items()}})
    log = _file(environ, "log")
    with log.open("wb") as out:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "sandbox.session", argument],
            env={**environ, "PYTHONPATH": str(ROOT)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ready() -> SessionInfo | None:
        if keeper.poll() is not None:
            msg = f"the sandbox did not start: {log.read_text(errors='replace').strip()[-2000:]}"
            raise SessionError(msg)
        info = status(environ)
        return info if info is not None and info.pid == keeper.pid else None

    try:
        info = wait(ready, UP_SECONDS, f"the sandbox is up; see {log}")
    except BaseException:
        # Whoever gives up waiting, or presses Ctrl-C, does not want it any more.
        keeper.terminate()
        raise
    # It is meant to outlive this process: nobody here waits for it.
    keeper.returncode = 0
    return info


def down(environ: Mapping[str, str]) -> bool:
    """Ends the session of this user and returns when nothing is left; False if there was none."""
    info = status(environ)
    if info is None:
        return False
    os.kill(info.pid, signal.SIGTERM)
    wait(lambda: status(environ) is None, DOWN_SECONDS, f"the sandbox of process {info.pid} has ended")
    return True


def keep(
    environ: Mapping[str, str], options: SandboxOptions, nodes: Mapping[str, Mapping[str, int | str]]
) -> None:
    """Runs a session in this process until SIGTERM, SIGINT or SIGHUP, which also end one that is starting."""
    asked = threading.Event()
    _on_signals(lambda: sys.exit(0))
    state = _file(environ, "json")
    # Patiently, because whoever asks for the status holds the lock for a moment too.
    with _lock(environ, LOCK_SECONDS), _without(state), Sandbox.start(options) as sandbox:
        for name, resources in nodes.items():
            sandbox.add_node(name, resources)
        _on_signals(asked.set)
        partial = state.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(_info(sandbox))))
        partial.replace(state)
        with Kubelet(sandbox) if options.kubelet else contextlib.nullcontext():
            asked.wait()


def _on_signals(then: Callable[[], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: then())


@contextlib.contextmanager
def _without(state: Path) -> Iterator[None]:
    """Removes what an earlier session may have left, and what this one leaves."""
    state.unlink(missing_ok=True)
    yield
    state.unlink(missing_ok=True)


def _info(sandbox: Sandbox) -> SessionInfo:
    return SessionInfo(
        pid=os.getpid(),
        folder=str(sandbox.dir),
        kubeconfig=str(sandbox.kubeconfig()),
        api_url=sandbox.api_url,
        prometheus_url=sandbox.prometheus_url,
        alertmanager_url=sandbox.alertmanager_url,
        exporter_url=sandbox.exporter_url,
    )


def _file(environ: Mapping[str, str], kind: str) -> Path:
    folder = cache_dir(environ)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"session.{kind}"


def _read(environ: Mapping[str, str]) -> SessionInfo | None:
    """Reads where the session is; None while it is still starting."""
    try:
        return SessionInfo(**json.loads(_file(environ, "json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


@contextlib.contextmanager
def _lock(environ: Mapping[str, str], patience_seconds: float = 0.0) -> Iterator[None]:
    """Holds the lock that the keeper holds for as long as it lives; SessionError if another does."""
    with _file(environ, "lock").open("a") as handle:

        def taken() -> bool:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        try:
            wait(taken, patience_seconds, "the lock is free", poll=0.01)
        except TimeoutError as error:
            msg = "another one of this user is starting or ending; try again in some seconds"
            raise SessionError(msg) from error
        yield


def main(arguments: Sequence[str]) -> None:
    """Runs the keeper: options and nodes come as JSON."""
    given = json.loads(arguments[0])
    given["options"]["rule_files"] = tuple(given["options"]["rule_files"])
    environ = dict(os.environ)
    try:
        keep(environ, SandboxOptions(**given["options"], environ=environ), given["nodes"])
    except (ApiError, ChildError, SessionError, TimeoutError) as failure:
        # Whoever asked for the session shows what is written here.
        sys.exit(str(failure))


if __name__ == "__main__":
    main(sys.argv[1:])
