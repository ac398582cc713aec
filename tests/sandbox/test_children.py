"""The warden ends everything with its parent, however the parent ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.children import ChildError, Children, sweep
from sandbox.deadline import wait
from sandbox.ports import LOOPBACK

SLEEP = ["sleep", "1000"]
ENV = {"PATH": os.environ["PATH"]}
# A parent as a user would write it: it starts a child that listens on a port, says where, and waits.
PARENT = """
import sys, signal
from sandbox.children import Children
children = Children.start()
code = '''
import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(999)
'''
pid = children.spawn("listener", [sys.executable, "-c", code], {})
while not children.log("listener").read_text().strip():
    pass
print(children.folder, children.warden_pid, pid, children.log("listener").read_text().strip(), flush=True)
{then}
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
print("up", flush=True)
while True:
    time.sleep(9)
"""
ENDS = [
    pytest.param("signal.pause()", signal.SIGKILL, id="killed"),
    pytest.param("signal.pause()", signal.SIGTERM, id="terminated without a handler"),
    pytest.param("signal.pause()", signal.SIGINT, id="interrupted by Ctrl-C"),
    pytest.param("raise RuntimeError('boom')", None, id="crashed with an exception"),
    pytest.param("import os; os.abort()", None, id="crashed in native code"),
    pytest.param("", None, id="ended without closing"),
]


@pytest.fixture
def children() -> Iterator[Children]:
    """A warden without children."""
    started = Children.start()
    yield started
    started.close()


def alive(pid: int) -> bool:
    """Says whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(("then", "number"), ENDS)
def test_nothing_is_left_when_the_parent_is(then: str, number: int | None) -> None:
    """No process, port or folder outlives the parent."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.replace("{then}", then)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    folder, warden, child, port = parent.stdout.readline().split()
    if number is not None:
        parent.send_signal(number)
    parent.wait(10)
    parent.stdout.close()
    wait(lambda: not alive(int(warden)) and not alive(int(child)), 10, "warden and child are gone")
    assert not Path(folder).exists()
    with socket.socket() as probe:
        probe.bind((LOOPBACK, int(port)))


def test_a_killed_warden_takes_its_children_along() -> None:
    """The kernel kills the children, and the next sandbox removes the folder."""
    children = Children.start()
    pid = children.spawn("sleeper", SLEEP, ENV)
    os.kill(children.warden_pid, signal.SIGKILL)
    wait(lambda: not alive(pid), 5, "the child is gone")
    sweep(Path(tempfile.gettempdir()))
    assert not children.folder.exists()
    with pytest.raises(ChildError, match="gone"):
        children.states()
    children.close()


def test_a_sweep_leaves_running_sandboxes_alone(children: Children) -> None:
    """Only folders whose warden is gone are removed."""
    sweep(Path(tempfile.gettempdir()))
    assert children.folder.is_dir()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_child_can_be_ended_and_started_again(children: Children, how: str) -> None:
    """The same name can be used again once its process is gone."""
    first = children.spawn("sleeper", SLEEP, ENV)
    getattr(children, how)("sleeper")
    assert not alive(first)
    second = children.spawn("sleeper", SLEEP, ENV)
    assert second != first
    assert children.running("sleeper")


def test_a_child_that_ignores_the_request_to_stop_is_killed(children: Children) -> None:
    """SIGTERM first, SIGKILL when the time is up."""
    children.spawn("stubborn", [sys.executable, "-c", STUBBORN], {}, stop_seconds=1)
    wait(lambda: "up" in children.log_tail("stubborn"), 10, "the child is up")
    children.stop("stubborn", 0.3)
    assert children.states()["stubborn"].code == -signal.SIGKILL
    assert "no" in children.log_tail("stubborn")


def test_a_name_in_use_is_refused(children: Children) -> None:
    """Two children of one name would make one of them unreachable."""
    children.spawn("sleeper", SLEEP, ENV)
    with pytest.raises(ChildError, match="runs already"):
        children.spawn("sleeper", SLEEP, ENV)


def test_a_program_that_does_not_exist_is_an_error_at_once(children: Children) -> None:
    """The warden survives it and says what was wrong."""
    with pytest.raises(ChildError, match="No such file"):
        children.spawn("ghost", ["/no/such/program"], ENV)
    assert children.states() == {}


def test_a_child_that_ended_is_told_with_the_end_of_its_log(children: Children) -> None:
    """Whoever waits for it learns why it will never be ready."""
    children.spawn("brief", ["sh", "-c", "echo port taken; exit 3"], ENV)
    wait(lambda: not children.running("brief"), 5, "the child has ended")
    with pytest.raises(ChildError, match=r"(?s)exit code 3.*port taken"):
        children.check("brief")


def test_a_suspended_child_neither_works_nor_ends(children: Children) -> None:
    """SIGSTOP freezes it, SIGCONT lets it go on."""
    pid = children.spawn("sleeper", SLEEP, ENV)

    def state() -> str:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    children.suspend("sleeper")
    wait(lambda: state() == "T", 5, "the child is frozen")
    assert children.running("sleeper")
    children.resume("sleeper")
    wait(lambda: state() == "S", 5, "the child goes on")


def test_a_suspended_child_does_not_hold_up_the_end() -> None:
    """Closing kills what cannot listen."""
    children = Children.start()
    pid = children.spawn("sleeper", SLEEP, ENV, stop_seconds=1)
    children.suspend("sleeper")
    children.close()
    assert not alive(pid)
