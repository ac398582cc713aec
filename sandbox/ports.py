"""Hands out loopback ports that no other sandbox and no outgoing connection takes; listens on none."""

from __future__ import annotations

import itertools
import random
import socket

LOOPBACK = "127.0.0.1"
# Below the ports that Linux gives to outgoing connections (from 32768 on).
FIRST, LAST, BLOCK = 12000, 32000, 100


class PortBlock:
    """A block of ports that belongs to one sandbox for as long as `guard` is open."""

    def __init__(self, guard: socket.socket) -> None:
        first = int(guard.getsockname()[1])
        self.guard = guard
        self._kept: set[int] = set()
        self._cycle = itertools.cycle(range(first + 1, first + BLOCK))

    @classmethod
    def reserve(cls, rng: random.Random) -> PortBlock:
        """Takes a random block that nobody has; OSError if all are taken."""
        starts = list(range(FIRST, LAST, BLOCK))
        rng.shuffle(starts)
        for start in starts:
            guard = _try_listen(start)
            if guard is not None:
                return cls(guard)
        msg = "no free block of loopback ports"
        raise OSError(msg)

    def take(self, *, keep: bool = False) -> int:
        """Gives the next port of the block on which nothing listens.

        After the last comes the first again; with `keep` the port is never given out a second time.
        """
        for port in itertools.islice(self._cycle, BLOCK - 1):
            if port in self._kept:
                continue
            probe = _try_listen(port)
            if probe is not None:
                probe.close()
                self._kept |= {port} if keep else set()
                return port
        msg = f"all {BLOCK} ports of this sandbox are in use"
        raise OSError(msg)

    def close(self) -> None:
        """Gives our hold on the block up (the warden may keep its own)."""
        self.guard.close()


def _try_listen(port: int) -> socket.socket | None:
    probe = socket.socket()
    try:
        probe.bind((LOOPBACK, port))
        probe.listen(1)
    except OSError:
        probe.close()
        return None
    return probe
