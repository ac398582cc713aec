"""Verdicts as a table that people like to read, ending in a summary; computes no verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from rich.console import Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.printing import new_table, plain
from policy.counting import counted
from policy.verdicts import REASONS, Reason, VerdictKind
from reaper.advice import advise
from reaper.dossier import Judged
from reaper.observation import Observation

STYLES = {
    VerdictKind.IDLE: "bold red",
    VerdictKind.UNKNOWN: "yellow",
    VerdictKind.ACTIVE: "green",
    VerdictKind.SKIPPED: "dim",
}
ORDER = list(STYLES)
BAR_WIDTH = 24
WIDE = 120
NOTHING = "\N{EN DASH}"
# Of a device, what tells it apart: JSON has it in full.
IDENTIFIER = re.compile(r"\b((?:GPU|MIG)-[0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Column(Struct, frozen=True):
    """A column; narrow terminals show only those that are there always."""

    title: str
    always: bool = True
    justify: JustifyMethod = "left"
    ratio: int | None = None


COLUMNS = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("GPUS", justify="right"),
    Column("VERDICT"),
    Column("IDLE FOR", justify="right"),
    Column("MAX", always=False, justify="right"),
    Column("MEMORY", always=False, justify="right"),
    Column("HOW IT IS KNOWN", ratio=1),
    Column("TERMS", always=False),
)


def verdict_table(judged: Sequence[Judged], observation: Observation, width: int = 160) -> RenderableType:
    """All verdicts, the longest idle first, and what they add up to; fewer columns below `WIDE` characters.

    Of an incomplete observation only the summary is shown: every line would say the same.
    """
    if not judged:
        return Text("No GPU pods in the list.")
    end = Padding(summary(judged, observation), (1, 0))
    if not observation.complete:
        return end
    table = new_table()
    columns = [column for column in COLUMNS if width >= WIDE or column.always]
    for column in columns:
        table.add_column(column.title, justify=column.justify, overflow="fold", ratio=column.ratio)
    kind: VerdictKind | None = None
    for one in sorted(judged, key=_rank):
        if kind not in {None, one.verdict.kind}:
            table.add_section()
        kind = one.verdict.kind
        row = _row(one, observation.observed_at, wide=width >= WIDE)
        table.add_row(*(row[column.title] for column in columns))
    return Group(table, end)


def summary(judged: Sequence[Judged], observation: Observation) -> RenderableType:
    """Devices by verdict, Unknown by reason, idle devices by namespace, and what would help."""
    parts: list[RenderableType] = [_totals(judged)]
    unknown = [one for one in judged if one.verdict.kind is VerdictKind.UNKNOWN]
    if unknown:
        parts += [Text("\nUnknown, by reason", style="bold"), _by_reason(unknown)]
    idle = [one for one in judged if one.verdict.kind is VerdictKind.IDLE]
    if idle:
        parts += [Text("\nIdle devices, by namespace", style="bold"), _by_namespace(idle)]
    unseen = [one.pod for one in unknown if one.verdict.reason is Reason.NO_SERIES]
    hints = advise({one.verdict.reason for one in unknown}, unseen, observation.metrics)
    if hints:
        parts.append(Text("\nWhat would make the Unknown ones visible", style="bold"))
        grid = _grid()
        for reason, hint in hints:
            grid.add_row("  •", Text(reason.value, style=STYLES[VerdictKind.UNKNOWN]), hint)
        parts.append(grid)
    if any(one.given.assumed for one in judged):
        parts.append(
            Text("\n* terms assumed: the pod carries none; given by --policy or its class", style="dim")
        )
    return Group(*parts)


def _row(one: Judged, now: datetime, *, wide: bool) -> dict[str, RenderableType]:
    pod, verdict, terms, evidence = one.pod, one.verdict, one.given.terms, one.verdict.evidence
    style = STYLES[verdict.kind]
    idle, action = verdict.idle_since, "exempt" if terms.exempt else terms.action.value
    known = Text("" if verdict.kind is VerdictKind.IDLE else verdict.reason.value, style)
    if wide or verdict.kind is VerdictKind.IDLE:
        sentence = IDENTIFIER.sub(r"\1…", verdict.sentence or REASONS[verdict.reason])
        known.append(": " if known else "").append(sentence, "default")
    return {
        "NAMESPACE": plain(pod.namespace),
        "POD": plain(pod.name),
        "GPUS": str(pod.devices.devices),
        "VERDICT": Text(verdict.kind.value + (" (parked)" if verdict.parked else ""), style),
        "IDLE FOR": Text(NOTHING, "dim") if idle is None else Text(age(now - idle), style),
        "MAX": NOTHING if evidence.maximum is None else f"{evidence.maximum:.0f} %",
        "MEMORY": memory(evidence.memory),
        "HOW IT IS KNOWN": known,
        "TERMS": f"{action} {terms.after}{'*' if one.given.assumed else ''}",
    }


def _totals(judged: Sequence[Judged]) -> RenderableType:
    looked_at = [one for one in judged if one.verdict.kind is not VerdictKind.SKIPPED]
    held = sum(map(_devices, looked_at))
    seen = sum(one.verdict.evidence.devices_seen for one in judged)
    held_by = f"{counted(held, 'device')} in {counted(len(looked_at), 'pod')}"
    text = Text.assemble((held_by, "bold"), f", {seen} seen in Prometheus:  ")
    for kind in (VerdictKind.ACTIVE, VerdictKind.IDLE, VerdictKind.UNKNOWN, VerdictKind.SKIPPED):
        of_kind = [one for one in judged if one.verdict.kind is kind]
        if of_kind:
            text.append(f"{sum(_devices(one) for one in of_kind)} {kind.value}  ", style=STYLES[kind])
    parked = sum(_devices(one) for one in judged if one.verdict.parked)
    if parked:
        text.append(f"({parked} of the idle ones parked: memory held, nothing computed)", style="dim")
    return text


def _by_reason(unknown: Sequence[Judged]) -> RenderableType:
    devices: Counter[Reason] = Counter()
    for one in unknown:
        devices[one.verdict.reason] += _devices(one)
    grid = _grid()
    for reason, count in devices.most_common():
        grid.add_row(f"  {count}", Text(reason.value, style=STYLES[VerdictKind.UNKNOWN]), REASONS[reason])
    return grid


def _by_namespace(idle: Sequence[Judged]) -> RenderableType:
    devices: Counter[str] = Counter()
    for one in idle:
        devices[one.pod.namespace] += _devices(one)
    most = max(devices.values())
    grid = _grid()
    for namespace, count in sorted(devices.items(), key=lambda item: (-item[1], item[0])):
        bar = "█" * max(1, round(BAR_WIDTH * count / most))
        grid.add_row(f"  {count}", plain(namespace), Text(bar, style=STYLES[VerdictKind.IDLE]))
    return grid


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    grid.add_column()
    grid.add_column(ratio=1)
    return grid


def _devices(one: Judged) -> int:
    return one.pod.devices.devices


def _rank(one: Judged) -> tuple[int, float, int, str, str]:
    since = one.verdict.idle_since
    return (
        ORDER.index(one.verdict.kind),
        since.timestamp() if since else 0.0,
        -_devices(one),
        one.pod.namespace,
        one.pod.name,
    )


def age(span: timedelta) -> str:
    """A span as people say it, in its two largest units."""
    minutes = int(span.total_seconds()) // 60
    days, hours = minutes // 1440, minutes // 60 % 24
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes % 60:02d}m" if hours else f"{minutes}m"


def memory(size: int | None) -> str:
    """Bytes as GiB or MiB."""
    if size is None:
        return NOTHING
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"
