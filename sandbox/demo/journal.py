"""Reads the reaper's own log: the demo shows what the product says, not what the demo thinks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandbox.demo.rows import Finding


class Journal:
    """The log files of one reaper after the other."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    def entries(self) -> Iterator[dict[str, Any]]:
        """Give every line that is a JSON object, oldest first."""
        for path in self.paths:
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if line.startswith("{"):
                    yield json.loads(line)

    def findings(self) -> dict[str, Finding]:
        """Return by UID what was last said of each pod."""
        found: dict[str, Finding] = {}
        for entry in self.entries():
            if entry.get("event") == "verdict changed":
                skip = entry.get("skip", "")
                skip = "" if skip == entry["reason"] else skip
                found[entry["uid"]] = Finding(
                    entry["verdict"], entry["reason"], skip, bool(entry.get("parked"))
                )
        return found

    def said(self, event: str, **fields: str) -> list[dict[str, Any]]:
        """Return the lines with this message and these fields."""
        return [
            entry
            for entry in self.entries()
            if entry.get("event") == event and all(entry.get(key) == value for key, value in fields.items())
        ]
