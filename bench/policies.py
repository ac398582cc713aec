"""The one policy of the benchmark, as the cluster holds it and as the comparators read it; pure data."""

from __future__ import annotations

from bench.pods import CONTROLLER_ACCOUNTS, Object
from policy.keys import API_VERSION

NAME = "bench"
NAMESPACE_LABELS = {"bench.gpu-tenure.io/selected": "yes"}
"""Of the namespaces that it is for."""
DAY = 86_400
_TERMS = {
    "action": "evict",
    "after": "2h",
    "utilization": 5,
    "statistic": "maximum",
    "grace": "30m",
    "warmUp": "30m",
}
_SERVING = {"action": "warn", "after": "24h"}
_BOUNDS = {"min": "30m", "max": "24h"}


def gpu_policy() -> Object:
    """Gives the GPUPolicy object."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "priority": 100,
            "namespaceSelector": {"matchLabels": NAMESPACE_LABELS},
            "idle": _TERMS,
            "classes": {"serving": {"idle": _SERVING}},
            "bounds": {"after": _BOUNDS},
            "deadline": {"default": "7d", "max": "14d", "jobs": "job"},
        },
    }


def comparator_policy() -> Object:
    """Gives the same for the comparators: label values as they are written, deadlines in seconds."""
    terms = {key: str(value) for key, value in _TERMS.items()}
    controllers = ("cronjob-controller", "job-controller", "replicaset-controller", "statefulset-controller")
    return {
        "name": NAME,
        "classes": {"batch": terms, "interactive": terms, "serving": terms | _SERVING},
        "afterMin": _BOUNDS["min"],
        "afterMax": _BOUNDS["max"],
        "deadlineDefault": 7 * DAY,
        "deadlineMax": 14 * DAY,
        "trusted": [f"{CONTROLLER_ACCOUNTS}:{name}" for name in controllers],
    }
