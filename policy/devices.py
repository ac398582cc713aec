"""The devices that a pod holds, by Kubernetes' own arithmetic; knows nothing of nodes, metrics or quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from msgspec import Struct

from policy.claims import Claimed, claimed_by
from policy.errors import FieldError, FormatError
from policy.kai import part_of
from policy.objects import Container, PodSpec, ResourceRequirements
from policy.quantities import whole_devices
from policy.resources import BUILT_IN_TABLE, IMPLIED, ResourceRule, ResourceTable

Counts = dict[str, int]


class Devices(Struct, frozen=True):
    """What a pod holds.

    `counts` has the effective number by resource name, companions included (those that are meant per device
    are multiplied by the devices of their container); names with nothing are left out. `containers` are the
    names of the containers and sidecars that hold any for as long as the pod runs. `problems` lists
    quantities that cannot be read or are not whole, `unresolved` the claims whose devices are not known.
    `implied` is the number of devices that no name counts: a scheduler gives one to each container that asks
    for memory or cores alone. `spread` is by how many devices a fraction exceeds its sum: two halves are two.
    """

    counts: Counts
    containers: tuple[str, ...] = ()
    problems: tuple[FieldError, ...] = ()
    unresolved: tuple[FieldError, ...] = ()
    implied: int = 0
    spread: int = 0
    table: ResourceTable = BUILT_IN_TABLE

    @property
    def devices(self) -> int:
        """Devices, shares and slices in all, those that are only implied among them."""
        total = self.implied + self.spread
        for name, count in self.counts.items():
            rule = self.table.rule_of(name)
            if rule is not None and rule.unit.counts:
                total += -(-count // rule.whole)
        return total

    @property
    def is_gpu(self) -> bool:
        """Whether the pod is a GPU pod: it asks for something of a GPU, readable or not."""
        return bool(self.counts or self.problems)

    @property
    def may_be_gpu(self) -> bool:
        """Whether the pod is a GPU pod, or has claims that could make it one."""
        return self.is_gpu or bool(self.unresolved)

    @property
    def charges(self) -> Counts:
        """What a quota is charged: the counts, and the implied devices under a name of their own."""
        return {**self.counts, IMPLIED: self.implied} if self.implied else self.counts

    @property
    def weight(self) -> Fraction:
        """How many cards the pod holds, exactly."""
        return self.table.weigh(self.charges)

    @property
    def rules(self) -> list[ResourceRule]:
        """The rows of the table that the names fall under."""
        return [rule for name in self.counts if (rule := self.table.rule_of(name)) is not None]


def devices_of(
    spec: PodSpec,
    annotations: Mapping[str, str] | None = None,
    table: ResourceTable = BUILT_IN_TABLE,
    claimed: Claimed | None = None,
) -> Devices:
    """The effective devices of a pod: the most that it holds at any time.

    That is the larger of (each init container with the sidecars declared before it) and (all sidecars and
    containers), at least what the pod asks for as a whole, and its overhead. Limits count, else requests.
    What cannot be read counts as nothing and is listed; so are claims, unless `claimed` says what they hold.
    """
    count = _Count(table)
    holders, peak = count.of_containers(spec)
    if spec.resources is not None:
        _raise_to(peak, count.of(spec.resources, "spec.resources"))
    if spec.overhead:
        _add(peak, count.of(ResourceRequirements(limits=spec.overhead), "spec.overhead"))
    part = part_of(annotations, spec, table, count.problems) if annotations else None
    if part is not None:
        _add(peak, part.counts)
        holders += [part.container] if part.container and part.container not in holders else []
    if spec.resource_claims:
        claimed = claimed or claimed_by(spec.resource_claims, lambda _: None, table)
        _add(peak, dict(claimed.counts))
        holders += _users(spec, claimed, holders)
    implied = peak.pop(IMPLIED, 0)
    unresolved = claimed.unresolved if claimed is not None else ()
    spread = part.spread if part is not None else 0
    return Devices(peak, tuple(holders), tuple(count.problems), unresolved, implied, spread, table)


class _Count:
    """Counts by one table, gathering problems."""

    def __init__(self, table: ResourceTable) -> None:
        self.table = table
        self.problems: list[FieldError] = []

    def of_containers(self, spec: PodSpec) -> tuple[list[str], Counts]:
        """Who holds devices while the pod runs, and the most that all containers hold at any time."""
        holders: list[str] = []
        running: Counts = {}
        peak: Counts = {}
        for index, container in enumerate(spec.init_containers or ()):
            counts = self._of_container(container, "initContainers", index)
            if container.restart_policy == "Always":
                _add(running, counts)
                holders += [container.name] if counts else []
            elif counts or running:
                _raise_to(peak, _sum(running, counts))
        for index, container in enumerate(spec.containers or ()):
            counts = self._of_container(container, "containers", index)
            _add(running, counts)
            holders += [container.name] if counts else []
        _raise_to(peak, running)
        return holders, peak

    def of(self, resources: ResourceRequirements, path: str) -> Counts:
        """What one block of resources asks for, companions multiplied by their devices."""
        counts: Counts = {}
        for name, quantity, where in self._asked(resources):
            try:
                count = whole_devices(quantity)
            except FormatError as error:
                at = path if path == "spec.overhead" else f"{path}.{where}"
                self.problems.append(FieldError(f"{at}[{name}]", f"{error} (is {quantity})"))
                continue
            if count:
                counts[name] = count
        return self._with_companions(counts) if counts else counts

    def _of_container(self, container: Container, kind: str, index: int) -> Counts:
        if container.resources is None:
            return {}
        return self.of(container.resources, f"spec.{kind}[{index}].resources")

    def _asked(self, resources: ResourceRequirements) -> Iterator[tuple[str, str | float | None, str]]:
        """Names, quantities and places of the GPU resources: limits first, else requests."""
        limits, requests = resources.limits or {}, resources.requests or {}
        for name, quantity in limits.items():
            if self.table.known(name):
                yield name, quantity, "limits"
        for name, quantity in requests.items():
            if name not in limits and self.table.known(name):
                yield name, quantity, "requests"

    def _with_companions(self, counts: Counts) -> Counts:
        """Companions times their devices, and a device for companions that name none."""
        total: Counts = {}
        alone = False
        for name, count in counts.items():
            known = self.table.known(name)
            if known is None or known.rule.unit.counts:
                total[name] = count
                continue
            devices = counts.get(known.of, 0)
            alone = alone or not devices
            total[name] = count * max(devices, 1) if known.rule.each else count
        if alone and not any(self._is_held(name) for name in counts):
            total[IMPLIED] = 1
        return total

    def _is_held(self, name: str) -> bool:
        known = self.table.known(name)
        return known is not None and known.rule.unit.counts


def _users(spec: PodSpec, claimed: Claimed, holders: list[str]) -> list[str]:
    """The containers and sidecars that use claims which hold devices, and are not known as holders yet."""
    sidecars = (one for one in spec.init_containers or () if one.restart_policy == "Always")
    return [
        container.name
        for container in (*sidecars, *(spec.containers or ()))
        if container.resources is not None
        and any(claim.name in claimed.names for claim in container.resources.claims or ())
        and container.name not in holders
    ]


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
