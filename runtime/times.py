"""Times in the spelling of Kubernetes' MicroTime. Reads no clock."""

from __future__ import annotations

from datetime import UTC, datetime


def micro_time(moment: datetime) -> str:
    """Returns an aware time as a MicroTime in UTC, e.g. `2025-01-01T08:00:00.000000Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
