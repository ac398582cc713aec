"""GPUReclaims as a table, the newest first, ending in what they add up to; reads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.printing import new_table, plain
from cli.verdict_table import age
from policy.counting import counted
from reaper.reclaims import Reclaim
from reaper.records import Phase

NOTHING = "\N{EN DASH}"
WIDE = 120
STYLES = {
    Phase.ACCEPTED: "bold red",
    Phase.RESUMED: "green",
    Phase.REVERTED: "yellow",
    Phase.PLANNED: "yellow",
}
WORDS = {"evict": "evicted", "stop": "stopped"}


def history_table(found: Sequence[Reclaim], now: datetime, span: str, width: int) -> RenderableType:
    """All records; fewer columns below `WIDE` characters."""
    if not found:
        return Text(f"Nothing was taken back within {span}.")
    table = new_table()
    wide = width >= WIDE
    titles = [
        "WHEN",
        "NAMESPACE",
        "POD",
        "OWNER",
        "REQUESTER",
        "GPUS",
        "DONE",
        "NODE",
        "EXIT",
        "GPU-H",
        "WHY",
    ]
    shown = [title for title in titles if wide or title not in {"OWNER", "NODE", "REQUESTER", "EXIT"}]
    for title in shown:
        right = title in {"GPUS", "GPU-H"}
        table.add_column(
            title, justify="right" if right else "left", overflow="fold", ratio=1 if title == "WHY" else None
        )
    for one in found:
        row = _row(one, now)
        table.add_row(*(row[title] for title in shown))
    return Group(table, Text(), *_notes(found, now))


def _row(one: Reclaim, now: datetime) -> dict[str, RenderableType]:
    record = one.record
    why = plain(one.sentence or one.reason or record.message)
    if record.phase is not Phase.ACCEPTED:
        why = plain(record.message or one.sentence)
    if one.idle_since is not None:
        why.append(f", idle for {age(record.decided_at - one.idle_since)}")
    return {
        "WHEN": f"{record.decided_at:%m-%d %H:%MZ}",
        "NAMESPACE": plain(record.namespace),
        "POD": plain(record.pod_name),
        "OWNER": plain(NOTHING if one.owner in {"", f"Pod {record.pod_name}"} else one.owner),
        "REQUESTER": plain(one.requester or NOTHING),
        "GPUS": str(record.devices),
        "DONE": _done(one),
        "NODE": plain(one.node or NOTHING),
        "EXIT": plain(", ".join(str(each.exit_code) for each in one.containers) or NOTHING),
        "GPU-H": f"{one.reclaimed_hours(now):.1f}",
        "WHY": why,
    }


def _done(one: Reclaim) -> Text:
    record = one.record
    done = record.phase is Phase.ACCEPTED
    word = WORDS[one.action] if done and one.action in WORDS else f"{one.action}: {record.phase.value}"
    text = plain(word, STYLES.get(record.phase, "dim"))
    if record.active_again_at is not None:
        text.append(", used again", "yellow")
    elif record.returned_at is not None:
        text.append(", came back", "dim")
    return text


def _notes(found: Sequence[Reclaim], now: datetime) -> list[RenderableType]:
    """What they add up to, and for each how to get it back."""
    taken = [one for one in found if one.record.counted and one.record.phase is not Phase.PLANNED]
    again = sum(one.record.active_again_at is not None for one in taken)
    hours = sum(one.reclaimed_hours(now) for one in taken)
    devices = sum(one.record.devices for one in taken)
    what = f"{counted(devices, 'GPU')} of {counted(len(taken), 'pod')} taken back"
    total = Text(f"{what}, {hours:.1f} GPU-hours reclaimed", "bold")
    if again:
        total.append(f"; {again} used again within an hour", "yellow")
    grid = Table.grid(padding=(0, 2))
    for one in taken:
        name = plain(f"{one.record.namespace}/{one.record.pod_name}", "dim")
        grid.add_row(name, plain(one.how_to_get_back))
        if one.logs_url:
            grid.add_row("", Text.assemble("logs: ", plain(one.logs_url)))
    return [total, grid]
