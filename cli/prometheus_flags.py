"""The flags by which several commands reach Prometheus, declared once; sends nothing and knows no command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import msgspec
import typer

if TYPE_CHECKING:
    from policy.errors import FieldError
    from reaper.prometheus import PrometheusOptions

ARGUMENT = "reach"
"""The argument of a command in whose place its flags come."""


class Reach(msgspec.Struct, frozen=True):
    """How Prometheus is reached, as it was typed, but for its address."""

    timeout: str = "30s"
    bearer_token_file: Path | None = None
    username: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    header: Sequence[str] = ()

    def options(self, url: str, errors: list[FieldError]) -> PrometheusOptions | None:
        """Read all of it, for the Prometheus at `url`; None if that cannot be told, with the errors."""
        from cli import judge_input

        return judge_input.prometheus(url, self, errors)


def reaches_prometheus(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `reach: Reach` the flags of it, and variables named after the command.

    A default of the argument is where the flags' defaults come from.
    """
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters
    defaults = own[ARGUMENT].default if isinstance(own[ARGUMENT].default, Reach) else Reach()
    flags = [_parameter(name, kind, defaults) for name, kind in _kinds(command.__name__).items()]
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        kept = parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += flags if name == ARGUMENT else [kept]
    names = {flag.name for flag in flags}

    @functools.wraps(command)
    def wrapped(**given: object) -> None:
        typed = {name: given.pop(name) for name in names}
        reach = Reach(**{name: value for name, value in typed.items() if value is not None})  # type: ignore[arg-type]
        command(**given, **{ARGUMENT: reach})

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped


def _kinds(command: str) -> dict[str, Any]:
    """The type of each flag, with its help and its variable."""
    prefix = f"GPU_TENURE_{command.upper()}_"

    def text(name: str, said: str) -> Any:  # noqa: ANN401 - an annotation
        return Annotated[str, typer.Option(envvar=f"{prefix}{name}", help=said)]

    def file(name: str, said: str) -> Any:  # noqa: ANN401 - as above
        return Annotated[Path | None, typer.Option(envvar=f"{prefix}{name}", help=said)]

    header = typer.Option(help="A further header.", metavar="X-Scope-OrgID=team")
    return {
        "timeout": text("TIMEOUT", "Limit of one query."),
        "bearer_token_file": file("BEARER_TOKEN_FILE", "File with a token."),
        "username": text("USERNAME", "User for basic authentication."),
        "password_file": file("PASSWORD_FILE", "File with the password."),
        "ca_file": file("CA_FILE", "Certificates to trust."),
        "cert_file": file("CERT_FILE", "File with a certificate to show."),
        "key_file": file("KEY_FILE", "File with that certificate's private key."),
        "header": Annotated[list[str] | None, header],
    }


def _parameter(name: str, kind: Any, defaults: Reach) -> inspect.Parameter:  # noqa: ANN401 - an annotation
    default = getattr(defaults, name) or (None if name == "header" else getattr(defaults, name))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
