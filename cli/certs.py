"""The commands `gpu-tenure certs …`: they compose the component of the certificates; decide nothing."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certs.settings import ENV_PREFIX, CertsSettings
from cli.options import TextOutput
from cli.running import identity_of, run_component
from cli.setting_flags import FILE, give_flags, parameter

if TYPE_CHECKING:
    from certs.inspection import Inspection
    from certs.outcome import Outcome
    from runtime.clock import Clock
    from runtime.kube import KubeClient

app = typer.Typer(help="The webhook's certificates: made, rotated without a lost request, and shown.")
ENSURE_SECONDS = 300


@app.command()
def watch(**given: object) -> None:
    """Keep certificates and caBundles as they should be, for ever; one of several replicas writes.

    Makes a CA and a serving certificate, writes the CA into the caBundles of our webhook configurations, and
    renews both in time: a new CA is trusted everywhere before anything is signed with it, the old one goes
    when nothing of it can be valid any more. Secrets that are edited, deleted or broken are mended.
    """
    from certs.service import run_service

    settings, identity = _load(given)
    _run(settings, lambda client, clock, stop: run_service(client, settings, clock, identity, stop))


@app.command()
def ensure(**given: object) -> None:
    """Make or renew certificates and caBundles once, and say what was done.

    Exit code 0 when all is in order; 1 if it is not after five minutes.

    For installations by scripts, and where nothing may run all the time: then run it every day. Settings that
    are not given are those of an installed `certs watch`, where its Deployment is readable.
    """
    output = given.pop("output") or TextOutput.TEXT
    own, identity = _load(given)
    found: list[Outcome] = []

    async def once(client: KubeClient, clock: Clock, stop: asyncio.Event) -> None:
        from certs.ensuring import ensure_once, persist

        troubles: list[str] = []
        try:
            async with asyncio.timeout(ENSURE_SECONDS):
                settings = await persist(lambda: _as_installed(client, given), troubles)
        except TimeoutError:
            msg = ": ".join(["the settings of the installation could not be read", *troubles[-1:]])
            raise TimeoutError(msg) from None
        found.append(await ensure_once(client, settings, clock, identity, stop, ENSURE_SECONDS))

    _run(own, once)
    if output is TextOutput.JSON:
        _print_json(found[0])
    else:
        from certs.outcome import sentence

        typer.echo(sentence(found[0]))


@app.command()
def inspect(**given: object) -> None:
    """Show every certificate and caBundle with its end, and what is wrong: exit code 1 if anything is.

    Settings that are not given are those of an installed `certs watch`, where its Deployment is readable.
    """
    output = given.pop("output") or TextOutput.TEXT
    own, _ = _load(given)
    found: list[Inspection] = []

    async def look(client: KubeClient, clock: Clock, _: asyncio.Event) -> None:
        from certs.ensuring import look_once

        settings = await _as_installed(client, given)
        found.append(await look_once(client, settings, clock))

    _run(own, look)
    if output is TextOutput.JSON:
        _print_json(found[0])
    else:
        _show(found[0])
    sys.exit(1 if found[0].problems else 0)


def _print_json(found: Inspection | Outcome) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())


def _show(found: Inspection) -> None:
    from cli.printing import console_of, new_table, plain
    from policy.durations import duration_of

    console, table = console_of(), new_table()
    for title in ("WHAT", "NAME", "UNTIL", "LEFT", "SHA256"):
        table.add_column(title, overflow="fold")
    for row in found.rows:
        left = duration_of(row.seconds_left // 3600 * 3600).text if row.seconds_left >= 3600 else "< 1h"
        ended = "ended" if row.not_after and row.seconds_left <= 0 else left
        cells = (row.what, row.name, row.not_after, ended if row.not_after else "", row.sha256)
        table.add_row(*map(plain, cells))
    there = any(row.not_after for row in found.rows)
    if there:
        console.print(table)
    for problem in found.problems:
        console.print(f"problem: {problem}", style="red", markup=False, highlight=False)
    if there:
        console.print(f"next: {found.next_step} ({found.reason})", markup=False, highlight=False)


def _load(given: dict[str, object]) -> tuple[CertsSettings, str]:
    """Reads the settings, sets up the log, and gives them with the name of this process."""
    from runtime.log import configure
    from runtime.settings import load

    flags, file = _parted(given)
    settings = load(CertsSettings, flags, file, ENV_PREFIX)
    configure(settings.log_format, settings.log_level, fields={"component": "certs"})
    return settings, identity_of(settings.identity)


def _parted(given: Mapping[str, object]) -> tuple[dict[str, object], Path | None]:
    """Gives the flags, and the file with settings."""
    flags, file = dict(given), given[FILE]
    del flags[FILE]
    return flags, file if isinstance(file, Path) else None


async def _as_installed(client: KubeClient, given: Mapping[str, object]) -> CertsSettings:
    """Reads the settings anew, with those of the installed `certs watch` below what was given; says which.

    Raises:
        InvalidError: they do not fit each other.
        ApiError, ApiUnreachable: the API server is in trouble.
    """
    from cli.certs_installed import read_installed
    from runtime.settings import load
    from runtime.settings_file import read_file

    flags, file = _parted(given)
    own = {name: value for name, value in os.environ.items() if name.startswith(ENV_PREFIX)}
    told = {*read_file(file)[0]} if file else set()
    told |= {name for name, value in flags.items() if value is not None}
    told |= {name.removeprefix(ENV_PREFIX).lower() for name in own}
    namespace = load(CertsSettings, flags, file, ENV_PREFIX).namespace if "namespace" in told else ""
    found = await read_installed(client, namespace, ENV_PREFIX)
    taken = {
        name: value
        for name, value in found.environment.items()
        if name.removeprefix(ENV_PREFIX).lower() not in told
    }
    if found.namespace:
        flags["namespace"] = found.namespace
    print(f"note: {found.sentence(taken)}", file=sys.stderr)
    return load(CertsSettings, flags, file, ENV_PREFIX, {**taken, **own})


def _run(
    settings: CertsSettings, work: Callable[[KubeClient, Clock, asyncio.Event], Coroutine[Any, Any, None]]
) -> None:
    """Runs work with a client until it ends or a signal comes; exits 1 if it fails."""
    from runtime.clock import SystemClock
    from runtime.kube import KubeClient

    async def main(stop: asyncio.Event) -> None:
        async with await KubeClient.connect(settings.kubeconfig, settings.context) as client:
            await work(client, SystemClock(), stop)

    code = run_component("certs", main)
    if code:
        sys.exit(code)


OUTPUT = parameter(
    "output",
    Annotated[TextOutput | None, typer.Option("--output", "-o", help="How to print.")],
    default=None,
)
give_flags(watch, CertsSettings)
give_flags(ensure, CertsSettings, OUTPUT)
give_flags(inspect, CertsSettings, OUTPUT)
