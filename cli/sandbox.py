"""`gpu-tenure sandbox`: a real control plane on this machine, and the demo; knows not how they are made."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sandbox.session import SessionInfo

app = typer.Typer(
    help="A real control plane, Prometheus and Alertmanager on this machine, for playing and for the demo.",
    no_args_is_help=True,
)

Kubernetes = Annotated[str, typer.Option(help="Another pinned Kubernetes release, such as v1.34.4.")]


@app.command()
def build(
    kubernetes: Kubernetes = "",
    further: Annotated[
        list[str] | None, typer.Option("--with", help="A program that few need too: cert-manager.")
    ] = None,
) -> None:
    """Build the programs into the user's cache; does nothing when they are there."""
    from sandbox.binaries import ensure
    from sandbox.recipes import PROGRAMS

    with _told():
        binaries = ensure(dict(os.environ), (*PROGRAMS, *(further or ())), kubernetes=kubernetes)
    typer.echo(f"{len(binaries.paths)} programs are ready")


@app.command()
def up(kubernetes: Kubernetes = "") -> None:
    """Start a sandbox with three GPU nodes in the background, and say how to use it.

    `eval "$(gpu-tenure sandbox up)"` makes it the cluster of this shell.
    """
    from sandbox.cluster import SandboxOptions
    from sandbox.session import up as start

    with _told():
        info = start(SandboxOptions(kubelet=True, kubernetes=kubernetes))
    _show(info)
    typer.echo("End it with: gpu-tenure sandbox down", err=True)


@app.command()
def status() -> None:
    """Say whether a sandbox is up and where; exit code 1 if none is."""
    from sandbox.session import status as look

    info = look(dict(os.environ))
    if info is None:
        typer.echo("no sandbox is up; start one with: gpu-tenure sandbox up", err=True)
        raise typer.Exit(1)
    _show(info)


@app.command()
def down() -> None:
    """End the sandbox that `up` started, with everything it holds."""
    from sandbox.session import down as end

    with _told():
        ended = end(dict(os.environ))
    typer.echo("the sandbox has ended" if ended else "no sandbox was up")


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
    kubernetes: Kubernetes = "",
) -> None:
    """Show the main job from nothing, with incidents; exit code 1 if anything ends other than expected."""
    from sandbox.demo.story import tell

    with _told():
        as_expected = tell(keep=keep, kubernetes=kubernetes)
    raise typer.Exit(0 if as_expected else 1)


@app.command()
def soak(
    duration: Annotated[str, typer.Option(help="How long faults come, such as 20m.")] = "20m",
    seed: Annotated[int | None, typer.Option(help="Repeats the faults of an earlier run.")] = None,
    kubernetes: Kubernetes = "",
) -> None:
    """Run a reaper under random faults; exit code 1 if a pod in use was evicted or anything went wrong."""
    import random

    from rich.console import Console

    from policy.durations import parse_duration
    from policy.errors import FormatError
    from sandbox.soak.report import show
    from sandbox.soak.run import SoakOptions
    from sandbox.soak.run import soak as run

    try:
        seconds = parse_duration(duration).seconds
    except FormatError as failure:
        typer.echo(f"error: --duration {failure}", err=True)
        raise typer.Exit(2) from None
    chosen = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    with _told():
        options = SoakOptions(seconds, chosen, kubernetes=kubernetes)
        report = run(options, lambda text: typer.echo(f"soak: {text}", err=True))
    show(report, Console(width=None if sys.stdout.isatty() else 110))
    raise typer.Exit(0 if report.good else 1)


def _show(info: SessionInfo) -> None:
    """Lines for the shell to standard output, those for people to standard error."""
    from sandbox.session import exports

    for line in exports(info.kubeconfig, info.folder, info.prometheus_url):
        typer.echo(line)
    parts = {
        "API server": info.api_url,
        "Prometheus": info.prometheus_url,
        "Alertmanager": info.alertmanager_url,
        "Logs": f"{info.folder}/logs",
    }
    for name, url in parts.items():
        typer.echo(f"{name} {url}", err=True)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turns what can go wrong on a machine into one `error: …` and exit code 1, and Ctrl-C into 130."""
    from sandbox.api import ApiError
    from sandbox.binaries import BuildError
    from sandbox.children import ChildError
    from sandbox.cluster import CommandError
    from sandbox.recipes import RecipeError
    from sandbox.session import SessionError

    try:
        yield
    except RecipeError as failure:
        typer.echo(f"error: {failure}", err=True)
        raise typer.Exit(2) from None
    except (ApiError, BuildError, ChildError, CommandError, SessionError, TimeoutError) as failure:
        typer.echo(f"error: {failure}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        sys.exit(130)
