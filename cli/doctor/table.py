"""Findings for people: the worst first, what is fine only if asked for; decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from cli.doctor.findings import Finding, Level
from cli.printing import new_table, plain

STYLES: Final = {
    Level.ERROR: "bold red",
    Level.WARNING: "bold yellow",
    Level.UNKNOWN: "cyan",
    Level.INFO: "default",
    Level.OK: "green",
}
NARROW: Final = 100


def doctor_table(findings: Sequence[Finding], width: int, *, every: bool) -> RenderableType:
    """The findings, and what they add up to; unless `every`, without those that are fine."""
    shown = [one for one in findings if every or one.level is not Level.OK]
    parts: list[RenderableType] = []
    if shown:
        table = new_table()
        for title in ("LEVEL", "CHECK") if width >= NARROW else ("LEVEL",):
            table.add_column(title)
        table.add_column("FINDING", ratio=1, overflow="fold")
        group = shown[0].group
        for one in shown:
            if one.group != group:
                table.add_section()
            group = one.group
            level = Text(one.level.value, STYLES[one.level])
            table.add_row(*((level, plain(one.check)) if width >= NARROW else (level,)), _text(one))
        parts += [table, Text()]
    parts.append(_total(findings, every=every))
    return Group(*parts)


def _text(one: Finding) -> Text:
    text = plain(one.what, "bold" if one.level.rank <= Level.WARNING.rank else "")
    if one.objects and one.level is not Level.OK:
        text.append("\n  ").append(plain(", ".join(one.objects)))
    if one.why:
        text.append("\n  why: ", "dim").append(plain(one.why, "dim"))
    if one.todo:
        text.append("\n  do:  ", "green").append(plain(one.todo))
    return text


def _total(findings: Sequence[Finding], *, every: bool) -> Text:
    text = Text()
    for level, word in (
        (Level.ERROR, "error"),
        (Level.WARNING, "warning"),
        (Level.UNKNOWN, "not to be seen"),
        (Level.INFO, "remark"),
    ):
        found = [one for one in findings if one.level is level]
        if found:
            several = "" if len(found) == 1 or level is Level.UNKNOWN else "s"
            text.append(f"{len(found)} {word}{several}", STYLES[level])
            if level.rank <= Level.WARNING.rank:
                text.append(f" ({', '.join(dict.fromkeys(one.check for one in found))})")
            text.append("  ")
    good = sum(one.level is Level.OK for one in findings)
    hint = "" if every else " (--all shows them)"
    return text.append(f"{good} fine{hint}", "green")
