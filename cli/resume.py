"""The command `gpu-tenure resume`: undoes stops with a person's own rights; decides nothing itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import Context, Form, Kubeconfig, Output, Where

if TYPE_CHECKING:
    from cli.cluster import Cluster
    from policy.errors import FieldError
    from reaper.resuming import Decision, Stopped, Wanted

Owner = Annotated[
    str | None,
    typer.Argument(help="What was stopped, such as deployment/web or job/train.", metavar="KIND/NAME"),
]
Since = Annotated[
    str | None,
    typer.Option(help="Everything that was stopped since then: a time, or so long ago.", metavar="2h"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask the API server, and change nothing.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces, with --since.")]


def resume(  # noqa: PLR0913, PLR0917  one argument per flag
    owner: Owner = None,
    since: Since = None,
    dry_run: DryRun = False,
    namespace: Where = None,
    all_namespaces: Everywhere = False,
    output: Form = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Start again what the reaper has stopped because its GPUs were idle.

    `gpu-tenure resume deployment/web -n team-a`: a Deployment, ReplicaSet or StatefulSet gets its former
    number of replicas, a Job, a Notebook or a workload of Kueue's goes on.

    `gpu-tenure resume --since 2h -n team-a --dry-run`: shows what all stops of the last two hours come to.

    What was before is in the GPUReclaims of the namespace. Whoever may view the namespace and patch the owner
    may do it. A Job keeps only what it had left of its deadline. What somebody scaled or started in the
    meantime stays as it is, and a second run changes nothing. Exit code 0: all that was found runs. 1:
    something could not be resumed, or nothing was found by that name. 2: bad input.
    """
    from cli.cluster import answered, namespace_of
    from policy.errors import InvalidError

    errors: list[FieldError] = []
    wanted = _wanted(owner, since, errors)
    span = _since(since, errors)
    if errors:
        raise InvalidError(errors)
    where = None if all_namespaces else namespace or namespace_of(kubeconfig, context)
    found = answered(lambda: _resume(where, wanted, span, kubeconfig, context, dry_run=dry_run))
    if output is Output.JSON:
        from reaper.resuming import document

        print(json.dumps([document(*each) for each in found], indent=2))
    else:
        from cli.printing import show
        from cli.resume_table import resume_table

        show(lambda width: resume_table(found, width))
    sys.exit(_exit_code(found, wanted, where))


def _wanted(owner: str | None, since: str | None, errors: list[FieldError]) -> Wanted | None:
    from policy.errors import FieldError, FormatError
    from reaper.resuming import parse_wanted

    if owner is None:
        if since is None:
            errors.append(
                FieldError("KIND/NAME", "name what to resume, such as deployment/web, or give --since 2h")
            )
        return None
    try:
        return parse_wanted(owner)
    except FormatError as error:
        errors.append(FieldError("KIND/NAME", str(error)))
        return None


def _since(text: str | None, errors: list[FieldError]) -> datetime | timedelta | None:
    from policy.durations import parse_duration, parse_time
    from policy.errors import FieldError, FormatError

    if text is None:
        return None
    try:
        return parse_duration(text).delta
    except FormatError:
        pass
    try:
        return parse_time(text)
    except FormatError:
        wanted = "must be a time such as 2026-01-31T09:30:00Z or a duration such as 2h"
        errors.append(FieldError("--since", f"{wanted}, is {text!r}"))
        return None


async def _resume(
    namespace: str | None,
    wanted: Wanted | None,
    since: datetime | timedelta | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    dry_run: bool,
) -> Sequence[tuple[Stopped, Decision]]:
    from cli.cluster import connected
    from reaper.reclaims import parse_reclaim
    from reaper.records import ALL, collection
    from reaper.resuming import is_wanted, stopped_in

    async with connected(kubeconfig, context) as cluster:
        path = collection(namespace) if namespace else ALL
        listed = await cluster.listed("GPUReclaims", path, parse_reclaim)
        if listed is None:
            where = f"namespace {namespace}" if namespace else "all namespaces; name one with -n"
            print(f"error: GPUReclaims are {cluster.missing['GPUReclaims']}, in {where}", file=sys.stderr)
            sys.exit(1)
        start = cluster.now - since if isinstance(since, timedelta) else since
        stops = [one for one in stopped_in(listed, start) if is_wanted(one, wanted)]
        return [(one, await _undo(cluster, one, dry_run=dry_run)) for one in stops]


async def _undo(cluster: Cluster, one: Stopped, *, dry_run: bool) -> Decision:
    """Undoes one stop; whatever the API server refuses is part of the answer."""
    from reaper.resuming import Decision, Result, decide
    from runtime.kube import ApiError

    try:
        content = await _content(cluster, one)
        decision = decide(one, content, dry_run=dry_run)
        if decision.patch is not None:
            await _patch(cluster, one, decision.patch, dry_run=dry_run)
    except ApiError as error:
        why = "you may not change it: " if error.status == 403 else ""
        return Decision(Result.FAILED, f"{why}{error.message or error}")
    return decision


async def _content(cluster: Cluster, one: Stopped) -> Mapping[str, Any] | None:
    from runtime.kube import ApiError

    try:
        return await cluster.client.get(one.stop.path(one.namespace), dict[str, Any])
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def _patch(cluster: Cluster, one: Stopped, patch: Mapping[str, Any], *, dry_run: bool) -> None:
    from reaper.stops import RESUMER
    from runtime.kube import MERGE_PATCH

    query = {"fieldManager": RESUMER, **({"dryRun": "All"} if dry_run else {})}
    path = one.stop.path(one.namespace)
    await cluster.client.request("PATCH", path, query=query, body=dict(patch), content_type=MERGE_PATCH)


def _exit_code(found: Sequence[tuple[Stopped, Decision]], wanted: Wanted | None, where: str | None) -> int:
    from reaper.resuming import Result

    if not found and wanted is not None:
        print(
            f"error: no stop of {wanted.kind}/{wanted.name} is recorded in {where or 'any namespace'}",
            file=sys.stderr,
        )
        return 1
    return int(any(decision.result is Result.FAILED for _, decision in found))
