"""The process that owns all children of a sandbox and ends them when its parent is gone; knows no Kubernetes.

Run as a script: `python -I -S warden.py CONTROL_FD PARENT_PID STATE_DIR`. Standard library only, so that it
starts within milliseconds and cannot be broken by a package; for the same reason it reads the clock itself.
Requests and replies are JSON, one per line. It ends, and everything with it, when the control socket closes,
when the parent's process ends, or on SIGTERM, SIGINT or SIGHUP. Should the warden itself be killed, the
kernel kills the children.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
TICK_SECONDS = 0.02
LIBC = ctypes.CDLL(None, use_errno=True)


class Child:
    """One child: its process, how long it may take to stop, and when it will be killed."""

    def __init__(self, process: subprocess.Popen[bytes], stop_seconds: float) -> None:
        self.process = process
        self.stop_seconds = stop_seconds
        self.kill_at: float | None = None

    def signal(self, number: int) -> None:
        """Sends a signal to the whole process group of a child that still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def stop(self, seconds: float) -> None:
        """Asks the child to stop and sets the time after which it is killed; 0 kills at once."""
        if seconds <= 0:
            self.signal(signal.SIGKILL)
            return
        self.kill_at = time.monotonic() + seconds
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)

    def overdue(self) -> bool:
        """Says whether a stopping child has used up its time."""
        return self.kill_at is not None and time.monotonic() > self.kill_at and self.process.poll() is None


def start(request: dict[str, Any]) -> Child:
    """Starts a child in a session of its own, with its output appended to a file."""
    me = os.getpid()

    def die_with_the_warden() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != me:
            os.kill(os.getpid(), signal.SIGKILL)

    with Path(request["log"]).open("ab") as log:
        process = subprocess.Popen(
            request["argv"],
            env=request["env"],
            cwd=request["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_the_warden,  # noqa: PLW1509 (the warden has one thread)
        )
    return Child(process, float(request["stop_seconds"]))


def answer(children: dict[str, Child], request: dict[str, Any]) -> dict[str, Any]:
    """Does what one request asks for."""
    op, name = request["op"], request.get("name", "")
    if op == "start":
        if name in children and children[name].process.poll() is None:
            return {"error": f"{name} runs already"}
        children[name] = start(request)
        return {"pid": children[name].process.pid}
    if op == "status":
        return {"children": {key: _state(child) for key, child in children.items()}}
    if name not in children:
        return {"error": f"no child is named {name}"}
    if op == "signal":
        children[name].signal(int(request["signal"]))
    elif op == "stop":
        seconds = request.get("seconds")
        children[name].stop(children[name].stop_seconds if seconds is None else float(seconds))
    else:
        return {"error": f"unknown request {op}"}
    return {}


def _state(child: Child) -> dict[str, Any]:
    return {"pid": child.process.pid, "code": child.process.poll()}


def serve(control: socket.socket, parent: int, wakeup: socket.socket) -> None:
    """Answers requests until the parent is gone, says `quit`, or a signal arrives."""
    children: dict[str, Child] = {}
    buffer = b""
    try:
        with os.fdopen(os.pidfd_open(parent), "rb", buffering=0) as parent_gone:
            watched: list[Any] = [control, parent_gone, wakeup]
            while True:
                ready = select.select(watched, [], [], TICK_SECONDS * 10)[0]
                for child in children.values():
                    if child.overdue():
                        child.signal(signal.SIGKILL)
                if parent_gone in ready or wakeup in ready:
                    return
                if control not in ready:
                    continue
                data = control.recv(1 << 20)
                if not data:
                    return
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    request = json.loads(line)
                    if request["op"] == "quit":
                        return
                    control.sendall(json.dumps(_guarded(children, request)).encode() + b"\n")
    except OSError:
        return
    finally:
        end(children)


def _guarded(children: dict[str, Child], request: dict[str, Any]) -> dict[str, Any]:
    try:
        return answer(children, request)
    except (OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def end(children: dict[str, Child]) -> None:
    """Ends all children, each within its own time, and returns when none is left."""
    for child in reversed(children.values()):
        child.stop(child.stop_seconds)
    while any(child.process.poll() is None for child in children.values()):
        for child in children.values():
            if child.overdue():
                child.signal(signal.SIGKILL)
        time.sleep(TICK_SECONDS)


def main(arguments: list[str]) -> None:
    """Runs the warden: control socket, parent and state folder come as arguments."""
    control = socket.socket(fileno=int(arguments[0]))
    wakeup, alarm = socket.socketpair()
    alarm.setblocking(False)
    signal.set_wakeup_fd(alarm.fileno())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    try:
        serve(control, int(arguments[1]), wakeup)
    finally:
        shutil.rmtree(arguments[2], ignore_errors=True)
        control.close()


if __name__ == "__main__":
    main(sys.argv[1:])
