"""Settings from flags, environment and file, in this order. Knows nothing of what any setting is for.

Everything that is wrong is reported at once, each with its flag, its variable and its key in the file. The
values of secrets are never part of a message.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Struct
from pydantic import BeforeValidator, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, SettingsConfigDict
from pydantic_settings.sources import PydanticBaseSettingsSource

from policy.durations import duration_of, parse_duration
from policy.errors import FieldError, InvalidError
from runtime.settings_errors import Origin, explain
from runtime.settings_file import read_file

S = TypeVar("S", bound="Settings")
ENV_PREFIX = "GPU_TENURE_"
_SERVICE_LINK = re.compile(r"(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://.*")


def _seconds(value: object) -> object:
    return parse_duration(value).seconds if isinstance(value, str) else value


def _names(value: object) -> object:
    return (
        tuple(filter(None, (part.strip() for part in value.split(",")))) if isinstance(value, str) else value
    )


Seconds = Annotated[int, BeforeValidator(_seconds)]
"""A span in whole seconds, written as a duration such as `90s` or `2h`."""

Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""Several names; in a flag or variable separated by commas."""


class Settings(BaseSettings):
    """The base of a component's settings: frozen, unknown names refused.

    Constructed directly it takes its arguments alone; only `load` looks at the environment. Every field
    carries a `description` and `examples`.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", validate_default=False)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - replaced by one over a given mapping
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - hidden files are no source of ours
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Takes the layers that `load` prepared, or none but the arguments."""
        layers = _LAYERS.get()
        if layers is None:
            return (init_settings,)
        environment = _Environment(settings_cls, layers.env_prefix, layers.environ)
        return (init_settings, environment, InitSettingsSource(settings_cls, layers.file))


class Row(Struct, frozen=True):
    """One setting, as documentation shows it."""

    flag: str
    variable: str
    key: str
    default: str
    example: str
    description: str


def load(
    kind: type[S],
    flags: Mapping[str, object],
    file: Path | None = None,
    env_prefix: str = ENV_PREFIX,
    environ: Mapping[str, str] | None = None,
) -> S:
    """Returns the settings; a flag wins over the environment, which wins over the file (YAML, TOML or JSON).

    `flags` are by field name, None means not given; `environ` is the process's environment if None. Raises
    InvalidError with everything that is wrong.
    """
    environ = _own(os.environ if environ is None else environ, env_prefix)
    given = {name: value for name, value in flags.items() if value is not None}
    content, errors = read_file(file) if file else ({}, [])
    origin = Origin(env_prefix, given, environ, content, str(file or ""))
    errors += _unknown(kind, content, environ, origin)
    known = {key: value for key, value in content.items() if key in kind.model_fields}
    token = _LAYERS.set(_Layers(env_prefix, environ, known))
    try:
        loaded = kind(**given)
    except ValidationError as error:
        raise InvalidError([*errors, *explain(error, kind.model_fields, origin)]) from None
    finally:
        _LAYERS.reset(token)
    if errors:
        raise InvalidError(errors)
    return loaded


def describe(kind: type[Settings], env_prefix: str = ENV_PREFIX) -> list[Row]:
    """Returns one row per setting, in the order of the class."""
    origin = Origin(env_prefix)
    return [_row(name, field, origin) for name, field in kind.model_fields.items()]


def _row(name: str, field: FieldInfo, origin: Origin) -> Row:
    example = str((field.examples or [""])[0])
    default = field.get_default(call_default_factory=True)
    return Row(
        origin.flag(name),
        origin.variable(name),
        name,
        "required" if field.is_required() else written(default, example),
        example,
        field.description or "",
    )


def written(default: object, example: str) -> str:
    """Writes a default as it would be typed: seconds as a duration where the example is one."""
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, tuple):
        return ",".join(default)
    if isinstance(default, int) and example.endswith(("s", "m", "h", "d")):
        return example if parse_duration(example).seconds == default else duration_of(default).text
    return str(default) if default not in (None, "", {}) else "none"


class _Layers(Struct):
    env_prefix: str
    environ: Mapping[str, str]
    file: dict[str, Any]


_LAYERS: ContextVar[_Layers | None] = ContextVar("layers", default=None)


class _Environment(EnvSettingsSource):
    """The library's environment source over a given mapping; lists are text with commas, or JSON."""

    def __init__(self, kind: type[BaseSettings], env_prefix: str, environ: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in environ.items()}
        super().__init__(kind, case_sensitive=False, env_prefix=env_prefix)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._given

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:  # noqa: ANN401 - theirs
        """Reads JSON; anything else stays text, for the field's own validator to read or refuse."""
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


def _own(environ: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Returns our variables, without those that the kubelet adds for a Service of that name."""
    ours = {name: value for name, value in environ.items() if name.startswith(prefix)}
    if f"{prefix}SERVICE_HOST" not in ours:
        return ours
    return {name: value for name, value in ours.items() if not _is_service_link(name[len(prefix) :], value)}


def _is_service_link(name: str, value: str) -> bool:
    if name == "PORT":
        return _LINK_VALUE.fullmatch(value) is not None
    return _SERVICE_LINK.fullmatch(name) is not None


def _unknown(
    kind: type[Settings], content: Iterable[str], environ: Iterable[str], origin: Origin
) -> list[FieldError]:
    names = list(kind.model_fields)
    variables = [origin.variable(name) for name in names]
    return [
        *(_unknown_one(f"{origin.file}: {key}", key, names) for key in content if key not in names),
        *(_unknown_one(key, key, variables) for key in environ if key not in variables),
    ]


def _unknown_one(path: str, key: str, known: list[str]) -> FieldError:
    close = difflib.get_close_matches(key, known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return FieldError(path, f"there is no such setting{hint}")
