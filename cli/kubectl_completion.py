"""Completes `kubectl gpu-tenure …`: kubectl runs this and reads its own form; knows no command.

The form, one suggestion a line and then `:` with a number, is that of kubectl's command line library.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys

from cli.main import build

# Suggest no file names where there is nothing else to suggest.
NO_FILES = 4


def main() -> None:
    """Print what could come in the place of the last argument of this process, which may be empty."""
    sys.stdout.write(f"{suggestions(sys.argv[1:])}:{NO_FILES}\n")


def suggestions(words: list[str]) -> str:
    """Give the completions of the last of `words`, a line each."""
    line = {"COMP_WORDS": shlex.join(["gpu-tenure", *words]), "COMP_CWORD": str(len(words))}
    os.environ.update(line, _GPU_TENURE_COMPLETE="complete_bash")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        build([])(prog_name="gpu-tenure")
    return "".join(f"{word}\n" for word in printed.getvalue().split())


if __name__ == "__main__":
    main()
