"""Shows the status again and again: a table drawn anew on a terminal, else lines; reads nothing."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from cli.options import Output
from cli.printing import plain
from cli.status_document import document
from cli.status_input import Status
from cli.status_table import change_of, line_of, status_table
from policy.durations import format_time


class Screen:
    """Where a watch shows what it found, and for how long it has found nothing newer."""

    def __init__(self, console: Console, output: Output, *, exempt: bool) -> None:
        self._console = console
        self._output = output
        self._exempt = exempt
        self._live = Live(console=console, auto_refresh=False)
        self._drawn = console.is_terminal and output is Output.TABLE
        self._last: Status | None = None
        self._said: dict[str, str] = {}
        self._stale = False

    def __enter__(self) -> Self:
        if self._drawn:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._drawn:
            self._live.stop()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been shown yet, so that there is nothing to keep."""
        return self._last is None

    def show(self, found: Status) -> None:
        """Shows what was found just now."""
        if self._stale and not self._drawn:
            print("the API server answers again", file=sys.stderr, flush=True)
        self._last, self._stale = found, False
        if self._drawn:
            self._live.update(self._table(found), refresh=True)
        elif self._output is Output.JSON:
            print(json.dumps(document(found, exempt=self._exempt)), flush=True)
        else:
            self._lines(found)

    def keep(self, problem: str) -> None:
        """Says since when nothing newer could be read, and why; what was shown stays."""
        if self._last is None:
            return
        what = f"not current: nothing newer could be read since {format_time(self._last.at)}: {problem}"
        if self._drawn:
            parts = (self._table(self._last), plain(what, "bold red"))
            self._live.update(Group(*parts), refresh=True)
        elif not self._stale:
            print(f"error: {what}", file=sys.stderr, flush=True)
        self._stale = True

    def _table(self, found: Status) -> RenderableType:
        table = status_table(found, self._console.width, exempt=self._exempt)
        if not found.problem:
            return table
        why = plain(f"Prometheus: {found.problem}; verdicts are what the reaper wrote on pods", "bold yellow")
        return Group(table, Text(), why)

    def _lines(self, found: Status) -> None:
        """Prints what changed since the last look."""
        rows = [row for row in found.rows if row.exempt or not self._exempt]
        said = {row.subject.pod.uid: change_of(row, found.at) for row in rows}
        for row in rows:
            uid = row.subject.pod.uid
            if self._said.get(uid) != said[uid]:
                print(f"{format_time(found.at)}\t{line_of(row, found.at)}", flush=True)
        self._said = said
