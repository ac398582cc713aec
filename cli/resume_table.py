"""What came of undoing stops, as a table; undoes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cli.printing import new_table, plain
from reaper.resuming import Decision, Result, Stopped

STYLES = {
    Result.RESUMED: "green",
    Result.WOULD_RESUME: "yellow",
    Result.CHANGED: "yellow",
    Result.FAILED: "bold red",
}


def resume_table(found: Sequence[tuple[Stopped, Decision]], width: int) -> RenderableType:
    """All stops, the newest first; without the numbers of GPUs below 100 characters."""
    if not found:
        return Text("Nothing that was stopped was found.")
    table = new_table()
    titles = ["STOPPED", "NAMESPACE", "OWNER", *(["GPUS"] if width >= 100 else []), "RESULT", "WHAT"]
    for title in titles:
        table.add_column(title, overflow="fold", ratio=1 if title == "WHAT" else None)
    for one, decision in found:
        row = {
            "STOPPED": plain(f"{one.at:%m-%d %H:%MZ}"),
            "NAMESPACE": plain(one.namespace),
            "OWNER": plain(one.owner),
            "GPUS": plain(one.devices),
            "RESULT": plain(decision.result.value.replace("-", " "), STYLES.get(decision.result, "dim")),
            "WHAT": plain(decision.sentence),
        }
        table.add_row(*(row[title] for title in titles))
    counts = Counter(decision.result for _, decision in found)
    total = ", ".join(f"{counts[one]} {one.value.replace('-', ' ')}" for one in Result if counts[one])
    return Group(table, Text(), Text(total, "bold"))
