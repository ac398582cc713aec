"""What of admission can be said without a cluster beside its own decisions; prints nothing.

The guard of bypasses is evaluated by the API server, and rights are asked of it: here the one is told by its
twin in Python, and of the other only that it will be asked for.
"""

from __future__ import annotations

from typing import Any

from policy.bypass import BYPASSES, find_bypasses
from policy.keys import GROUP
from policy.selection import PolicySet
from webhook.scene import AdmissionSettings

SOMEBODY = "whoever creates it"
"""Who sends a workload where nobody was named."""


def bypass_sentences(
    pod: dict[str, Any], namespace: str, settings: AdmissionSettings, *, is_gpu: bool
) -> list[str]:
    """How a pod reaches GPUs that nobody counts, which the chart's guard warns about or refuses."""
    if namespace in settings.excluded_namespaces:
        return []
    return [BYPASSES[bypass] for bypass in find_bypasses(pod, is_gpu=is_gpu)]


def right_sentences(
    policy: str | None, policies: PolicySet, user: str, namespace: str, settings: AdmissionSettings
) -> list[str]:
    """The right that whoever sends a GPU object needs, which only the cluster knows."""
    found = policies.get(policy) if policy is not None else None
    if found is None or not found.require_use or user in settings.trusted_controllers:
        return []
    right = f"the verb use on gpupolicies.{GROUP}/{found.name} in namespace {namespace}"
    return [f"{user} needs {right}: not checked offline"]
