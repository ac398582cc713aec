"""Node objects as a GPU cluster has them: pure; creates nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def node_object(
    name: str,
    resources: Mapping[str, int | str],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Gives a Node that advertises these extended resources beside plenty of processors and memory."""
    extended = {resource: str(count) for resource, count in resources.items()}
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "250", **extended}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def takes_pods(node: Mapping[str, Any], own_taints: int) -> bool:
    """Says whether a node is Ready and carries no taint but its own."""
    conditions = node["status"].get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and len(node["spec"].get("taints", [])) == own_taints
