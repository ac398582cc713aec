"""The devices that a pod holds, by Kubernetes' own arithmetic; knows nothing of nodes, metrics or quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from policy.errors import FieldError, FormatError
from policy.objects import Container, PodSpec
from policy.quantities import whole_devices
from policy.resources import rule_of

Counts = dict[str, int]
HAMI_DEVICE: Final = "nvidia.com/gpu"
"""The device that HAMi's companions belong to."""


class Devices(Struct, frozen=True):
    """What a pod holds.

    `counts` has the effective number by resource name, companions included (HAMi's are multiplied by the
    devices of their container); names with nothing are left out. `containers` are the names of the containers
    and sidecars that hold any for as long as the pod runs. `problems` lists quantities that cannot be read or
    are not whole.
    """

    counts: Counts
    containers: tuple[str, ...] = ()
    problems: tuple[FieldError, ...] = ()

    @property
    def devices(self) -> int:
        """Devices, shares and slices in all; 1 where only companions are asked for (HAMi gives one)."""
        total = sum(count for name, count in self.counts.items() if _counts(name))
        return total or int(bool(self.counts))

    @property
    def is_gpu(self) -> bool:
        """Whether the pod is a GPU pod: it asks for something of a GPU, readable or not."""
        return bool(self.counts or self.problems)


def devices_of(spec: PodSpec) -> Devices:
    """The effective devices of a pod: the most that it holds at any time.

    That is the larger of (each init container with the sidecars declared before it) and (all sidecars and
    containers). Limits count, else requests. What cannot be read counts as nothing and is listed.
    """
    problems: list[FieldError] = []
    holders: list[str] = []
    running: Counts = {}
    peak: Counts = {}
    for index, container in enumerate(spec.init_containers or ()):
        counts = _container_counts(container, f"spec.initContainers[{index}]", problems)
        if container.restart_policy == "Always":
            _add(running, counts)
            holders += [container.name] if counts else []
        else:
            _raise_to(peak, _sum(running, counts))
    for index, container in enumerate(spec.containers or ()):
        counts = _container_counts(container, f"spec.containers[{index}]", problems)
        _add(running, counts)
        holders += [container.name] if counts else []
    _raise_to(peak, running)
    return Devices(peak, tuple(holders), tuple(problems))


def _container_counts(container: Container, path: str, problems: list[FieldError]) -> Counts:
    """What one container asks for, its companions multiplied by its devices."""
    counts: Counts = {}
    for name, quantity, where in _asked(container):
        try:
            count = whole_devices(quantity)
        except FormatError as error:
            problems.append(FieldError(f"{path}.resources.{where}[{name}]", f"{error} (is {quantity})"))
            continue
        if count:
            counts[name] = count
    per = max(counts.get(HAMI_DEVICE, 0), 1)
    return {name: count if _counts(name) else count * per for name, count in counts.items()}


def _asked(container: Container) -> Iterator[tuple[str, str | float | None, str]]:
    """Names, quantities and places of the GPU resources of a container: limits first, else requests."""
    resources = container.resources
    if resources is None:
        return
    limits, requests = resources.limits or {}, resources.requests or {}
    for name, quantity in limits.items():
        if rule_of(name):
            yield name, quantity, "limits"
    for name, quantity in requests.items():
        if name not in limits and rule_of(name):
            yield name, quantity, "requests"


def _counts(name: str) -> bool:
    """Whether a resource is held itself, rather than describing what is held."""
    rule = rule_of(name)
    return rule is not None and rule.unit.counts


def _add(total: Counts, counts: Counts) -> None:
    """Adds counts to a total, in place."""
    for name, count in counts.items():
        total[name] = total.get(name, 0) + count


def _sum(left: Counts, right: Counts) -> Counts:
    """The sum of two counts, as a new one."""
    total = dict(left)
    _add(total, right)
    return total


def _raise_to(peak: Counts, counts: Counts) -> None:
    """Raises a peak to the counts that exceed it, in place."""
    for name, count in counts.items():
        peak[name] = max(peak.get(name, 0), count)
