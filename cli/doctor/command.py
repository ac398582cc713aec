"""The command `gpu-tenure doctor`: what is wrong with an installation, and what to do; changes nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Context, Form, Kubeconfig, Output
from cli.prometheus_flags import Reach, reaches_prometheus
from policy.keys import OWN_NAMESPACE

if TYPE_CHECKING:
    from cli.doctor.asking import Asked
    from cli.doctor.facts import Facts
    from cli.doctor.gathering import Say, Wanted
    from policy.errors import FieldError
    from reaper.prometheus import HttpPrometheus, PrometheusOptions

Installed = Annotated[str, typer.Option("--namespace", "-n", help="Where gpu-tenure is installed.")]
CanaryNamespace = Annotated[
    str, typer.Option(help="Where a GPU pod is tried by a server-side dry run; nothing is made.")
]
PrometheusUrl = Annotated[
    str,
    typer.Option(
        envvar="GPU_TENURE_DOCTOR_PROMETHEUS_URL",
        help="Prometheus as it can be reached from here; otherwise the reaper's setting is tried.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="Show what is fine, too.")]
Strict = Annotated[bool, typer.Option(help="Exit code 1 also for what could not be seen, as CI may want.")]


@reaches_prometheus
def doctor(  # noqa: PLR0913, PLR0917  one argument per flag
    namespace: Installed = OWN_NAMESPACE,
    prometheus_url: PrometheusUrl = "",
    every: All = False,
    output: Form = Output.TABLE,
    strict: Strict = False,
    canary_namespace: CanaryNamespace = "default",
    reach: Reach = Reach(timeout="15s"),  # noqa: B008 - frozen
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Say what is wrong with an installation, why it matters, and what to do. It changes nothing.

    Looks at rights, components, certificates, guards, policies, Prometheus and exporters, quotas and nodes.
    What may not be read with your rights is said, and the rest is checked. Exit code 0: nothing above a
    remark. 1: warnings or errors. 2: bad input.
    """
    from policy.errors import FieldError, InvalidError
    from policy.syntax import is_subdomain

    errors: list[FieldError] = []
    for flag, name in (("--namespace", namespace), ("--canary-namespace", canary_namespace)):
        if not is_subdomain(name, 63):
            errors.append(FieldError(flag, f"must be the name of a namespace such as {OWN_NAMESPACE}"))
    options = None
    if prometheus_url:
        options = reach.options(prometheus_url, errors)
    if errors:
        raise InvalidError(errors)
    from cli.cluster import answered
    from cli.doctor.examination import document, examine
    from cli.doctor.findings import exit_code
    from cli.doctor.gathering import Wanted

    wanted = Wanted(namespace, canary_namespace)
    with _progress() as say:
        facts = answered(lambda: _look(wanted, options, kubeconfig, context, say))
    findings = examine(facts)
    if output is Output.JSON:
        print(json.dumps(document(facts, findings), indent=2))
    else:
        from cli.doctor.table import doctor_table
        from cli.printing import show

        show(lambda width: doctor_table(findings, width, every=every))
    sys.exit(exit_code(findings, strict=strict))


@contextmanager
def _progress() -> Iterator[Say]:
    """Says on a terminal what is going on, and elsewhere nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("connecting") as status:
        yield status.update


async def _look(
    wanted: Wanted,
    options: PrometheusOptions | None,
    kubeconfig: Path | None,
    context: str | None,
    say: Say,
) -> Facts:
    """Reads everything."""
    from msgspec.structs import replace

    from cli.cluster import connected
    from cli.doctor.asking import ask
    from cli.doctor.gathering import gather
    from cli.doctor.reading import ClusterReader

    async with connected(kubeconfig, context) as cluster:
        facts = await gather(ClusterReader(cluster.client), wanted, cluster.now, say)
    say("asking Prometheus")
    asked = _asked(facts, options)
    async with _prometheus(asked) as adapter:
        return replace(facts, metrics=await ask(facts, asked, adapter))


def _asked(facts: Facts, options: PrometheusOptions | None) -> Asked | None:
    """How Prometheus is asked: as a person says, or else as the reaper is told."""
    from cli.doctor.asking import Asked

    settings = facts.settings.judging()
    if options is not None:
        return Asked(options, settings, given=True)
    if facts.component("reaper") is None or facts.settings_problem:
        return None
    return Asked(facts.settings.prometheus(), settings, given=False)


@asynccontextmanager
async def _prometheus(asked: Asked | None) -> AsyncIterator[HttpPrometheus | None]:
    from reaper.prometheus import HttpPrometheus
    from runtime.clock import SystemClock

    if asked is None:
        yield None
        return
    adapter = HttpPrometheus(asked.options, SystemClock().monotonic)
    try:
        yield adapter
    finally:
        adapter.close()
