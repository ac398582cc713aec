"""The command `gpu-tenure status`: all GPU pods with what is next, once or live; it only ever reads."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.judge import Intervals, Matchers, SourceFile
from cli.options import Context, Form, Kubeconfig, Namespace, Output, Resources
from cli.prometheus_flags import Reach, reaches_prometheus
from policy.keys import OWN_NAMESPACE

if TYPE_CHECKING:
    from cli.status_input import Judging, Status
    from policy.errors import FieldError
    from policy.resources import ResourceTable
    from reaper.criteria import JudgeSettings
    from reaper.prometheus import PrometheusOptions

PrometheusUrl = Annotated[
    str,
    typer.Option(
        envvar="GPU_TENURE_STATUS_PROMETHEUS_URL",
        help="Judge now, from this Prometheus; without it, what the reaper wrote on pods is shown.",
    ),
]
Exempt = Annotated[bool, typer.Option("--exempt", help="Only pods that are exempt, or ask to be.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on; in a pipe, a line for each change.")]
Every = Annotated[str, typer.Option(help="How often, with --watch.", metavar="10s")]
InstalledIn = Annotated[str, typer.Option(help="Namespace in which gpu-tenure is installed.")]
Early = Annotated[
    str, typer.Option(help="How long before its pod a container may claim to have started, as the reaper's.")
]


@reaches_prometheus
def status(  # noqa: PLR0913, PLR0917  one argument per flag
    namespace: Namespace = None,
    exempt: Exempt = False,
    output: Form = Output.TABLE,
    watch: Watch = False,
    every: Every = "10s",
    prometheus_url: PrometheusUrl = "",
    interval: Intervals = None,
    matcher: Matchers = None,
    early_start: Early = "5m",
    reach: Reach = Reach(),  # noqa: B008 - frozen
    source_file: SourceFile = None,
    gpu_resources: Resources = "",
    installed_in: InstalledIn = OWN_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show who holds which GPUs, how long they have been idle, and what happens when.

    `gpu-tenure status -n team-a --watch`

    With `-n NAMESPACE` the rights to view that namespace are enough, and no Prometheus is needed. What may
    not be read is said, and the rest is shown. Exit code 1: pods are not readable, or Prometheus could not
    be used. With --watch an API server that goes away is waited for; Ctrl-C ends it.
    """
    from cli import judge_input
    from policy.errors import InvalidError

    errors: list[FieldError] = []
    seconds = judge_input.seconds("--every", every, errors)
    early = judge_input.seconds("--early-start", early_start, errors)
    table = judge_input.table(gpu_resources, errors)
    sources = judge_input.sources(source_file, errors)
    options = None
    settings = judge_input.criteria(interval or (), matcher or (), "24h", sources, errors)
    if prometheus_url:
        options = reach.options(prometheus_url, errors)
    if errors or settings is None:
        raise InvalidError(errors)
    judging = Asked(options, settings, early)
    viewer = Viewer(namespace, table, judging, output, exempt=exempt, installed_in=installed_in)
    from cli.cluster import answered

    try:
        code = answered(lambda: viewer.run(seconds if watch else None, kubeconfig, context))
    except KeyboardInterrupt:
        code = 0
    sys.exit(code)


class Asked:
    """How verdicts are to be found, if they are."""

    def __init__(self, options: PrometheusOptions | None, settings: JudgeSettings, early: float) -> None:
        self._options = options
        self._settings = settings
        self._early = early

    @asynccontextmanager
    async def judging(self) -> AsyncIterator[Judging | None]:
        """Connects to Prometheus, if there is one."""
        from cli.status_input import Judging
        from reaper.prometheus import HttpPrometheus
        from runtime.clock import SystemClock

        if self._options is None:
            yield None
            return
        adapter = HttpPrometheus(self._options, SystemClock().monotonic)
        try:
            yield Judging(adapter, self._settings, self._early)
        finally:
            adapter.close()


class Viewer:
    """Shows the status, once or again and again."""

    def __init__(
        self,
        namespace: str | None,
        table: ResourceTable,
        asked: Asked,
        output: Output,
        *,
        exempt: bool,
        installed_in: str,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._namespace = namespace
        self._table = table
        self._asked = asked
        self._output = output
        self._exempt = exempt
        self._installed_in = installed_in
        self._sleep = sleep

    async def run(self, every: float | None, kubeconfig: Path | None, context: str | None) -> int:
        """Shows it once, or every so many seconds; gives the exit code."""
        from cli.cluster import connected

        async with self._asked.judging() as judging:
            if every is None:
                async with connected(kubeconfig, context) as cluster:
                    return self._once(await self._look(cluster, judging))
            return await self._watch(every, kubeconfig, context, judging)

    async def _look(self, cluster: Any, judging: Judging | None) -> Status | None:  # noqa: ANN401 - lazy
        from cli.status_input import look

        return await look(cluster, self._namespace, self._table, judging, self._installed_in)

    def _once(self, found: Status | None) -> int:
        if found is None:
            where = f"namespace {self._namespace}" if self._namespace else "all namespaces; name one with -n"
            print(f"error: pods are not readable with your rights in {where}", file=sys.stderr)
            return 1
        if self._output is Output.JSON:
            from cli.status_document import document

            print(json.dumps(document(found, exempt=self._exempt), indent=2))
        else:
            from cli.printing import show
            from cli.status_table import status_table

            show(lambda width: status_table(found, width, exempt=self._exempt))
        if found.problem:
            print(f"error: {found.problem}; verdicts are what the reaper wrote on pods", file=sys.stderr)
        return 1 if found.problem else 0

    async def _watch(
        self, every: float, kubeconfig: Path | None, context: str | None, judging: Judging | None
    ) -> int:
        """Goes on until it is interrupted, or pods are not readable; waits for an API server that is away."""
        from cli.cluster import connected
        from cli.printing import console_of
        from cli.status_screen import Screen
        from runtime.kube import ApiError, ApiUnreachable

        with Screen(console_of(), self._output, exempt=self._exempt) as screen:
            while True:
                try:
                    async with connected(kubeconfig, context) as cluster:
                        found = await self._look(cluster, judging)
                except (ApiError, ApiUnreachable) as error:
                    if screen.is_empty:
                        raise
                    screen.keep(str(error))
                else:
                    if found is None:
                        break
                    screen.show(found)
                await self._sleep(every)
        return self._once(found)
