"""Gives a command one flag per field of its settings class; knows no command and reads no value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from runtime.settings import Settings, written

FILE = "settings"
"""The argument that holds the settings file, None without one."""


def give_flags(command: Callable[..., None], settings: type[Settings], *first: inspect.Parameter) -> None:
    """Give a command, which takes them by keyword, its flags: those of its own, the file, then every setting.

    Values arrive as they were typed, None where they were not: the loader of settings reads them.
    """
    file = typer.Option("--settings", "--config", help="File with settings: YAML, TOML or JSON.", exists=True)
    own = [*first, parameter(FILE, Annotated[Path | None, file], default=None)]
    flags = [_flag(name, field) for name, field in settings.model_fields.items()]
    command.__signature__ = inspect.Signature([*own, *flags])  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in (*own, *flags)}


def parameter(name: str, kind: Any, *, default: object) -> inspect.Parameter:  # noqa: ANN401 - an annotation
    """Return a keyword argument of a command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _flag(name: str, field: FieldInfo) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    example = str(field.examples[0]) if field.examples else ""
    default = "" if field.is_required() else written(field.default, example)
    such_as = f", such as {example}" if example and example != default else ""
    text = f"{field.description}{such_as}.{default and f' [default: {default}]'}"
    if field.annotation is bool:
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=text, show_default=False)
        return parameter(name, Annotated[bool | None, option], default=None)
    option = typer.Option(flag, help=text, show_default=False)
    return parameter(name, Annotated[str | None, option], default=None)
