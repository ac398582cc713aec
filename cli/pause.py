"""The commands `gpu-tenure pause` and `gpu-tenure unpause`: they write the switch that every reaper reads."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig; otherwise KUBECONFIG or the usual file.")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]


def pause(
    reason: Annotated[str, typer.Option(help="Why, for everybody who wonders.")],
    for_: Annotated[
        str | None, typer.Option("--for", help="How long, such as 2h; otherwise until unpause.", metavar="2h")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Stop every warning and every action of the reaper, at once and everywhere."""
    from policy.durations import format_time, parse_duration
    from policy.errors import FieldError, FormatError, InvalidError
    from reaper.pause import paused_data
    from runtime.clock import SystemClock

    errors = []
    if not reason.strip():
        errors.append(FieldError("--reason", "must not be empty"))
    until: datetime | None = None
    try:
        until = SystemClock().now() + parse_duration(for_).delta if for_ is not None else None
    except FormatError as error:
        errors.append(FieldError("--for", str(error)))
    if errors:
        raise InvalidError(errors)
    _write(paused_data(reason.strip(), until), kubeconfig, context)
    ends = f"until {format_time(until)}" if until else "until somebody runs gpu-tenure unpause"
    typer.echo(f"paused {ends}: {reason.strip()}")


def unpause(
    brake: Annotated[
        bool, typer.Option("--brake", help="Release the brake only; a pause stays as it is.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Let the reaper go on; every announced action gets its full grace again."""
    from reaper.pause import released_data, resumed_data
    from runtime.clock import SystemClock

    now = SystemClock().now()
    _write(released_data(now) if brake else resumed_data(now), kubeconfig, context)
    typer.echo(
        "brake released" if brake else "not paused any more; every announced action gets its grace again"
    )


def _write(data: Mapping[str, str | None], kubeconfig: Path | None, context: str | None) -> None:
    from policy.errors import FieldError, InvalidError
    from runtime.kube import ApiError, ApiUnreachable
    from runtime.kubeconfig import KubeConfigError

    try:
        asyncio.run(_send(data, kubeconfig, context))
    except KubeConfigError as error:
        raise InvalidError([FieldError("--kubeconfig", str(error))]) from error
    except (ApiError, ApiUnreachable) as error:
        typer.echo(f"error: the switch was not written: {error}", err=True)
        sys.exit(1)


async def _send(data: Mapping[str, str | None], kubeconfig: Path | None, context: str | None) -> None:
    from reaper.pause import write_pause
    from runtime.kube import KubeClient

    async with await KubeClient.connect(kubeconfig, context) as client:
        await write_pause(client, data)
