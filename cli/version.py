"""The command `gpu-tenure version`: of program and cluster, and whether they go together; only reads."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cli.options import Context, Kubeconfig, TextOutput


class Versions(msgspec.Struct, frozen=True):
    """What the command tells; `kubernetes`, `support` and `message` are empty without a cluster."""

    client: str
    python: str
    kubernetes: str = ""
    support: str = ""
    message: str = ""


def version(
    *,
    client: Annotated[bool, typer.Option("--client", help="Ask no cluster.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Annotated[TextOutput, typer.Option("--output", "-o", help="How to print.")] = TextOutput.TEXT,
) -> None:
    """Say the versions of this program and of the cluster, and whether they go together.

    Exit code 1: the cluster is too old, or does not answer.
    """
    from runtime.versions import Support

    told = Versions(importlib.metadata.version("gpu-tenure"), platform.python_version())
    if not client:
        told = _with_server(told, kubeconfig, context)
    if output is TextOutput.JSON:
        typer.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
    else:
        typer.echo(f"gpu-tenure {told.client} (Python {told.python})")
        if told.message:
            typer.echo(told.message)
    if told.support == Support.TOO_OLD:
        sys.exit(1)


def _with_server(told: Versions, kubeconfig: Path | None, context: str | None) -> Versions:
    """Adds what the API server calls itself."""
    from policy.errors import FieldError, InvalidError
    from runtime.kube import ApiError, ApiUnreachable
    from runtime.kubeconfig import KubeConfigError
    from runtime.versions import compatibility

    try:
        git_version = asyncio.run(_ask(kubeconfig, context))
    except KubeConfigError as error:
        raise InvalidError([FieldError("--kubeconfig", f"{error}; --client asks no cluster")]) from error
    except (ApiError, ApiUnreachable) as error:
        typer.echo(f"error: the cluster's version is not known: {error}", err=True)
        sys.exit(1)
    found = compatibility(git_version)
    return msgspec.structs.replace(told, kubernetes=git_version, support=found.support, message=found.message)


async def _ask(kubeconfig: Path | None, context: str | None) -> str:
    from runtime.kube import KubeClient
    from runtime.versions import VersionInfo

    async with await KubeClient.connect(kubeconfig, context) as client:
        return (await client.get("/version", VersionInfo)).git_version
