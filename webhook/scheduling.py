"""Reduces a pod's scheduling fields to a hashable value, and plans them by policy; pure, knows no request."""

from __future__ import annotations

from typing import Any

import msgspec

from policy.classes import ClassDecision, Standing
from policy.deadline import NoDeadline
from policy.keys import KUEUE_PODS, KUEUE_QUEUE_NAME, Annotation
from policy.objects import Pod, PodSpec
from policy.scheduling import PodScheduling, with_defaults
from policy.spec import Scheduling
from webhook.review import ReviewedSpec

_ABSENT = (b"", b"null")
_HANDS_OFF = (KUEUE_QUEUE_NAME, *KUEUE_PODS)
_DAEMON_SET = ("apps", "DaemonSet")


class OwnScheduling(msgspec.Struct, frozen=True):
    """The scheduling fields of a pod; the last three are JSON, empty where a field is absent."""

    priority_class: str | None = None
    priority: int | None = None
    preemption: str | None = None
    tolerations: bytes = b""
    node_selector: bytes = b""
    affinity: bytes = b""

    @property
    def size(self) -> int:
        """How many bytes the last three are."""
        return len(self.tolerations) + len(self.node_selector) + len(self.affinity)

    def document(self) -> dict[str, Any]:
        """The same in the shape of a pod's specification; of the affinity only that to nodes."""
        affinity = _read(self.affinity)
        if isinstance(affinity, dict):
            affinity = {key: value for key, value in affinity.items() if key == "nodeAffinity" and value}
        fields = {
            "priorityClassName": self.priority_class,
            "priority": self.priority,
            "preemptionPolicy": self.preemption,
            "tolerations": _read(self.tolerations),
            "nodeSelector": _read(self.node_selector),
            "affinity": affinity,
        }
        return {name: value for name, value in fields.items() if value is not None}


class _Term(msgspec.Struct, rename="camel"):
    match_expressions: list[dict[str, Any]] | None = None
    match_fields: list[dict[str, Any]] | None = None


class _Required(msgspec.Struct, rename="camel"):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(msgspec.Struct, rename="camel"):
    required_during_scheduling_ignored_during_execution: _Required | None = None
    preferred_during_scheduling_ignored_during_execution: list[dict[str, Any]] | None = None


class _Affinity(msgspec.Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


def own_scheduling(pod: Pod, decision: ClassDecision) -> OwnScheduling | None:
    """The fields of a pod that is being created; None where they are not ours to touch.

    Kueue schedules its pods itself. A DaemonSet's controller has chosen the node, and would wait for ever for
    a pod that may not run there.
    """
    spec: PodSpec = pod.spec
    if not isinstance(spec, ReviewedSpec) or _is_scheduled_by_others(pod, decision):
        return None
    return OwnScheduling(
        spec.priority_class_name,
        spec.priority,
        spec.preemption_policy,
        bytes(spec.tolerations),
        bytes(spec.node_selector),
        bytes(spec.affinity),
    )


def plan_scheduling(
    own: OwnScheduling, defaults: Scheduling, priority_class: str | None, default_class: str | None
) -> OwnScheduling:
    """The fields as they shall be; fields of a form that no API server sends stay as they are."""
    try:
        before = _fields(own)
    except msgspec.DecodeError:
        return own
    after = with_defaults(before, defaults, priority_class, default_class)
    if after == before:
        return own
    return OwnScheduling(
        after.priority_class,
        after.priority,
        after.preemption,
        own.tolerations if after.tolerations == before.tolerations else _write(after.tolerations),
        own.node_selector if after.node_selector == before.node_selector else _write(after.node_selector),
        own.affinity if after.affinity == before.affinity else _write(after.affinity),
    )


def changes(before: OwnScheduling, after: OwnScheduling) -> tuple[str, ...]:
    """The names of the fields that a plan sets, as the API spells them."""
    pairs = (
        ("priorityClassName", before.priority_class, after.priority_class),
        ("tolerations", before.tolerations, after.tolerations),
        ("nodeSelector", before.node_selector, after.node_selector),
        ("nodeAffinity", before.affinity, after.affinity),
    )
    return tuple(name for name, old, new in pairs if old != new)


def _is_scheduled_by_others(pod: Pod, decision: ClassDecision) -> bool:
    """Whether somebody else has the say about where the pod runs."""
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    if any(key in labels for key in _HANDS_OFF):
        return True
    controller = decision.controller
    if controller is None:
        return False
    if (controller.group, controller.kind) == _DAEMON_SET:
        return True
    # The pods of a Job that Kueue manages do not say so themselves; the Job's mark on its template does.
    mark = annotations.get(Annotation.DEADLINE)
    return decision.is_job and decision.standing is Standing.TRUSTED and mark == NoDeadline.KUEUE.annotation


def _fields(own: OwnScheduling) -> PodScheduling:
    """The fields as plain values; raises msgspec.DecodeError for one of another form."""
    affinity = None
    if own.affinity not in _ABSENT:
        msgspec.json.decode(own.affinity, type=_Affinity)
        affinity = msgspec.json.decode(own.affinity, type=dict[str, Any])
    return PodScheduling(
        own.priority_class,
        own.priority,
        own.preemption,
        None if own.tolerations in _ABSENT else _tolerations.decode(own.tolerations),
        None if own.node_selector in _ABSENT else _node_selector.decode(own.node_selector),
        affinity,
    )


_tolerations = msgspec.json.Decoder(list[dict[str, Any]])
_node_selector = msgspec.json.Decoder(dict[str, str])


def _read(raw: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """A field as it is, None where it is absent."""
    return None if raw in _ABSENT else msgspec.json.decode(raw)


def _write(value: object) -> bytes:
    """A field as JSON."""
    return b"" if value is None else msgspec.json.encode(value)
