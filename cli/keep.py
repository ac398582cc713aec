"""The command `gpu-tenure keep`: a user's wish to keep a pod for now, written on it; decides no bound."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Context, Kubeconfig, Resources, Where

if TYPE_CHECKING:
    from policy.durations import Duration
    from policy.resources import ResourceTable
    from reaper.keeping import Kept

POD = Annotated[str, typer.Argument(help="The pod; `pod/NAME` is fine too.", metavar="POD")]
WHY = {
    "gone": "the pod is gone, or another one has its name now",
    "full": "the annotations of the pod are full",
    "failed": "you may not patch this pod, or the API server did not take it",
}
For = Annotated[str, typer.Option("--for", help="For how long.", metavar="4h")]


def keep(
    pod: POD,
    for_: For,
    namespace: Where = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    gpu_resources: Resources = "",
) -> None:
    """Keep an idle GPU pod for now: no warning and no action before that time.

    `gpu-tenure keep train-0 --for 4h -n team-a`

    Whoever may patch the pod may do it. It is bounded: by default to 24 hours from now, and to what the
    policy allows after the pod became idle. It says what came of the wish. Exit code 0: the pod is kept. 1:
    it is not, or the cluster did not answer. 2: bad input.
    """
    from cli.cluster import answered, namespace_of
    from cli.gpu_resources import read_table
    from policy.durations import parse_duration
    from policy.errors import FieldError, FormatError, InvalidError

    errors = []
    span: Duration | None = None
    try:
        span = parse_duration(for_)
    except FormatError as error:
        errors.append(FieldError("--for", str(error)))
    if span is not None and span.seconds == 0:
        errors.append(FieldError("--for", "must be longer than nothing"))
    name = pod.removeprefix("pods/").removeprefix("pod/")
    if not name or "/" in name:
        errors.append(FieldError("POD", f"must be the name of a pod, is {pod!r}"))
    table = read_table(gpu_resources)
    if errors or span is None:
        raise InvalidError(errors)
    where = namespace or namespace_of(kubeconfig, context)
    kept = answered(lambda: _keep(where, name, span, table, kubeconfig, context))
    for line in kept.sentences:
        typer.echo(line)
    if kept.until is None:
        sys.exit(1)


async def _keep(
    namespace: str,
    name: str,
    span: Duration,
    table: ResourceTable,
    kubeconfig: Path | None,
    context: str | None,
) -> Kept:
    from cli.cluster import connected
    from policy.objects import Pod
    from reaper.act import KubeActor, Written
    from reaper.keeping import Kept, kept
    from reaper.pods import gpu_pod

    async with connected(kubeconfig, context) as cluster:
        raw = await cluster.client.get(f"/api/v1/namespaces/{namespace}/pods/{name}", Pod)
        pod = gpu_pod(raw, table)
        if pod is None:
            return Kept(None, (f"{namespace}/{name} holds no GPU: nothing to keep",))
        found = kept(pod, span, await cluster.policies(), cluster.now)
        if found.until is None:
            return found
        written = await KubeActor(cluster.client).annotate(pod, found.annotations)
        if written is Written.WRITTEN:
            return found
        return Kept(None, (f"not written: {WHY[written.value]}",))
