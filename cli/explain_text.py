"""Prints explanations for people to read; decides nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cli.explanation import Explanation
from policy.keys import short_name


def print_text(explanations: list[Explanation], console: Console | None = None) -> None:
    """Prints a panel per explanation."""
    console = console or Console(highlight=False)
    for explanation in explanations:
        console.print(panel(explanation))


def panel(explanation: Explanation) -> Panel:
    """One explanation as a panel: the answer first, then why, then the patch."""
    is_workload = not isinstance(explanation.object, msgspec.UnsetType)
    shown = explanation.object if is_workload else explanation.pod
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    for name, text in _rows(explanation):
        rows.add_row(name, text)
    parts: list[Any] = [rows]
    if explanation.patch:
        parts += [Text(), _changes(explanation.patch)]
    color = "green" if explanation.allowed else "red"
    return Panel(Group(*parts), title=Text(_title(shown)), title_align="left", border_style=color)


def _rows(explanation: Explanation) -> list[tuple[str, Text]]:
    """Names and texts of what is known."""
    answer = Text("allowed", "green") if explanation.allowed else Text("refused", "bold red")
    rows = [("answer", answer)]
    if not explanation.gpu_pod:
        rows.append(("GPU pod", Text("no: it is admitted as it is")))
        rows += _several("not counted", explanation.uncounted, "yellow")
        return [*rows, *_several("bypass", explanation.bypasses, "yellow")]
    devices = ", ".join(f"{count} x {name}" for name, count in explanation.devices.items())
    if explanation.pod_class is not None:
        rows.append(("devices", Text(devices or "none that can be read")))
    if explanation.cards not in {"0", *explanation.devices.values()}:
        rows.append(("in whole cards", Text(explanation.cards)))
    unsaid = [one for one in explanation.uncounted if one not in explanation.reasons]
    rows += _several("not counted", unsaid, "yellow")
    if explanation.pod_class is not None:
        rows.append(("class", Text(explanation.pod_class)))
    if explanation.policy is not None:
        rows.append(("policy", Text(explanation.policy)))
    rows += _several("why", explanation.reasons, "")
    rows += _several("warnings", explanation.warnings, "yellow")
    rows += _several("bypass", explanation.bypasses, "yellow")
    return rows


def _several(name: str, texts: list[str], style: str) -> list[tuple[str, Text]]:
    """One row per text, the first with the name."""
    return [(name if index == 0 else "", Text(text, style)) for index, text in enumerate(texts)]


def _changes(operations: list[dict[str, Any]]) -> Table:
    """What the patch changes, one line per label, annotation or field."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("changes", "in", "to"):
        table.add_column(heading, overflow="fold")
    for operation in operations:
        parts = tuple(
            part.replace("~1", "/").replace("~0", "~") for part in str(operation["path"]).split("/")[1:]
        )
        if "value" not in operation:
            table.add_row(Text(short_name(parts[-1])), Text(".".join(parts[:-1])), Text("removed", "yellow"))
            continue
        for path, value in _leaves(parts, operation["value"]):
            table.add_row(Text(short_name(path[-1])), Text(".".join(path[:-1])), Text(str(value)))
    return table


def _leaves(path: tuple[str, ...], value: object) -> list[tuple[tuple[str, ...], object]]:
    """The single values below a value, each with its path."""
    if not isinstance(value, dict):
        return [(path, value)]
    return [leaf for key, item in value.items() for leaf in _leaves((*path, str(key)), item)]


def _title(shown: Any) -> str:  # noqa: ANN401 - a Kubernetes object
    """Kind and name."""
    metadata = shown.get("metadata") or {}
    name = metadata.get("name") or f"{metadata.get('generateName', 'unnamed')}…"
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{shown.get('kind', 'Pod')} {namespace}{name}"
