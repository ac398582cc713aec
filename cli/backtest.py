"""The command `gpu-tenure backtest`: what a policy would have done over past days; it only ever reads."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.judge import At, Intervals, Matchers, PrometheusUrl, SourceFile
from cli.options import Context, Form, Kubeconfig, Output, Resources
from cli.prometheus_flags import Reach, reaches_prometheus

if TYPE_CHECKING:
    from policy.errors import FieldError
    from policy.terms import Terms
    from reaper.plays import Play, Result
    from reaper.prometheus import PrometheusOptions

Since = Annotated[str, typer.Option(help="How far back; Prometheus must keep it, and the windows before.")]
Step = Annotated[str, typer.Option(help="Between two moments; warnings and actions come that much later.")]
Policies = Annotated[
    list[Path] | None,
    typer.Option("--policy", help="Proposed GPUPolicies instead of the cluster's; may be repeated."),
]
Pods = Annotated[
    Path | None,
    typer.Option(
        help="What `kubectl get pods,namespaces -A -o json` prints (`-`: standard input), instead of asking "
        "the cluster whose pods are still there."
    ),
]
Otherwise = Annotated[
    str,
    typer.Option(
        "--class", help="The class of pods of which nothing is known: batch, interactive or serving."
    ),
]


@reaches_prometheus
def backtest(  # noqa: PLR0913, PLR0917  one argument per flag
    prometheus_url: PrometheusUrl,
    since: Since = "7d",
    until: At = None,
    step: Step = "10m",
    policy: Policies = None,
    pods: Pods = None,
    otherwise: Otherwise = "batch",
    output: Form = Output.TABLE,
    interval: Intervals = None,
    matcher: Matchers = None,
    reach: Reach = Reach(),  # noqa: B008 - frozen
    source_file: SourceFile = None,
    gpu_resources: Resources = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Say what the present or a proposed policy would have done over past days, and when to enforce it.

    `gpu-tenure backtest --prometheus-url URL --since 7d --policy proposed.yaml`

    It plays the reaper's own judge and planner, moment by moment, at each in a constant number of queries.
    Exit code 1: Prometheus gave no full answer.
    """
    from cli import judge_input
    from cli.backtest_input import asked
    from policy.errors import InvalidError

    errors: list[FieldError] = []
    options = reach.options(prometheus_url, errors)
    sources = judge_input.sources(source_file, errors)
    settings = judge_input.criteria(interval or (), matcher or (), "24h", sources, errors)
    wanted = asked(
        (since, until, step, otherwise),
        policy or (),
        pods,
        judge_input.table(gpu_resources, errors),
        settings,
        errors,
    )
    if errors or options is None or wanted is None:
        raise InvalidError(errors)
    from cli.cluster import answered

    play = answered(lambda: wanted.play(kubeconfig, context))
    result = asyncio.run(_run(play, options, wanted.terms(play)))
    if result.held == result.moments:
        print(f"error: {options.url}: {result.problem}", file=sys.stderr)
        sys.exit(1)
    if output is Output.JSON:
        from cli.backtest_table import document

        print(json.dumps(document(play, result), indent=2))
        return
    from cli.backtest_table import backtest_table
    from cli.printing import show

    show(lambda width: backtest_table(play, result, width))


async def _run(play: Play, options: PrometheusOptions, terms: Sequence[Terms]) -> Result:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from policy.terms import Statistic
    from reaper.backtest import Player
    from reaper.prometheus import HttpPrometheus
    from runtime.clock import SystemClock

    adapter = HttpPrometheus(options, SystemClock().monotonic)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = Console(stderr=True)
    try:
        with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as progress:
            count = (play.until - play.since) // play.step + 1
            task = progress.add_task("playing", total=count)
            windows = {one.after.seconds for one in terms}
            averaged = {one.after.seconds for one in terms if one.statistic is Statistic.AVERAGE}
            player = Player(adapter, play, windows, averaged)
            return await player.run(
                lambda at: progress.update(task, advance=1, description=f"playing {at:%m-%d %H:%MZ}")
            )
    finally:
        adapter.close()
