"""What a pod's resource claims hold, where their templates are known; guesses nothing.

A claim that exists by itself may be used by several pods: it is none of a single pod's, and is only named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from policy.errors import FieldError
from policy.objects import ObjectMeta, PodClaim
from policy.resources import ResourceTable
from policy.vendors import DEVICE_CLASS_SUFFIX

ALL: Final = "All"
Counts = dict[str, int]


class ExactRequest(Struct, frozen=True, rename="camel"):
    """Devices of one class: `count` of them, or all that a node has."""

    device_class_name: str = ""
    allocation_mode: str | None = None
    count: int | None = None


class DeviceRequest(Struct, frozen=True, rename="camel"):
    """A request of a claim: exactly one thing, or the first of several that is available."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: tuple[ExactRequest, ...] | None = None


class DeviceClaim(Struct, frozen=True, rename="camel"):
    """The devices of a claim."""

    requests: tuple[DeviceRequest, ...] | None = None


class ClaimSpec(Struct, frozen=True, rename="camel"):
    """A claim's specification."""

    devices: DeviceClaim = DeviceClaim()


class TemplateSpec(Struct, frozen=True, rename="camel"):
    """What claims are made from."""

    spec: ClaimSpec = ClaimSpec()


class ClaimTemplate(Struct, frozen=True, rename="camel"):
    """A ResourceClaimTemplate."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TemplateSpec = TemplateSpec()


class Claimed(Struct, frozen=True):
    """What the claims of one pod hold.

    Attributes:
        counts: GPU devices by the name under which ResourceQuota counts their class.
        names: The pod's names of the claims that hold any.
        unresolved: Claims whose devices are not known, each with the reason.
    """

    counts: tuple[tuple[str, int], ...] = ()
    names: frozenset[str] = frozenset()
    unresolved: tuple[FieldError, ...] = ()


NOTHING_CLAIMED: Final = Claimed()


def claimed_by(
    claims: Sequence[PodClaim] | None, template: Callable[[str], ClaimTemplate | None], table: ResourceTable
) -> Claimed:
    """What claims hold; `template` finds a template of the pod's namespace by its name, None if unknown."""
    if not claims:
        return NOTHING_CLAIMED
    counts: Counts = {}
    names: set[str] = set()
    unresolved: list[FieldError] = []
    for index, claim in enumerate(claims):
        found = _of_claim(claim, template, table)
        if isinstance(found, str):
            unresolved.append(FieldError(f"spec.resourceClaims[{index}]", found))
            continue
        for name, count in found.items():
            counts[name] = counts.get(name, 0) + count
        if found:
            names.add(claim.name)
    return Claimed(tuple(sorted(counts.items())), frozenset(names), tuple(unresolved))


def _of_claim(
    claim: PodClaim, template: Callable[[str], ClaimTemplate | None], table: ResourceTable
) -> Counts | str:
    """The GPU devices of one claim, or why they are not known."""
    if claim.resource_claim_name:
        return f"ResourceClaim {claim.resource_claim_name} may be shared by several pods: it is not counted"
    name = claim.resource_claim_template_name
    if not name:
        return "names neither a claim nor a template"
    found = template(name)
    if found is None:
        return f"ResourceClaimTemplate {name} is not known: its devices are not counted"
    return _of_requests(found.spec.spec.devices.requests or (), table, name)


def _of_requests(requests: Sequence[DeviceRequest], table: ResourceTable, template: str) -> Counts | str:
    """GPU devices of requests: of alternatives the most of each class, as ResourceQuota counts."""
    total: Counts = {}
    for request in requests:
        most: Counts = {}
        for one in (request.exactly,) if request.exactly else request.first_available or ():
            name = f"{one.device_class_name}{DEVICE_CLASS_SUFFIX}"
            if table.known(name) is None:
                continue
            if one.allocation_mode == ALL:
                return (
                    f"ResourceClaimTemplate {template} asks for all devices of a node: they are not counted"
                )
            most[name] = max(most.get(name, 0), 1 if one.count is None else one.count)
        for name, count in most.items():
            total[name] = total.get(name, 0) + count
    return total
