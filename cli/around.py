"""Finds in manifests what else of a cluster decisions depend on: quotas and classes; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from cli.documents import Document
from cli.field_errors import field_error
from policy.errors import FieldError, InvalidError
from policy.gpuquota import parse_quota
from policy.ledger import Ledger
from policy.resourcequota import ResourceQuota
from policy.scheduling import PriorityClass, PriorityClasses
from policy.selection import PolicySet, selectable_labels, selector_matches
from runtime.quotas import StoredQuota, read_stored

_Value = TypeVar("_Value")


class Around(msgspec.Struct, frozen=True):
    """ResourceQuotas by namespace, GPUQuotas, and the PriorityClasses; None where no file has any."""

    quotas: Mapping[str, tuple[ResourceQuota, ...]] = {}
    classes: PriorityClasses | None = None
    gpu_quotas: tuple[StoredQuota, ...] = ()

    def gpu_quotas_of(self, namespace: str, labels: Mapping[str, str]) -> tuple[StoredQuota, ...]:
        """The GPUQuotas that select a namespace, by name; one that nobody has counted is taken for empty."""
        known = selectable_labels(namespace, labels)
        return tuple(
            stored if stored.ledger.observed_generation else _empty(stored, namespace)
            for stored in sorted(self.gpu_quotas, key=lambda stored: stored.name)
            if selector_matches(stored.quota.namespace_selector, known)
        )

    def classes_for(self, policies: PolicySet) -> PriorityClasses:
        """The classes of the files; without any, those that policies name are taken to exist."""
        if self.classes is not None:
            return self.classes
        named = (policy.scheduling.priority_class_name for policy in policies.valid)
        return PriorityClasses(frozenset(name for name in named if name))


def around_of(documents: Iterable[Document], namespace: str | None) -> Around:
    """What the documents hold; `namespace` goes before that of a quota.

    Raises:
        InvalidError: an object has a field of the wrong form.
    """
    quotas: dict[str, tuple[ResourceQuota, ...]] = {}
    classes: list[PriorityClass] = []
    gpu_quotas: list[StoredQuota] = []
    for document in documents:
        if document.content["kind"] == "ResourceQuota":
            quota = _read(document, ResourceQuota)
            home = namespace or quota.metadata.namespace or "default"
            quotas[home] = (*quotas.get(home, ()), quota)
        elif document.content["kind"] == "PriorityClass":
            classes.append(_read(document, PriorityClass))
        elif document.content["kind"] == "GPUQuota":
            gpu_quotas.append(_gpu_quota(document))
    return Around(quotas, PriorityClasses.of(classes) if classes else None, tuple(gpu_quotas))


def _gpu_quota(document: Document) -> StoredQuota:
    """Reads a GPUQuota with its ledger, if it has one."""
    try:
        parse_quota(document.content)
        stored = read_stored(msgspec.json.encode(document.content))
    except InvalidError as error:
        raise InvalidError([one.under(document.where) for one in error.errors]) from error
    except msgspec.DecodeError as error:
        raise InvalidError([FieldError(document.where, str(error))]) from error
    if stored.problem is not None:
        raise InvalidError([FieldError(document.where, stored.problem)])
    return stored


def _empty(stored: StoredQuota, namespace: str) -> StoredQuota:
    """The quota as it will be once it has counted nothing in a namespace."""
    ledger = Ledger(observed_generation=max(stored.quota.generation, 1), namespaces=(namespace,))
    return msgspec.structs.replace(stored, ledger=ledger)


def _read(document: Document, kind: type[_Value]) -> _Value:
    """Reads a document as an object of a kind."""
    content: dict[str, Any] = {key: value for key, value in document.content.items() if value is not None}
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise InvalidError([field_error(document.where, "", error)]) from error
