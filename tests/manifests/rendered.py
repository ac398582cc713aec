"""Looks things up in what the chart renders; knows no value of it."""

from __future__ import annotations

from typing import Any


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    """The objects of a kind by name."""
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind}


def environment(objects: list[dict[str, Any]], component: str) -> dict[str, str]:
    """The environment of a component's container."""
    deployment = of_kind(objects, "Deployment")[f"gpu-tenure-{component}"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [component]
    return {entry["name"]: entry["value"] for entry in container["env"]}
