"""Takes a workload apart into the pods that it makes; decides nothing about them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from policy.objects import Container, ObjectMeta, PodSpec
from policy.workloads import Path, WorkloadKind, find, pods_at

_Value = TypeVar("_Value")


class Part(msgspec.Struct, frozen=True):
    """Pods of one shape that a workload makes at once: at least `pods` of them.

    `mark` is the path to the metadata whose annotations they inherit.
    """

    spec: PodSpec
    metadata: ObjectMeta
    mark: Path
    pods: int = 0


def parts_of(kind: WorkloadKind, tree: dict[str, Any]) -> tuple[Part, ...]:
    """All parts of a workload; a template that does not read as one is none."""
    found = [*_template_parts(kind, tree), *_container_parts(kind, tree)]
    return tuple(part for part in found if part is not None)


def _template_parts(kind: WorkloadKind, tree: dict[str, Any]) -> list[Part | None]:
    """The parts that templates make."""
    parts: list[Part | None] = []
    for template in kind.templates:
        for path, value in find(tree, template.path):
            mark = tuple(kind.mark.split(".")) if kind.mark else (*path, "metadata")
            parts.append(_template_part(value, mark, pods_at(tree, template, path)))
    return parts


def _template_part(template: object, mark: Path, pods: int) -> Part | None:
    """The part that a template makes, None where it does not read as one."""
    if not isinstance(template, dict):
        return None
    spec = _convert(template.get("spec") or {}, PodSpec)
    metadata = _convert(template.get("metadata") or {}, ObjectMeta)
    return None if spec is None or metadata is None else Part(spec, metadata, mark, pods)


def _container_parts(kind: WorkloadKind, tree: dict[str, Any]) -> list[Part | None]:
    """The parts that single containers make, of which nobody knows how many run at once."""
    parts: list[Part | None] = []
    for place in kind.containers:
        for _, value in find(tree, place):
            container = _convert(value, Container)
            if container is not None:
                spec = PodSpec(containers=(container,))
                parts.append(Part(spec, ObjectMeta(), tuple(kind.mark.split("."))))
    return parts


def _convert(value: object, kind: type[_Value]) -> _Value | None:
    """Reads a plain value, None if it has another form."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
