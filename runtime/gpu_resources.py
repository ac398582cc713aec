"""The setting by which an administrator adds rows to the table of GPU resources; knows no component."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BeforeValidator

from policy.resources import ResourceTable, parse_table

DESCRIPTION = "Further names of GPU resources, as JSON; tried before the built-in ones"
EXAMPLE = r'[{"pattern": "example\\.com/gpu", "unit": "device", "weight": "1/2"}]'


def read_rows(value: object) -> object:
    """Reads JSON, as flags and variables hold it; an empty text is no rows."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value) if value.strip() else ()
    except msgspec.DecodeError as error:
        raise ValueError("must be a JSON list of rows") from error


def _checked(rows: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Refuses rows that make no table."""
    parse_table(rows, "row")
    return rows


ResourceRows = Annotated[tuple[dict[str, Any], ...], BeforeValidator(read_rows), AfterValidator(_checked)]
"""Rows as `policy.resource_rules.parse_rules` reads them."""


def table_of(rows: tuple[dict[str, Any], ...]) -> ResourceTable:
    """The table that valid rows make together with the built-in ones."""
    return parse_table(rows)
