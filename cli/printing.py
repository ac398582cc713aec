"""Prints tables of rich, as wide as a terminal is or as a pipe deserves; knows no command."""

from __future__ import annotations

import os
from collections.abc import Callable

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cli.options import PIPE_WIDTH
from runtime.log import escape


def console_of() -> Console:
    """Gives standard output."""
    console = Console()
    wide = not console.is_terminal and "COLUMNS" not in os.environ
    return Console(width=PIPE_WIDTH) if wide else console


def show(make: Callable[[int], RenderableType]) -> None:
    """Prints what is made for the width of standard output."""
    console = console_of()
    console.print(make(console.width))


def new_table() -> Table:
    """Gives an empty table in the look that all commands have."""
    return Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False, header_style="bold"
    )


def plain(text: object, style: str = "") -> Text:
    """Gives a text that users chose: no markup of rich, and nothing that steers a terminal."""
    return Text(escape(str(text)), style)
