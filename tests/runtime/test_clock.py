from __future__ import annotations

from datetime import UTC

from runtime.clock import SystemClock
from runtime.times import micro_time


def test_the_clock_is_aware_and_never_goes_back() -> None:
    """Wall-clock time is in UTC, differences are of the other."""
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    first = clock.monotonic()
    assert clock.monotonic() >= first


def test_a_micro_time_has_six_digits_and_a_z() -> None:
    """The API server refuses other spellings."""
    assert len(micro_time(SystemClock().now())) == len("2025-01-01T08:00:00.000000Z")
    assert micro_time(SystemClock().now()).endswith("Z")
