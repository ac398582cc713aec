"""Reads the flag that adds names of GPU resources; knows no command."""

from __future__ import annotations

from typing import Any

import msgspec

from policy.errors import FieldError, InvalidError
from policy.resources import ResourceTable, parse_table

FLAG = "--gpu-resources"


def read_table(text: str) -> ResourceTable:
    """The table with the rows of the flag, which may be empty.

    Raises:
        InvalidError: the text is no list of rows, or a row is not valid.
    """
    try:
        rows = msgspec.json.decode(text, type=list[dict[str, Any]]) if text.strip() else []
    except msgspec.DecodeError as error:
        raise InvalidError([FieldError(FLAG, "must be a JSON list of rows")]) from error
    return parse_table(rows, FLAG)
