"""Draws the rows of the demo as a table and speaks between the acts; knows not where rows come from."""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import replace

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sandbox.demo.rows import Row

COLOURS = {"Active": "green", "Idle": "yellow", "Unknown": "magenta", "Skipped": "dim"}
OUTCOMES = {"evicted": "bold red", "blocked": "bold cyan", "spared": "bold green", "warned": "yellow"}
NEXT = {
    "evicted": "evicted, GPU is free",
    "blocked": "kept by its budget",
    "spared": "spared, busy again",
}
ADMITTED = ("namespace", "pod", "GPUs", "class", "deadline")
JUDGED = ("namespace", "pod", "GPUs", "verdict", "reason", "what next", "mean\n< 10 %")
ALL = (*ADMITTED, *JUDGED[3:])
WIDE = 140
TEMPLATE_HASH = re.compile(r"-[a-z0-9]{8,10}(?=-[a-z0-9]{5}$)")


def admitted(rows: Iterable[Row]) -> RenderableType:
    """Return what admission gave each pod."""
    return _table(rows, "What admission gave them", ADMITTED)


def judged(rows: Iterable[Row], title: str, width: int) -> RenderableType:
    """Return what the reaper makes of each pod; terminals narrower than `WIDE` see less of the admission."""
    return _table(rows, title, ALL if width >= WIDE else JUDGED)


def _table(rows: Iterable[Row], title: str, headings: Iterable[str]) -> Padding:
    drawn = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_style="bold",
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
        header_style="bold",
    )
    for heading in headings:
        drawn.add_column(heading, justify="right" if heading == "GPUs" else "left", overflow="fold")
    previous = ""
    for row in _together(rows):
        if previous and row.namespace != previous:
            drawn.add_section()
        cells = _cells(row, first=row.namespace != previous)
        drawn.add_row(*(cells[heading] for heading in headings))
        previous = row.namespace
    return Padding(drawn, (1, 0))


def _together(rows: Iterable[Row]) -> list[Row]:
    """Put pods of one run that only differ in their names on one line."""
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        groups.setdefault(replace(row, pod=row.pod.split("-", maxsplit=1)[0], devices=0), []).append(row)
    drawn = [_merged(group) if len(group) > 2 else row for group in groups.values() for row in _first(group)]
    return sorted(drawn, key=lambda row: (row.namespace, row.pod))


def _first(group: list[Row]) -> list[Row]:
    return group[:1] if len(group) > 2 else group


def _merged(group: list[Row]) -> Row:
    name = f"{group[0].pod.split('-', maxsplit=1)[0]}-… ({len(group)} pods)"
    return replace(group[0], pod=name, devices=sum(row.devices for row in group))


def _cells(row: Row, *, first: bool) -> dict[str, Text]:
    reason = row.skip or row.reason
    texts = (
        Text(row.namespace if first else "", style="bold"),
        Text(TEMPLATE_HASH.sub("-…", row.pod)),
        Text(str(row.devices)),
        Text(row.pod_class or "-", style="" if row.pod_class else "dim"),
        Text(row.deadline or "-", style="dim" if row.deadline.startswith("none") or not row.deadline else ""),
        Text(
            f"{row.verdict}, parked" if row.parked else row.verdict or "…",
            style=COLOURS.get(row.verdict, "dim"),
        ),
        Text(reason or "…", style="dim" if not row.reason else ""),
        Text(_next(row), style=OUTCOMES.get(row.outcome, "dim")),
        Text("kills it", style="red") if row.naive else Text("-", style="dim"),
    )
    return dict(zip(ALL, texts, strict=True))


def _next(row: Row) -> str:
    if row.outcome in NEXT:
        return NEXT[row.outcome]
    if row.outcome == "warned":
        return f"evicted at {row.reclaim_at[11:19]}Z" if row.reclaim_at else "warned, nothing else"
    return "left alone" if row.verdict else "…"


def act(console: Console, number: int, title: str, *sentences: str) -> None:
    """Open an act."""
    console.print()
    console.print(
        Panel(
            "\n".join(sentences), title=f"[bold]{number}. {title}[/bold]", title_align="left", box=box.ROUNDED
        )
    )


def say(console: Console, *parts: str) -> None:
    """Tell one thing that was just done."""
    console.print(Padding(" ".join(parts), (0, 0, 0, 2)), highlight=False)


def seen(console: Console, label: str, *, good: bool) -> None:
    """Tell one thing that was just checked."""
    console.print(f"  {'[green]✔[/green]' if good else '[bold red]✘[/bold red]'} {label}", highlight=False)


def waiting(console: Console, label: str) -> contextlib.AbstractContextManager[object]:
    """Show on a terminal what is being waited for."""
    if not console.is_terminal:
        return contextlib.nullcontext()
    return console.status(f"[dim]waiting until {label}[/dim]")
