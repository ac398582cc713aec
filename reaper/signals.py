"""Signals of devices, joined by pod; made from Prometheus' answers, without I/O and without a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Signals(Struct, frozen=True):
    """All signals of one window.

    Attributes:
        seconds: The window.
    """

    seconds: int
