"""Which namespaces a quota has counted: those that it selects, once no webhook can think otherwise. Pure.

A webhook that has not yet seen a new quota or label lets pods in without a reservation. While a namespace
is not in the ledger those that have seen it tell clients to come again, so a new one is listed only after
both the watches and the reviews of that time have come to an end. Only a namespace that was born under a
quota which all knew need not wait: there was no time when it was free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from policy.gpuquota import GPUQuota
from policy.ledger import Ledger
from policy.objects import Namespace
from policy.selection import selectable_labels, selector_matches


class _Seen(Struct):
    """Since when this leader has seen a generation of a quota, and each namespace that it selects."""

    generation: int
    known: float
    names: dict[str, float]


class Coverage:
    """Remembers since when this leader has seen each namespace selected, in monotonic seconds."""

    def __init__(self, settle_seconds: float) -> None:
        self._settle = settle_seconds
        self._seen: dict[str, _Seen] = {}

    def namespaces(
        self,
        quota: GPUQuota,
        ledger: Ledger,
        namespaces: Iterable[Namespace],
        births: Mapping[str, float],
        now: float,
    ) -> tuple[str, ...]:
        """The namespaces to count.

        `births` are those that were seen coming into being and have had the same labels since.
        """
        before = self._seen.get(quota.uid)
        old = before.names if before is not None else {}
        known = before.known if before is not None and before.generation == quota.generation else now
        names = {name: old.get(name, now) for name in _selected(quota, namespaces)}
        self._seen[quota.uid] = _Seen(quota.generation, known, names)
        return tuple(
            name
            for name, since in sorted(names.items())
            if name in ledger.namespaces
            or now - since >= self._settle
            or (name in births and births[name] - known >= self._settle)
        )

    def forget_others(self, uids: Collection[str]) -> None:
        """Drops what is remembered of quotas that are no more."""
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in uids}


def _selected(quota: GPUQuota, namespaces: Iterable[Namespace]) -> Iterator[str]:
    """The names of the namespaces that a quota selects."""
    for namespace in namespaces:
        name = namespace.metadata.name or ""
        labels = selectable_labels(name, namespace.metadata.labels)
        if selector_matches(quota.namespace_selector, labels):
            yield name
