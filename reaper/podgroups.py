"""The pod groups of gang schedulers, as data: pods that start together and so end together.

Knows no owners and decides nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from reaper.pods import GpuPod


class GroupKey(Struct, frozen=True):
    """A key whose value names the group of a pod within its namespace.

    Attributes:
        key: A label or an annotation.
        chosen: True if people or controllers of runs set it; False if a scheduler also gives one to pods that
            have nothing to do with each other, such as the replicas of a Deployment.
    """

    key: str
    chosen: bool


GROUP_KEYS: Final[tuple[GroupKey, ...]] = (
    GroupKey("kueue.x-k8s.io/pod-group-name", chosen=True),
    GroupKey("scheduling.x-k8s.io/pod-group", chosen=True),
    GroupKey("pod-group.scheduling.sigs.k8s.io", chosen=True),
    GroupKey("gang.scheduling.koordinator.sh/name", chosen=True),
    GroupKey("scheduling.k8s.io/group-name", chosen=False),
    GroupKey("pod-group-name", chosen=False),
)
"""Kueue, coscheduling in its two spellings, Koordinator, Volcano, KAI: the first that a pod has counts."""


def pod_group_of(pod: GpuPod, *, replaceable: bool = False) -> str | None:
    """Gives what names the group of a pod, unique in its namespace; None if it has none.

    A `replaceable` pod belongs only to a group that was chosen for it.
    """
    for row in GROUP_KEYS:
        name = pod.labels.get(row.key) or pod.annotations.get(row.key)
        if name and (row.chosen or not replaceable):
            return f"{row.key}={name}"
    return None
