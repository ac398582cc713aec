"""What the benchmark asks of Linux: pins processes to cores and reads their memory; knows no server."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

_PIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execvp(sys.argv[2], sys.argv[2:])"


class Cores(msgspec.Struct, frozen=True):
    """The core of the server that is measured, and the core of whoever measures it."""

    server: int
    load: int


class Memory(msgspec.Struct, frozen=True):
    """Resident memory of a process in bytes: now, and at most so far."""

    now: int
    peak: int


def choose_cores(allowed: set[int]) -> Cores | None:
    """Gives two of the cores that this process may use; None if there is but one."""
    if len(allowed) < 2:
        return None
    server, load = sorted(allowed)[:2]
    return Cores(server, load)


def pinned(core: int, argv: Sequence[str]) -> list[str]:
    """Gives the command that runs `argv` on one core from its first instruction on, all threads included."""
    return [sys.executable, "-I", "-S", "-c", _PIN, str(core), *argv]


def allowed_cores() -> set[int]:
    """Gives the cores that this process may use."""
    return os.sched_getaffinity(0)


def memory_of(pid: int) -> Memory:
    """Reads the memory of a process."""
    return parse_memory(Path(f"/proc/{pid}/status").read_text())


def parse_memory(status: str) -> Memory:
    """Reads the memory from the text of `/proc/PID/status`."""
    found = re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", status, re.MULTILINE)
    kilobytes = {key: int(value) for key, value in found}
    return Memory(kilobytes["VmRSS"] * 1024, kilobytes["VmHWM"] * 1024)
