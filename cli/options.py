"""Flags that several commands share, and nothing else: importing this costs nothing."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig; otherwise KUBECONFIG or the usual file.")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace.")]
Where = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Where; otherwise the namespace of the context.")
]
Resources = Annotated[
    str,
    typer.Option(
        envvar="GPU_TENURE_GPU_RESOURCES", help="Further names of GPU resources, as the chart's; JSON."
    ),
]


class Output(StrEnum):
    """How a command prints."""

    TABLE = "table"
    JSON = "json"


class TextOutput(StrEnum):
    """How a command prints that has more to say than a table."""

    TEXT = "text"
    JSON = "json"


Form = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]
PIPE_WIDTH = 160
"""The width of tables that go into a file or a pipe."""
