"""Reads a settings file in YAML, TOML or JSON. Knows nothing of which settings exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import yaml

from policy.errors import FieldError

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def read_file(path: Path) -> tuple[dict[str, Any], list[FieldError]]:
    """Returns the file's settings by field name, and what is wrong with the file as such.

    Keys may be written `idle_after`, `idle-after` or `idleAfter`. The values are not looked at.
    """
    try:
        content = _parse(path.suffix, path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError) as error:
        return {}, [FieldError(str(path), f"cannot be read: {_sentence(error)}")]
    if content is None:
        return {}, []
    if not isinstance(content, dict):
        return {}, [FieldError(str(path), "must hold settings as keys and values, such as `cycle: 60s`")]
    named = {field_name(str(key)): value for key, value in content.items()}
    if len(named) < len(content):
        return {}, [FieldError(str(path), "holds the same setting twice")]
    return named, []


def field_name(key: str) -> str:
    """Returns the key as a field's name: `idleAfter` and `idle-after` are `idle_after`."""
    return _HUMP.sub("_", key).replace("-", "_").lower()


def _parse(suffix: str, data: bytes) -> object:
    match suffix:
        case ".yaml" | ".yml":
            return yaml.safe_load(data)
        case ".toml":
            return tomllib.loads(data.decode())
        case ".json":
            return msgspec.json.decode(data)
        case _:
            msg = "the name must end in .yaml, .yml, .toml or .json"
            raise ValueError(msg)


def _sentence(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        # Never the error's own text: it quotes the line, which may hold a secret.
        return f"not valid YAML at line {error.problem_mark.line + 1}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)
