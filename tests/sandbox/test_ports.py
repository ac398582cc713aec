"""Ports belong to one sandbox."""

from __future__ import annotations

import random
import socket

from sandbox.ports import BLOCK, FIRST, LAST, LOOPBACK, PortBlock


def chance(seed: int) -> random.Random:
    """The same choices for the same seed."""
    return random.Random(seed)  # noqa: S311 (chance, not secrecy)


def test_two_sandboxes_never_share_a_block() -> None:
    """With the same random choice the second takes another block."""
    first = PortBlock.reserve(chance(7))
    second = PortBlock.reserve(chance(7))
    ours, theirs = first.take(), second.take()
    first.close()
    second.close()
    assert ours // BLOCK != theirs // BLOCK


def test_a_port_in_use_is_passed_over() -> None:
    """A port on which somebody listens is not given out."""
    block = PortBlock.reserve(chance(11))
    taken = block.guard.getsockname()[1] + 1
    with socket.socket() as listener:
        listener.bind((LOOPBACK, taken))
        listener.listen()
        assert block.take() > taken
    block.close()


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    """Otherwise a restarted part could find its port taken by somebody's connection."""
    assert FIRST > 1024
    assert LAST < 32768


def test_ports_come_round_but_never_those_of_parts() -> None:
    """A long session starts more children than a block has ports; a stopped part comes back to its own."""
    block = PortBlock.reserve(chance(13))
    part = block.take(keep=True)
    given = [block.take() for _ in range(2 * BLOCK)]
    block.close()
    assert part not in given
    assert max(given.count(port) for port in set(given)) > 1
