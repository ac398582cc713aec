"""The status as JSON, for programs; reads and decides nothing."""

from __future__ import annotations

from typing import Any

from cli.status_input import Status
from policy.durations import format_time
from reaper.overview import document as row_document


def document(found: Status, *, exempt: bool) -> dict[str, Any]:
    """The answer as docs/status.md has it."""
    pause, switches, planning = found.pause, found.switches, found.planning
    known = not planning.problem
    return {
        "at": format_time(found.at),
        "judged": found.judged and not found.problem,
        "pods": [row_document(row, found.at) for row in found.rows if row.exempt or not exempt],
        "switches": {
            "profile": switches.profile.value if switches.profile else None,
            "dryRun": switches.dry_run,
            "paused": pause.paused if pause else None,
            "pauseReason": pause.reason or None if pause else None,
            "brake": found.brake,
            "stop": bool(planning.ways.rows) if known else None,
            "onPressure": planning.on_pressure if known else None,
        },
        "remarks": list(found.remarks),
        "missing": found.missing,
        "problem": found.problem or None,
    }
