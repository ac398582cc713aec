"""`gpu-tenure pause` and `gpu-tenure unpause`: write the switch that every reaper reads; know no reaper."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer

from cli.options import Context, Kubeconfig
from policy.keys import OWN_NAMESPACE

Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace in which gpu-tenure is installed.")
]
Data = Mapping[str, str | None]


def pause(
    reason: Annotated[str, typer.Option(help="Why, for everybody who wonders.")],
    for_: Annotated[
        str | None, typer.Option("--for", help="How long, such as 2h; otherwise until unpause.", metavar="2h")
    ] = None,
    namespace: Namespace = OWN_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Stop every warning and every action of the reaper, at once and everywhere.

    `gpu-tenure pause --reason "the exporters are being replaced" --for 2h`

    Exit code 1: the switch was not written.
    """
    from policy.durations import Duration, parse_duration
    from policy.errors import FieldError, FormatError, InvalidError
    from reaper.pause import UNTIL, paused_data

    errors = []
    if not reason.strip():
        errors.append(FieldError("--reason", "must not be empty"))
    span: Duration | None = None
    try:
        span = parse_duration(for_) if for_ is not None else None
    except FormatError as error:
        errors.append(FieldError("--for", str(error)))
    if span is not None and span.seconds == 0:
        errors.append(FieldError("--for", "must be longer than nothing"))
    if errors:
        raise InvalidError(errors)

    def make(now: datetime) -> Data:
        return paused_data(reason.strip(), now + span.delta if span else None)

    until = _write(make, namespace, kubeconfig, context)[UNTIL]
    ends = f"until {until}" if until else "until somebody runs gpu-tenure unpause"
    typer.echo(f"paused {ends}: {reason.strip()}")


def unpause(
    brake: Annotated[
        bool, typer.Option("--brake", help="Release the brake only; a pause stays as it is.")
    ] = False,
    namespace: Namespace = OWN_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Let the reaper go on; every announced action gets its full grace again.

    Exit code 1: the switch was not written.
    """
    from reaper.pause import released_data, resumed_data

    _write(released_data if brake else resumed_data, namespace, kubeconfig, context)
    typer.echo(
        "brake released" if brake else "not paused any more; every announced action gets its grace again"
    )


def _write(
    make: Callable[[datetime], Data], namespace: str, kubeconfig: Path | None, context: str | None
) -> Data:
    from policy.errors import FieldError, InvalidError
    from runtime.kube import ApiError, ApiUnreachable
    from runtime.kubeconfig import KubeConfigError

    try:
        return asyncio.run(_send(make, namespace, kubeconfig, context))
    except KubeConfigError as error:
        raise InvalidError([FieldError("--kubeconfig", str(error))]) from error
    except (ApiError, ApiUnreachable) as error:
        missing = isinstance(error, ApiError) and error.status == HTTPStatus.NOT_FOUND
        hint = f"; is gpu-tenure installed in the namespace {namespace}?" if missing else ""
        typer.echo(f"error: the switch was not written: {error}{hint}", err=True)
        sys.exit(1)


async def _send(
    make: Callable[[datetime], Data], namespace: str, kubeconfig: Path | None, context: str | None
) -> Data:
    """Writes the switch by the API server's clock: the reaper's is close to it, a person's may be wrong."""
    from cli.cluster import connected
    from reaper.pause import write_pause

    async with connected(kubeconfig, context) as cluster:
        data = make(cluster.now)
        await write_pause(cluster.client, data, namespace)
        return data
