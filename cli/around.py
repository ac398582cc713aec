"""Finds in manifests what else of a cluster decisions depend on: quotas and classes; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from cli.documents import Document
from policy.errors import FieldError, InvalidError
from policy.objects import ObjectMeta
from policy.resourcequota import ResourceQuota
from policy.scheduling import PriorityClasses
from policy.selection import PolicySet

_Value = TypeVar("_Value")


class _PriorityClass(msgspec.Struct, frozen=True, rename="camel"):
    """A PriorityClass, as far as it matters."""

    metadata: ObjectMeta = ObjectMeta()
    global_default: bool = False


class Around(msgspec.Struct, frozen=True):
    """ResourceQuotas by namespace, and the PriorityClasses; None where no file has any."""

    quotas: Mapping[str, tuple[ResourceQuota, ...]] = {}
    classes: PriorityClasses | None = None

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
    classes: list[_PriorityClass] = []
    for document in documents:
        if document.content["kind"] == "ResourceQuota":
            quota = _read(document, ResourceQuota)
            home = namespace or quota.metadata.namespace or "default"
            quotas[home] = (*quotas.get(home, ()), quota)
        elif document.content["kind"] == "PriorityClass":
            classes.append(_read(document, _PriorityClass))
    names = frozenset(one.metadata.name or "" for one in classes)
    default = next((one.metadata.name for one in classes if one.global_default), None)
    return Around(quotas, PriorityClasses(names, default) if classes else None)


def _read(document: Document, kind: type[_Value]) -> _Value:
    """Reads a document as an object of a kind."""
    content: dict[str, Any] = {key: value for key, value in document.content.items() if value is not None}
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        field = f"{document.where}: {place.rstrip('`')}" if place else document.where
        raise InvalidError([FieldError(field, message[:1].lower() + message[1:])]) from error
