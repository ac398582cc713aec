"""Turns what a command printed in colour into an SVG for the README; must not know which command it was.

Use: FORCE_COLOR=1 COLUMNS=150 gpu-tenure judge … | python docs/picture.py docs/judge.svg "title" [150]
"""

import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 150


def draw(ansi: str, title: str, width: int = WIDTH) -> str:
    """Return an SVG of a terminal, so many characters wide, that shows this text."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(ansi.rstrip("\n")))
    return console.export_svg(title=title)


if __name__ == "__main__":
    picture = draw(sys.stdin.read(), sys.argv[2], *map(int, sys.argv[3:]))
    Path(sys.argv[1]).write_text(picture, encoding="utf-8")
