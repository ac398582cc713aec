"""Which pods are acted on together; must not know verdicts, limits or how they are acted on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from msgspec import Struct

from policy.terms import Action
from reaper.owners import Root
from reaper.podgroups import pod_group_of
from reaper.pods import GpuPod
from reaper.subjects import Subject

POD_GROUP = "PodGroup"
"""The kind under which a group of several owners appears."""


class Group(Struct, frozen=True):
    """Pods that are warned and acted on together.

    One pod under a Deployment (all of them if its owner is to be stopped), else all GPU pods of a root owner,
    and of all owners whose pods share a pod group.

    Attributes:
        root: The root owner; of several the pod group, by its name.
        members: The pods, in the order of their keys.
        action: The most that may be done; once the group is due, what is to be done.
    """

    root: Root
    members: tuple[Subject, ...]
    action: Action = Action.EVICT

    @property
    def key(self) -> tuple[str, str, str]:
        """Order among groups: that of its first pod."""
        return self.members[0].key

    @property
    def devices(self) -> int:
        """Devices of all members."""
        return sum(member.devices for member in self.members)

    @property
    def uids(self) -> frozenset[str]:
        """UIDs of the members' pods."""
        return frozenset(member.pod.uid for member in self.members)

    @property
    def owner_uids(self) -> frozenset[str]:
        """UIDs of the root owners, by which records tell what was done before."""
        return frozenset(member.root.uid for member in self.members)

    @property
    def alone(self) -> bool:
        """True if other pods of the same owner are another group."""
        return self.root.replaceable and self.action is not Action.STOP and len(self.members) == 1

    def takes_in(self, pod: GpuPod, root: Root) -> bool:
        """True if a pod that was not planned for belongs to this group."""
        first = self.members[0]
        if pod.namespace != first.pod.namespace or pod.uid in self.uids:
            return False
        if root.uid in self.owner_uids and not self.alone:
            return True
        theirs = pod_group_of(pod, replaceable=root.replaceable)
        return theirs is not None and theirs in {_pod_group(member) for member in self.members}


def groups_of(subjects: Iterable[Subject]) -> tuple[Group, ...]:
    """Gathers the pods that still hold devices, each group and all groups in a fixed order."""
    members = sorted((one for one in subjects if one.holds_devices), key=lambda one: one.key)
    whole = stopped_whole(members)
    joined = _Joined()
    for one in members:
        key = f"owner {one.root.uid}"
        if one.root.replaceable and one.root.uid not in whole:
            key = f"pod {one.pod.uid}"
        joined.add(key)
        name = _pod_group(one)
        if name is not None:
            joined.join(key, f"group {one.pod.namespace} {name}")
    gathered: dict[str, list[Subject]] = defaultdict(list)
    for one in members:
        alone = one.root.replaceable and one.root.uid not in whole
        gathered[joined.find(f"pod {one.pod.uid}" if alone else f"owner {one.root.uid}")].append(one)
    groups = (Group(_root_of(found), tuple(found), _most(found, whole)) for found in gathered.values())
    return tuple(sorted(groups, key=lambda group: group.key))


def stopped_whole(subjects: Collection[Subject]) -> frozenset[str]:
    """Gives the UIDs of Deployments that are to be stopped: all of their pods that count allow it.

    Otherwise each of their pods stands alone, and is evicted at most.
    """
    ceilings: dict[str, set[Action]] = defaultdict(set)
    for one in subjects:
        if one.root.replaceable and one.skip is None:
            ceilings[one.root.uid].add(one.ceiling)
    return frozenset(uid for uid, found in ceilings.items() if found == {Action.STOP})


def _most(members: list[Subject], whole: Collection[str]) -> Action:
    parts = any(one.root.replaceable and one.root.uid not in whole for one in members)
    return Action.EVICT if parts else Action.STOP


def _pod_group(subject: Subject) -> str | None:
    return pod_group_of(subject.pod, replaceable=subject.root.replaceable)


def _root_of(members: list[Subject]) -> Root:
    first = members[0].root
    if all(one.root.uid == first.uid for one in members):
        return first
    name = min(name for one in members if (name := _pod_group(one)) is not None)
    namespace = members[0].pod.namespace
    return Root("", POD_GROUP, namespace, name.partition("=")[2], f"{namespace} {name}")


class _Joined:
    """Sets that are joined one by one, each named by its smallest key."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def add(self, key: str) -> None:
        self._above.setdefault(key, key)

    def find(self, key: str) -> str:
        while self._above[key] != key:
            key = self._above[key]
        return key

    def join(self, one: str, other: str) -> None:
        self.add(other)
        first, second = sorted((self.find(one), self.find(other)))
        self._above[second] = first
