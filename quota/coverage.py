"""Which namespaces a quota has counted: those that it selects, once no webhook can think otherwise. Pure.

A webhook that has not yet seen a new quota or label lets pods in without a reservation. While a namespace
is not in the ledger those that have seen it tell clients to come again, so a new one is listed only after
both the watches and the reviews of that time have come to an end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from policy.gpuquota import GPUQuota
from policy.ledger import Ledger
from policy.objects import Namespace
from policy.selection import selectable_labels, selector_matches


class Coverage:
    """Remembers since when this leader has seen each namespace selected, in monotonic seconds."""

    def __init__(self, settle_seconds: float) -> None:
        self._settle = settle_seconds
        self._since: dict[str, dict[str, float]] = {}

    def namespaces(
        self,
        quota: GPUQuota,
        ledger: Ledger,
        namespaces: Iterable[Namespace],
        fresh: Collection[str],
        now: float,
    ) -> tuple[str, ...]:
        """The namespaces to count; `fresh` ones did not exist before, so nothing can be under way in them."""
        before = self._since.get(quota.uid, {})
        selected = {name: before.get(name, now) for name in _selected(quota, namespaces)}
        self._since[quota.uid] = selected
        return tuple(
            name
            for name, since in sorted(selected.items())
            if name in ledger.namespaces or now - since >= self._settle or self._is_fresh(name, ledger, fresh)
        )

    def forget_others(self, uids: Collection[str]) -> None:
        """Drops what is remembered of quotas that are no more."""
        self._since = {uid: since for uid, since in self._since.items() if uid in uids}

    @staticmethod
    def _is_fresh(name: str, ledger: Ledger, fresh: Collection[str]) -> bool:
        """Whether the namespace is newer than a quota that has been counted before."""
        return ledger.observed_generation > 0 and name in fresh


def _selected(quota: GPUQuota, namespaces: Iterable[Namespace]) -> Iterator[str]:
    """The names of the namespaces that a quota selects."""
    for namespace in namespaces:
        name = namespace.metadata.name or ""
        labels = selectable_labels(name, namespace.metadata.labels)
        if selector_matches(quota.namespace_selector, labels):
            yield name
