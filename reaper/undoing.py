"""Tells from managedFields who changed a field; must not know why anybody cares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reaper.stops import FIELD_MANAGER
from reaper.stopways import keys_of, value_in

UNKNOWN = "somebody unknown"


def undoer(content: Mapping[str, Any], pointer: str) -> str:
    """Gives the field manager that last wrote the field at a pointer.

    Where the field is gone nobody owns it: then the last one that wrote anything but status.
    """
    entries = [one for one in value_in(content, "/metadata/managedFields") or () if isinstance(one, Mapping)]
    others = [
        one for one in entries if one.get("manager") != FIELD_MANAGER and one.get("subresource") != "status"
    ]
    owning = [one for one in others if _owns(one.get("fieldsV1"), pointer)]
    latest = max(owning or others, key=lambda one: str(one.get("time") or ""), default=None)
    return str(latest.get("manager") or UNKNOWN)[:128] if latest is not None else UNKNOWN


def _owns(fields: object, pointer: str) -> bool:
    for key in keys_of(pointer):
        if not isinstance(fields, Mapping) or f"f:{key}" not in fields:
            return False
        fields = fields[f"f:{key}"]
    return True
