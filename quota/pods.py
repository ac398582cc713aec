"""GPU pods as the ledger counts them, read from the API server's objects; knows no quota."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from policy.claims import Claimed, ClaimTemplate, claimed_by
from policy.devices import devices_of
from policy.keys import Annotation
from policy.ledger_count import HeldPod
from policy.objects import ObjectMeta, Pod
from policy.requester import requester_of
from policy.resources import ResourceTable

ENDED = frozenset({"Succeeded", "Failed"})
POD_HASH = "pod-template-hash"
Templates = Callable[[str, str], ClaimTemplate | None]
"""Finds a ResourceClaimTemplate by namespace and name."""


class PodReader:
    """Reads pods; what a pod claims is remembered, since its template may go before it does."""

    def __init__(self, table: ResourceTable, template: Templates) -> None:
        self._table = table
        self._template = template
        self._claimed: dict[str, Claimed] = {}

    def read(self, raw: msgspec.Raw) -> HeldPod | None:
        """What is kept of a pod; None for one that asks for nothing that is counted."""
        pod = msgspec.json.decode(raw, type=Pod)
        claimed = self._claims(pod) if pod.spec.resource_claims else None
        charges = devices_of(pod.spec, pod.metadata.annotations, self._table, claimed).charges
        return _held(pod, charges) if charges else None

    def forget(self, uid: str) -> None:
        """Drops what is remembered of a pod that is gone."""
        self._claimed.pop(uid, None)

    def _claims(self, pod: Pod) -> Claimed:
        """What the claims of a pod hold, as it was known first."""
        uid, namespace = pod.metadata.uid or "", pod.metadata.namespace or ""
        known = self._claimed.get(uid)
        if known is not None:
            return known
        claims = pod.spec.resource_claims
        claimed = claimed_by(claims, lambda name: self._template(namespace, name), self._table)
        if claimed.counts:
            self._claimed[uid] = claimed
        return claimed


def _held(pod: Pod, charges: dict[str, int]) -> HeldPod:
    """What the ledger needs of a pod."""
    metadata = pod.metadata
    idle_since = (metadata.annotations or {}).get(Annotation.IDLE_SINCE)
    return HeldPod(
        uid=metadata.uid or "",
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        requester=requester_of(metadata.annotations),
        counts=charges,
        ended=pod.status is not None and pod.status.phase in ENDED,
        owner=owner_of(metadata),
        remark=f"idle since {idle_since[:32]}" if idle_since else "",
        created=metadata.creation_timestamp or "",
    )


def owner_of(metadata: ObjectMeta) -> str:
    """A pod's workload as people name it, such as `Deployment/web`; empty for a pod on its own."""
    controller = metadata.controller
    if controller is None:
        return ""
    suffix = f"-{(metadata.labels or {}).get(POD_HASH)}"
    if controller.kind == "ReplicaSet" and controller.name.endswith(suffix):
        return f"Deployment/{controller.name.removesuffix(suffix)}"
    return f"{controller.kind}/{controller.name}"
