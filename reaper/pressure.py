"""Says which devices pods wait for, as far as taking others' devices would help; reads no pod itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from reaper.pods import GpuPod

ANY = "*"
"""Devices of claims, whose names nobody knows here."""

UNSCHEDULABLE = "Unschedulable"
Wanted = Mapping[str, int]
"""Numbers of devices by resource name."""


def wanted_by(pods: Iterable[GpuPod], excluded_namespaces: Collection[str]) -> Wanted:
    """Gives what waiting pods want, less what pods that are going give back soon."""
    wanted: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for pod in pods:
        if pod.finished or pod.namespace in excluded_namespaces:
            continue
        if pod.deleting:
            given.update(held(pod) if pod.node is not None else {})
        elif is_waiting(pod):
            wanted.update(held(pod))
    return {name: left for name in sorted(wanted) if (left := wanted[name] - given[name]) > 0}


def is_waiting(pod: GpuPod) -> bool:
    """True for a pod that the scheduler finds no place for; placeholders and held-back pods do not count."""
    if pod.node is not None or pod.phase != "Pending" or pod.priority < 0 or pod.deleting:
        return False
    conditions = (pod.pod.status.conditions if pod.pod.status else None) or ()
    return any(
        (one.type, one.status, one.reason) == ("PodScheduled", "False", UNSCHEDULABLE) for one in conditions
    )


def held(pod: GpuPod) -> Wanted:
    """Gives the devices of a pod by resource name, companions left out."""
    found = {
        name: count
        for name, count in pod.devices.counts.items()
        if (rule := pod.devices.table.rule_of(name)) is not None and rule.unit.counts
    }
    return found or {ANY: max(pod.devices.devices, 1)}


def helps(held_devices: Wanted, wanted: Wanted) -> bool:
    """True if somebody waits for one of these devices."""
    either = ANY in held_devices or ANY in wanted
    return bool(wanted) and (either or any(name in wanted for name in held_devices))


def less(wanted: Wanted, held_devices: Wanted) -> Wanted:
    """Gives what is still wanted after devices were given back; unknown ones satisfy anybody."""
    known = sum(count for name, count in held_devices.items() if name not in wanted)
    left = {name: count - held_devices.get(name, 0) for name, count in wanted.items()}
    if ANY in left:
        left[ANY] -= known
    return {name: count for name, count in left.items() if count > 0}
