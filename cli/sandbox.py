"""`gpu-tenure sandbox`: a real control plane on this machine, and the demo; knows not how they are made."""

import os
import sys
from typing import Annotated

import typer

app = typer.Typer(
    help="A real control plane, Prometheus and Alertmanager on this machine, for playing and for the demo.",
    no_args_is_help=True,
)

Kubernetes = Annotated[str, typer.Option(help="Another pinned Kubernetes release, such as v1.34.4.")]


@app.command()
def build(kubernetes: Kubernetes = "") -> None:
    """Build the programs into the user's cache; does nothing when they are there."""
    from sandbox.binaries import BuildError, ensure

    try:
        binaries = ensure(dict(os.environ), kubernetes=kubernetes)
    except BuildError as failure:
        raise _failed(str(failure)) from None
    typer.echo(f"{len(binaries.paths)} programs are ready")


@app.command()
def up(kubernetes: Kubernetes = "") -> None:
    """Start a sandbox with three GPU nodes in the background, and say which KUBECONFIG to use."""
    from sandbox.binaries import BuildError
    from sandbox.cluster import SandboxOptions
    from sandbox.session import SessionError
    from sandbox.session import up as start

    try:
        info = start(SandboxOptions(kubernetes=kubernetes))
    except (SessionError, BuildError, TimeoutError) as failure:
        raise _failed(str(failure)) from None
    typer.echo(f"export KUBECONFIG={info.kubeconfig}")
    typer.echo(f"Prometheus {info.prometheus_url}, Alertmanager {info.alertmanager_url}", err=True)
    typer.echo("End it with: gpu-tenure sandbox down", err=True)


@app.command()
def status() -> None:
    """Say whether a sandbox is up and where; exit code 1 if none is."""
    from sandbox.session import status as look

    info = look(dict(os.environ))
    if info is None:
        typer.echo("no sandbox is up; start one with: gpu-tenure sandbox up")
        raise typer.Exit(1)
    typer.echo(f"export KUBECONFIG={info.kubeconfig}")
    for name, url in (("API server", info.api_url), ("Prometheus", info.prometheus_url)):
        typer.echo(f"{name} {url}", err=True)


@app.command()
def down() -> None:
    """End the sandbox that `up` started, with everything it holds."""
    from sandbox.session import down as end

    try:
        ended = end(dict(os.environ))
    except TimeoutError as failure:
        raise _failed(str(failure)) from None
    typer.echo("the sandbox has ended" if ended else "no sandbox was up")


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
) -> None:
    """Show the main job from nothing, with incidents; exit code 1 if anything ends other than expected."""
    from sandbox.binaries import BuildError
    from sandbox.demo.story import tell

    try:
        as_expected = tell(keep=keep)
    except (BuildError, TimeoutError) as failure:
        raise _failed(str(failure)) from None
    except KeyboardInterrupt:
        sys.exit(130)
    raise typer.Exit(0 if as_expected else 1)


def _failed(sentence: str) -> typer.Exit:
    typer.echo(f"error: {sentence}", err=True)
    return typer.Exit(1)
