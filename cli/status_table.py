"""All GPU pods as a table, the most waste first, with what could not be read; decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from cli.printing import new_table, plain
from cli.status_input import Status
from cli.verdict_table import IDENTIFIER, NOTHING, STYLES, Column, age
from policy.counting import counted
from policy.keys import Annotation, Label
from policy.verdicts import VerdictKind
from reaper.messages import clock
from reaper.overview import Next, Row

WIDE = 140
COLUMNS = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("OWNER", always=False),
    Column("REQUESTER", always=False),
    Column("CLASS", always=False),
    Column("GPUS", justify="right"),
    Column("UTIL", justify="right"),
    Column("IDLE FOR", justify="right"),
    Column("VERDICT"),
    Column("WHY", always=False, ratio=1),
    Column("DECIDED BY", always=False),
    Column("NEXT"),
)
IN_LINES = ("NAMESPACE", "POD", "GPUS", "VERDICT", "DECIDED BY", "NEXT", "WHY")


def status_table(status: Status, width: int, *, exempt: bool) -> RenderableType:
    """The whole answer, for a terminal of that width; fewer columns below `WIDE` characters."""
    rows = [row for row in status.rows if row.exempt or not exempt]
    parts: list[RenderableType] = []
    if rows:
        table = new_table()
        columns = [column for column in COLUMNS if width >= WIDE or column.always]
        for column in columns:
            table.add_column(column.title, justify=column.justify, overflow="fold", ratio=column.ratio)
        for row in rows:
            cells = cells_of(row, status.at)
            table.add_row(*(cells[column.title] for column in columns))
        parts += [table, Text()]
    parts += [_total(rows, exempt=exempt), *notes(status)]
    return Group(*parts)


def cells_of(row: Row, now: datetime) -> dict[str, Text]:
    """One pod, column by column."""
    subject, verdict = row.subject, row.subject.verdict
    pod, root = subject.pod, subject.root
    maximum = verdict.evidence.maximum if verdict else None
    style = STYLES[row.kind] if row.kind else "dim"
    word = row.kind.value if row.kind else NOTHING
    return {
        "NAMESPACE": plain(pod.namespace),
        "POD": plain(pod.name),
        "OWNER": plain(NOTHING if root.uid == pod.uid else f"{root.kind} {root.name}"),
        "REQUESTER": plain(pod.annotations.get(Annotation.REQUESTED_BY) or NOTHING),
        "CLASS": plain(pod.labels.get(Label.CLASS) or NOTHING),
        "GPUS": Text(str(subject.devices)),
        "UTIL": Text(NOTHING if maximum is None else f"{maximum:.0f} %"),
        "IDLE FOR": Text(age(now - row.idle_since) if row.idle_since else NOTHING, style),
        "VERDICT": Text(word + (" (parked)" if verdict and verdict.parked else ""), style),
        "WHY": _why(row),
        "DECIDED BY": Text(f"{row.switch.value}: {row.most.value}"),
        "NEXT": _next(row, now),
    }


def _why(row: Row) -> Text:
    reasons = [one.value for one in (row.reason, row.skip) if one is not None]
    text = plain(", ".join(dict.fromkeys(reasons)))
    if row.sentence:
        text.append(": " if reasons else "").append(plain(IDENTIFIER.sub(r"\1…", row.sentence)))
    return text


def _next(row: Row, now: datetime) -> Text:
    if row.kind is VerdictKind.SKIPPED and row.exempt:
        until = f" until {clock(row.exempt_until, now)}" if row.exempt_until else ""
        return Text(f"exempt{until}", "dim")
    text = Text("" if row.next_step is Next.NOTHING else row.next_step.value, "bold")
    if row.next_at is not None:
        text.append(f" at {clock(row.next_at, now)}")
    if row.subject.snooze.until is not None:
        text.append(f"{', ' if text else ''}kept until {clock(row.subject.snooze.until, now)}")
    if row.deadline_at is not None:
        text.append(f"{', ' if text else ''}deadline {clock(row.deadline_at, now)}", "dim")
    return text or Text(NOTHING, "dim")


def _total(rows: Sequence[Row], *, exempt: bool) -> Text:
    if not rows:
        return Text("No pod is exempt." if exempt else "No GPU pods.")
    held = sum(row.subject.devices for row in rows)
    text = Text(f"{counted(held, 'GPU')} in {counted(len(rows), 'pod')}:", "bold")
    for kind in (VerdictKind.IDLE, VerdictKind.ACTIVE, VerdictKind.UNKNOWN, VerdictKind.SKIPPED):
        devices = sum(row.subject.devices for row in rows if row.kind is kind)
        if devices:
            text.append(f"  {devices} {kind.value}", STYLES[kind])
    parked = sum(row.subject.devices for row in rows if row.subject.verdict and row.subject.verdict.parked)
    if parked:
        text.append(f"  ({parked} of the idle ones parked: memory held, nothing computed)", "dim")
    return text


def notes(status: Status) -> Iterator[Text]:
    """What concerns all pods: switches, remarks, and what could not be read."""
    if status.pause is not None and status.pause.paused:
        until = f" until {status.pause.until:%Y-%m-%d %H:%MZ}" if status.pause.until else ""
        yield Text.assemble((f"paused{until}: ", "bold yellow"), plain(status.pause.reason))
    if status.brake:
        yield Text("the brake holds every warning and action", "bold yellow")
    if status.switches.dry_run:
        yield Text("dry run: the reaper only says what it would do", "yellow")
    if status.planning.on_pressure:
        yield Text("the reaper acts only while GPU pods wait for devices; times are the earliest", "yellow")
    if not status.judged:
        yield Text(
            "verdicts are what the reaper wrote on pods; --prometheus-url judges them now, with utilization",
            "dim",
        )
    for remark in status.remarks:
        yield Text.assemble(("remark: ", "yellow"), plain(remark))
    for what, why in sorted(status.missing.items()):
        yield plain(f"{what}: {why}", "dim")


def line_of(row: Row, now: datetime) -> str:
    """One pod as one line, where no terminal shows a table."""
    cells = cells_of(row, now)
    return "\t".join(cells[name].plain for name in (*IN_LINES, "IDLE FOR"))


def change_of(row: Row, now: datetime) -> str:
    """What of that line is worth a new one: not that time goes by."""
    cells = cells_of(row, now)
    return "\t".join(cells[name].plain for name in IN_LINES)
