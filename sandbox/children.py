"""The parent's side of the warden: starts, stops, kills and freezes children; cares not what they are."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sandbox.deadline import wait

PREFIX = "gpu-tenure-sandbox-"
LOCK = ".lock"
LOG_TAIL = 2000


class ChildError(RuntimeError):
    """A child could not be started or ended by itself; the message holds the end of its log."""


@dataclass(frozen=True)
class ChildState:
    """A child as the warden sees it: process id, and its exit code once it has ended."""

    pid: int
    code: int | None

    @property
    def running(self) -> bool:
        """Says whether the process still exists (a suspended one does)."""
        return self.code is None


class Children:
    """All children of one sandbox, in one folder that is removed with them.

    Safe to use from several threads. `close` ends everything and returns when nothing is left.
    """

    def __init__(self, control: socket.socket, warden: subprocess.Popen[bytes], folder: Path) -> None:
        self._control = control
        self._reader: IO[bytes] = control.makefile("rb")
        self._warden = warden
        self._lock = threading.Lock()
        self.folder = folder

    @classmethod
    def start(cls, held: Iterable[socket.socket] = ()) -> Children:
        """Makes the folder and starts the warden, which keeps the sockets in `held` open until the end."""
        sweep(Path(tempfile.gettempdir()))
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        (folder / "logs").mkdir()
        lock = _take_lock(folder)
        ours, theirs = socket.socketpair()
        keep = (theirs.fileno(), lock.fileno(), *(one.fileno() for one in held))
        script = str(Path(__file__).with_name("warden.py"))
        with (folder / "logs" / "warden.log").open("wb") as log:
            warden = subprocess.Popen(
                [sys.executable, "-I", "-S", script, str(theirs.fileno()), str(os.getpid()), str(folder)],
                pass_fds=keep,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        theirs.close()
        lock.close()
        return cls(ours, warden, folder)

    @property
    def warden_pid(self) -> int:
        """The process id of the warden."""
        return self._warden.pid

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None = None,
        stop_seconds: float = 0.0,
    ) -> int:
        """Starts a child and gives its process id; its output goes to `logs/NAME.log`.

        `stop_seconds` is how long it may take to end after SIGTERM; 0 means that SIGKILL does no harm.
        """
        request = {
            "op": "start",
            "name": name,
            "argv": list(argv),
            "env": dict(env),
            "cwd": str(cwd or self.folder),
            "log": str(self.log(name)),
            "stop_seconds": stop_seconds,
        }
        return int(self._ask(request)["pid"])

    def log(self, name: str) -> Path:
        """The file that holds a child's output."""
        return self.folder / "logs" / f"{name}.log"

    def log_tail(self, name: str) -> str:
        """The end of a child's output."""
        try:
            return self.log(name).read_text(errors="replace")[-LOG_TAIL:]
        except OSError:
            return ""

    def states(self) -> dict[str, ChildState]:
        """What each child is doing."""
        found = self._ask({"op": "status"})["children"]
        return {name: ChildState(state["pid"], state["code"]) for name, state in found.items()}

    def running(self, name: str) -> bool:
        """Says whether a child of this name was started and has not ended."""
        state = self.states().get(name)
        return state is not None and state.running

    def check(self, name: str) -> None:
        """Raises ChildError, with the end of its log, if a child has ended."""
        state = self.states().get(name)
        if state is None or not state.running:
            code = "never started" if state is None else f"exit code {state.code}"
            msg = f"{name} ended by itself ({code}):\n{self.log_tail(name)}"
            raise ChildError(msg)

    def stop(self, name: str, seconds: float | None = None) -> None:
        """Sends SIGTERM, SIGKILL after `seconds` (default: its own), and returns when the child is gone."""
        self.stop_all([name], seconds)

    def stop_all(self, names: Iterable[str], seconds: float | None = None) -> None:
        """Stops several children at the same time and returns when all are gone."""
        stopping = tuple(names)
        for name in stopping:
            self.ask_to_stop(name, seconds)
        for name in stopping:
            self._wait_gone(name, (seconds or 0.0) + 30.0)

    def ask_to_stop(self, name: str, seconds: float | None = None) -> None:
        """Does the same without waiting for the end of the child."""
        self._ask({"op": "stop", "name": name, "seconds": seconds})

    def kill(self, name: str) -> None:
        """Sends SIGKILL and returns when the child is gone."""
        self._ask({"op": "stop", "name": name, "seconds": 0})
        self._wait_gone(name, 30.0)

    def suspend(self, name: str) -> None:
        """Freezes a child (SIGSTOP): its sockets stay open and nobody answers."""
        self._ask({"op": "signal", "name": name, "signal": int(signal.SIGSTOP)})

    def resume(self, name: str) -> None:
        """Lets a frozen child go on (SIGCONT)."""
        self._ask({"op": "signal", "name": name, "signal": int(signal.SIGCONT)})

    def close(self) -> None:
        """Ends all children and removes the folder; a second call does nothing."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        self._warden.wait()
        self._reader.close()
        self._control.close()
        # Only if the warden was killed is there anything left to remove.
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_gone(self, name: str, seconds: float) -> None:
        wait(lambda: not self.running(name), seconds, f"{name} ended")

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            try:
                self._control.sendall(json.dumps(request).encode() + b"\n")
                line = self._reader.readline()
            except (OSError, ValueError) as error:
                msg = "the warden of the sandbox is gone"
                raise ChildError(msg) from error
        if not line:
            msg = "the warden of the sandbox is gone"
            raise ChildError(msg)
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise ChildError(str(reply["error"]))
        return reply


def sweep(base: Path) -> None:
    """Removes folders of sandboxes whose warden was killed: those whose lock nobody holds."""
    for lock in base.glob(f"{PREFIX}*/{LOCK}"):
        try:
            with lock.open("r+") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue


def _take_lock(folder: Path) -> IO[str]:
    """Locks the folder; the lock gets its name once it is held, so that no sweep takes it for abandoned."""
    fresh = folder / f"{LOCK}.new"
    handle = fresh.open("w")
    fcntl.flock(handle, fcntl.LOCK_EX)
    fresh.rename(folder / LOCK)
    return handle
