"""Objects, pages and events of a made-up kind, as the API server writes them."""

from __future__ import annotations

from typing import Any

import msgspec

PODS = "/api/v1/pods"


class Thing(msgspec.Struct, frozen=True):
    """What the tests keep of an object."""

    size: int


def decode(raw: msgspec.Raw) -> Thing | None:
    """Keeps things of a positive size."""
    thing = msgspec.json.decode(raw, type=Thing)
    return thing if thing.size > 0 else None


def obj(name: str, version: str, size: int = 1, uid: str | None = None) -> dict[str, Any]:
    """One object as the API server writes it."""
    meta = {"namespace": "n", "name": name, "resourceVersion": version, "uid": uid or f"uid-{name}"}
    return {"metadata": meta, "size": size}


def page(version: str, *items: dict[str, Any], more: str = "") -> dict[str, Any]:
    """One page of a list."""
    return {"metadata": {"resourceVersion": version, "continue": more}, "items": list(items)}


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """One event of a watch."""
    return {"type": kind, "object": item}
