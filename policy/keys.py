"""The keys, values and names that the parts meet in; knows nothing of their meaning beyond spelling."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

PREFIX: Final = "gpu-tenure.io/"
GROUP: Final = "gpu-tenure.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
OWN_NAMESPACE: Final = "gpu-tenure-system"
BUILT_IN_NAME: Final = "built-in"
SEED_EVICTION_POLICY: Final = "gpu-eviction-policy"
SEED_NEVER: Final = "never"
KUEUE_QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
KUEUE_MAX_EXEC_TIME: Final = "kueue.x-k8s.io/max-exec-time-seconds"
KUEUE_PODS: Final = ("kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset")
"""Labels by which Kueue marks pods whose scheduling is its own affair."""
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
DEFAULT_EXCLUDED_NAMESPACES: Final[tuple[str, ...]] = (
    OWN_NAMESPACE,
    "kube-system",
    "gpu-operator",
    "nvidia-gpu-operator",
    "kueue-system",
    "hami-system",
    "monitoring",
)


class Label(StrEnum):
    """Labels of a GPU pod, written when it is created."""

    POLICY = f"{PREFIX}policy"
    CLASS = f"{PREFIX}class"
    IDLE_ACTION = f"{PREFIX}idle-action"
    IDLE_AFTER = f"{PREFIX}idle-after"
    IDLE_UTILIZATION = f"{PREFIX}idle-utilization"
    IDLE_STATISTIC = f"{PREFIX}idle-statistic"
    IDLE_MEMORY = f"{PREFIX}idle-memory"
    IDLE_GRACE = f"{PREFIX}idle-grace"
    IDLE_WARM_UP = f"{PREFIX}idle-warm-up"


class Annotation(StrEnum):
    """Annotations of GPU pods and Jobs."""

    REQUESTED_BY = f"{PREFIX}requested-by"
    DEADLINE = f"{PREFIX}deadline"
    DEADLINE_SECONDS = f"{PREFIX}deadline-seconds"
    ASKED = f"{PREFIX}asked"
    KEEP_UNTIL = f"{PREFIX}keep-until"
    IDLE_SINCE = f"{PREFIX}idle-since"
    RECLAIM_AT = f"{PREFIX}reclaim-at"
    WARNED_UID = f"{PREFIX}warned-uid"


class NamespaceLabel(StrEnum):
    """Labels of a namespace."""

    ENFORCEMENT = f"{PREFIX}enforcement"
    POLICY = f"{PREFIX}policy"
    QUOTA = f"{PREFIX}quota"


class Enforcement(StrEnum):
    """What the parts may do in a namespace."""

    ENABLED = "enabled"
    DRY_RUN = "dry-run"
    DISABLED = "disabled"


TERM_LABELS: Final[tuple[Label, ...]] = (
    Label.IDLE_ACTION,
    Label.IDLE_AFTER,
    Label.IDLE_UTILIZATION,
    Label.IDLE_STATISTIC,
    Label.IDLE_MEMORY,
    Label.IDLE_GRACE,
    Label.IDLE_WARM_UP,
)
"""The labels that together spell the idle terms of a pod, in the order people read them."""

REAPER_ONLY: Final[tuple[Annotation, ...]] = (
    Annotation.IDLE_SINCE,
    Annotation.RECLAIM_AT,
    Annotation.WARNED_UID,
)
"""Written by the reaper alone; the webhook drops them from a pod that is being created."""


def enforcement_of(labels: Mapping[str, str] | None) -> Enforcement:
    """Reads a namespace's labels: absent is `enabled`, a value that nobody knows is `dry-run`."""
    value = (labels or {}).get(NamespaceLabel.ENFORCEMENT)
    if value is None:
        return Enforcement.ENABLED
    try:
        return Enforcement(value)
    except ValueError:
        return Enforcement.DRY_RUN


def short_name(key: str) -> str:
    """The key without our prefix: `idle-after` for `gpu-tenure.io/idle-after`; others stay as they are."""
    return str(key).removeprefix(PREFIX)
