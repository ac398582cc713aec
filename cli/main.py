"""The command `gpu-tenure`: finds the subcommand and hands over. It must not know what a subcommand does.

Only the module of the subcommand that was asked for is imported, so that the webhook does not carry the
memory of the reaper's libraries and `--help` of one command answers at once.
"""

import importlib
import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.failure import report_failures

# Name → module and attribute: a function, or a Typer application where the command has subcommands.
COMMANDS = {
    "judge": ("cli.judge", "judge"),
    "explain": ("cli.explain", "explain"),
    "status": ("cli.status", "status"),
    "doctor": ("cli.doctor.command", "doctor"),
    "history": ("cli.history", "history"),
    "keep": ("cli.keep", "keep"),
    "backtest": ("cli.backtest", "backtest"),
    "pause": ("cli.pause", "pause"),
    "resume": ("cli.resume", "resume"),
    "unpause": ("cli.pause", "unpause"),
    "webhook": ("cli.webhook", "webhook"),
    "reaper": ("cli.reaper", "reaper"),
    "quota": ("cli.quota", "quota"),
    "certs": ("cli.certs", "app"),
    "sandbox": ("cli.sandbox", "app"),
    "version": ("cli.version", "version"),
}
# kubectl finds a plugin by its file name, where an underscore stands for a dash: `kubectl gpu-tenure`.
PLUGIN = "kubectl-gpu_tenure"

EPILOG = """Start with this, which only reads and shows which GPUs of your cluster are idle:

kubectl get pods -A -o json | gpu-tenure judge --pods - --prometheus-url URL
"""


def main() -> None:
    """Run the command line of this process."""
    with report_failures():
        build(sys.argv[1:])(prog_name=_called())


def _called() -> str:
    """How the user called us: help and usage repeat what was typed."""
    return "kubectl gpu-tenure" if Path(sys.argv[0]).name == PLUGIN else "gpu-tenure"


def build(arguments: Sequence[str]) -> typer.Typer:
    """Return the application with the subcommand that `arguments` names, or with all of them for help."""
    app = typer.Typer(
        name="gpu-tenure",
        help="Deadlines, idle terms and reclaim for GPU pods on shared Kubernetes clusters.",
        epilog=EPILOG,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    wanted = [arguments[0]] if arguments and arguments[0] in COMMANDS else list(COMMANDS)
    for name in wanted:
        _register(app, name)
    return app


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"gpu-tenure {importlib.metadata.version('gpu-tenure')}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Say the version and exit."),
    ] = False,
) -> None:
    """Deadlines, idle terms and reclaim for GPU pods on shared Kubernetes clusters."""


def _register(app: typer.Typer, name: str) -> None:
    module, attribute = COMMANDS[name]
    target = getattr(importlib.import_module(module), attribute)
    if isinstance(target, typer.Typer):
        app.add_typer(target, name=name)
    else:
        app.command(name)(target)


if __name__ == "__main__":
    main()
