"""Pinning and memory, on real processes."""

import os
import subprocess
import sys

import pytest

from bench.processes import Cores, Memory, allowed_cores, choose_cores, memory_of, parse_memory, pinned


@pytest.mark.parametrize(
    ("allowed", "cores"),
    [
        pytest.param({0, 1}, Cores(0, 1), id="two cores are shared out"),
        pytest.param({7, 3, 5}, Cores(3, 5), id="of many the first two are taken"),
        pytest.param({4}, None, id="one core is not enough"),
    ],
)
def test_cores(allowed: set[int], cores: Cores | None) -> None:
    """Server and load never share a core."""
    assert choose_cores(allowed) == cores


def test_a_pinned_process_runs_on_its_core_only() -> None:
    """It is the program itself that runs there, under the same process id."""
    core = max(allowed_cores())
    program = "import os; print(os.getpid(), sorted(os.sched_getaffinity(0)))"
    with subprocess.Popen(
        pinned(core, [sys.executable, "-c", program]), stdout=subprocess.PIPE, text=True
    ) as ran:
        output, _ = ran.communicate(timeout=30)
    assert output.split(maxsplit=1) == [str(ran.pid), f"[{core}]\n"]


def test_memory_is_read_in_bytes() -> None:
    """Linux writes kilobytes of 1024 bytes."""
    assert parse_memory("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n") == Memory(
        1024**2, 2 * 1024**2
    )


def test_memory_of_this_process_is_plausible() -> None:
    """The peak is never below what is resident now."""
    memory = memory_of(os.getpid())
    assert 1_000_000 < memory.now <= memory.peak
