"""Tells at little cost which pods cannot hold a GPU, so that only others are read; knows no kept object.

Most pods of a cluster hold none. What a container asks for is looked at as text, of which there are few
different ones, and what was found out about each is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from policy.objects import Quantities
from policy.resources import BUILT_IN_TABLE, ResourceTable
from policy.vendors import KAI_ANNOTATIONS
from runtime.listing import Head, Meta, Sieve

REMEMBERED = 4096
"""Texts whose names were looked up; users can send any number of them."""

_NOTHING = msgspec.Raw()


class _Container(msgspec.Struct):
    resources: msgspec.Raw = _NOTHING


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: Quantities | None = None
    resources: msgspec.Raw = _NOTHING
    resource_claims: list[msgspec.Raw] | None = None


class _Meta(Meta, rename="camel"):
    annotations: dict[str, str] | None = None


class PodSketch(Head):
    """The part of a pod that says whether it could hold a GPU."""

    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Asked(msgspec.Struct):
    limits: Quantities | None = None
    requests: Quantities | None = None


_ASKED = msgspec.json.Decoder(_Asked | None)


class GpuSieve:
    """Tells by one table of resource names whether a pod could hold a GPU."""

    def __init__(self, table: ResourceTable = BUILT_IN_TABLE) -> None:
        self._table = table
        self._known: dict[bytes, bool] = {}

    def passes(self, pod: PodSketch) -> bool:
        """Whether it could by any rule: a name of the table, a claim, an annotation of KAI's."""
        spec = pod.spec
        for container in spec.containers or ():
            if self._asks(container.resources):
                return True
        for container in spec.init_containers or ():
            if self._asks(container.resources):
                return True
        if spec.resource_claims or self._asks(spec.resources) or self._names_one(spec.overhead or ()):
            return True
        annotations = pod.metadata.annotations
        return annotations is not None and any(key in annotations for key in KAI_ANNOTATIONS)

    def _asks(self, resources: msgspec.Raw) -> bool:
        text = bytes(resources)
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[text] = bool(text) and self._read(text)
        return found

    def _read(self, text: bytes) -> bool:
        try:
            asked = _ASKED.decode(text)
        except msgspec.DecodeError:
            # Whoever reads the pod whole says what is wrong with it.
            return True
        return asked is not None and self._names_one((*(asked.limits or ()), *(asked.requests or ())))

    def _names_one(self, names: Iterable[str]) -> bool:
        return any(self._table.known(name) is not None for name in names)


def gpu_pod_sieve(table: ResourceTable = BUILT_IN_TABLE) -> Sieve[PodSketch]:
    """Gives the sieve that holds back pods without any GPU."""
    return Sieve(PodSketch, GpuSieve(table).passes)
