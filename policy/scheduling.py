"""Scheduling fields that a pod gets from its policy, as a function of values; never changes what a user set.

Defaults fill what is empty; only node affinity restricts, and so is ANDed into every term of the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from policy.objects import ObjectMeta
from policy.spec import Scheduling

Fields = Mapping[str, Any]
"""A part of a pod as plain JSON values."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS: Final = "nodeSelectorTerms"
_PARTS: Final = ("matchExpressions", "matchFields")


class PriorityClass(Struct, frozen=True, rename="camel"):
    """A PriorityClass; `value` is its priority."""

    metadata: ObjectMeta = ObjectMeta()
    global_default: bool = False
    value: int = 0


class PriorityClasses(Struct, frozen=True):
    """The PriorityClasses of a cluster; `global_default` names the one that pods get by themselves."""

    names: frozenset[str] = frozenset()
    global_default: str | None = None

    @classmethod
    def of(cls, classes: Iterable[PriorityClass]) -> PriorityClasses:
        """Puts classes together. Of several default ones the lowest counts, as for the API server."""
        known = {one.metadata.name or "": one for one in classes}
        defaults = sorted((one.value, name) for name, one in known.items() if one.global_default)
        return cls(frozenset(known), defaults[0][1] if defaults else None)


class PodScheduling(Struct, frozen=True):
    """The scheduling fields of a pod; None where one is absent or null.

    `priority` and `preemption` are what the API server has computed from the class before webhooks run.
    `affinity` is the whole field.
    """

    priority_class: str | None = None
    priority: int | None = None
    preemption: str | None = None
    tolerations: Sequence[Fields] | None = None
    node_selector: Mapping[str, str] | None = None
    affinity: Fields | None = None


def with_defaults(
    own: PodScheduling, defaults: Scheduling, priority_class: str | None, global_default: str | None
) -> PodScheduling:
    """The fields of a pod with the defaults of its policy; applied to its result it changes nothing.

    `priority_class` is the policy's where such a class exists, else None.
    """
    own = _with_priority(own, priority_class, global_default)
    return msgspec.structs.replace(
        own,
        tolerations=_with_tolerations(own.tolerations, defaults.tolerations),
        node_selector=_with_node_selector(own.node_selector, defaults.node_selector),
        affinity=_with_affinity(own.affinity, defaults.node_affinity),
    )


def _with_priority(own: PodScheduling, wanted: str | None, global_default: str | None) -> PodScheduling:
    """Sets the class where the pod has none, or the one that it got by itself.

    The values that were computed from the former class go with it: the pod would be refused. Once the class
    is there they are the new one's and stay.
    """
    if wanted is None or own.priority_class == wanted:
        return own
    if own.priority_class and own.priority_class != global_default:
        return own
    return msgspec.structs.replace(own, priority_class=wanted, priority=None, preemption=None)


def _with_tolerations(own: Sequence[Fields] | None, defaults: Sequence[Fields]) -> Sequence[Fields] | None:
    """Adds each toleration that has no equal one."""
    present = [_toleration(one) for one in own or ()]
    missing: list[Fields] = []
    for default in defaults:
        if _toleration(default) not in present:
            present.append(_toleration(default))
            missing.append(default)
    return [*(own or ()), *missing] if missing else own


def _toleration(fields: Fields) -> tuple[object, ...]:
    """What makes two tolerations equal: absent, null and empty are the same."""
    return (
        fields.get("key") or "",
        fields.get("operator") or "Equal",
        fields.get("value") or "",
        fields.get("effect") or "",
        fields.get("tolerationSeconds"),
    )


def _with_node_selector(
    own: Mapping[str, str] | None, defaults: Mapping[str, str]
) -> Mapping[str, str] | None:
    """Adds the keys that the pod does not select by itself."""
    missing = {key: value for key, value in defaults.items() if key not in (own or {})}
    return {**(own or {}), **missing} if missing else own


def _with_affinity(own: Fields | None, defaults: Fields | None) -> Fields | None:
    """Restricts the node affinity, and adds the preferences that have no equal one."""
    if not defaults:
        return own
    before = (own or {}).get("nodeAffinity") or {}
    after = dict(before)
    required = _required(before.get(REQUIRED), defaults.get(REQUIRED))
    if required is not None:
        after[REQUIRED] = required
    preferred = list(before.get(PREFERRED) or ())
    more = [one for one in defaults.get(PREFERRED) or () if one not in preferred]
    if more:
        after[PREFERRED] = [*preferred, *more]
    return own if after == before else {**(own or {}), "nodeAffinity": after}


def _required(own: Fields | None, defaults: Fields | None) -> Fields | None:
    """Both requirements in one. Terms are ORed, so each of the pod's is joined with each of the policy's.

    A term without expressions matches no node, and joined with others it would match some: the pod's stay as
    they are, and the policy's count for nothing.
    """
    restricting = [term for term in (defaults or {}).get(TERMS) or () if _expressions(term)]
    if not restricting:
        return own
    terms = (own or {}).get(TERMS)
    if not terms:
        return {**(own or {}), TERMS: restricting}
    joined: list[Fields] = []
    for term in terms:
        if not _expressions(term) or any(_includes(term, other) for other in restricting):
            joined.append(term)
        else:
            joined += [_join(term, other) for other in restricting]
    return {**(own or {}), TERMS: joined}


def _expressions(term: Fields) -> list[tuple[str, Any]]:
    """All expressions of a term, each with its part."""
    return [(part, expression) for part in _PARTS for expression in term.get(part) or ()]


def _includes(term: Fields, other: Fields) -> bool:
    """Whether a term demands all that the other does."""
    present = _expressions(term)
    return all(expression in present for expression in _expressions(other))


def _join(term: Fields, other: Fields) -> Fields:
    """A term that demands what both do."""
    joined = dict(term)
    for part in _PARTS:
        own = list(term.get(part) or ())
        more = [expression for expression in other.get(part) or () if expression not in own]
        if more:
            joined[part] = [*own, *more]
    return joined
