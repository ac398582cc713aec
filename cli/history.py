"""The command `gpu-tenure history`: what was taken back, from the GPUReclaims; it only ever reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Context, Form, Kubeconfig, Namespace, Output

if TYPE_CHECKING:
    from reaper.reclaims import Reclaim

Since = Annotated[
    str, typer.Option(help="How far back; records are kept for 30 days by default.", metavar="7d")
]


def history(
    namespace: Namespace = None,
    since: Since = "7d",
    output: Form = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show which pods lost their GPUs, whose they were, why, and how to get them back.

    Whoever may view a namespace may read its records: `gpu-tenure history -n NAMESPACE`. Reclaimed hours
    count from the action until the owner held devices again, for a day at most. Exit code 1: records are not
    readable, or the cluster did not answer.
    """
    from cli.cluster import answered
    from policy.durations import parse_duration
    from policy.errors import FieldError, FormatError, InvalidError

    try:
        span = parse_duration(since).delta
    except FormatError as error:
        raise InvalidError([FieldError("--since", str(error))]) from error
    found, now = answered(lambda: _read(namespace, span, kubeconfig, context))
    if found is None:
        where = f"namespace {namespace}" if namespace else "all namespaces; name one with -n"
        print(
            f"error: GPUReclaims are not readable with your rights, or not there, in {where}", file=sys.stderr
        )
        sys.exit(1)
    if output is Output.JSON:
        from reaper.reclaims import document

        print(json.dumps([document(one, now) for one in found], indent=2))
        return
    from cli.history_table import history_table
    from cli.printing import show

    show(lambda width: history_table(found, now, since, width))


async def _read(
    namespace: str | None, span: timedelta, kubeconfig: Path | None, context: str | None
) -> tuple[Sequence[Reclaim] | None, datetime]:
    from cli.cluster import connected
    from reaper.reclaims import parse_reclaim
    from reaper.reclaims import since as newer
    from reaper.records import ALL, collection

    async with connected(kubeconfig, context) as cluster:
        path = collection(namespace) if namespace else ALL
        listed = await cluster.listed("GPUReclaims", path, parse_reclaim)
        return None if listed is None else newer(listed, cluster.now - span), cluster.now
