"""Makes the GPUReclaim of one action, and settles records left open; must not know how they are stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from policy.durations import format_time
from policy.keys import Annotation, short_name
from policy.terms import Action, terms_to_labels
from policy.verdicts import VerdictKind
from reaper.logs import logs_url
from reaper.messages import how_to_get_back
from reaper.pods import GpuPod
from reaper.records import Phase, Record, record_name
from reaper.subjects import Subject

LONGEST_REQUESTER = 1024


def record_of(subject: Subject, decided_at: datetime, action: Action = Action.EVICT) -> Record:
    """Gives the record that is written before the pod is acted on."""
    return Record(
        namespace=subject.pod.namespace,
        name=record_name(subject.pod.uid),
        pod_name=subject.pod.name,
        pod_uid=subject.pod.uid,
        owner_uid=subject.root.uid,
        devices=subject.devices,
        decided_at=decided_at,
        phase=Phase.PLANNED,
        action=action,
        requester=requester_of(subject.pod),
    )


def requester_of(pod: GpuPod) -> str:
    """Gives who asked for a pod, as its record has it; empty if nobody knows."""
    return pod.annotations.get(Annotation.REQUESTED_BY, "")[:LONGEST_REQUESTER]


def spec_of(
    subject: Subject,
    decided_at: datetime,
    warned_at: datetime | None = None,
    logs: str = "",
    action: Action = Action.EVICT,
) -> dict[str, Any]:
    """Gives the spec of the GPUReclaim: who, what, why, how to get it back; by the template `logs` its logs.

    `warned_at` is left out where another process gave the warning. Anybody may write references of any length
    on a pod: they are cut to what a record takes, or the pod could never be acted on.
    """
    pod, root, verdict = subject.pod, subject.root, subject.verdict
    spec: dict[str, Any] = {
        "action": action.value,
        "pod": {"name": pod.name, "uid": pod.uid, "node": pod.node},
        "owner": {
            "apiVersion": root.api_version[:317],
            "kind": root.kind[:128],
            "name": root.name[:253],
            "uid": root.uid[:128],
        },
        "requester": requester_of(pod) or None,
        "devices": subject.devices,
        "decidedAt": format_time(decided_at),
        "policy": subject.policy.name,
        "howToGetBack": how_to_get_back(root, action)[:1024],
        "logsURL": logs_url(logs, pod, root, decided_at),
    }
    if subject.terms is not None:
        labels = terms_to_labels(subject.terms)
        spec["terms"] = {short_name(key): value for key, value in labels.items()}
    if subject.mark is not None:
        spec["idleSince"] = format_time(subject.mark.idle_since)
    if warned_at is not None:
        spec["warnedAt"] = format_time(warned_at)
    if verdict is not None:
        spec["verdict"] = {"reason": verdict.reason.value, "sentence": verdict.sentence[:1024]}
        spec["evidence"] = _without_none(msgspec.to_builtins(verdict.evidence))
    return dict(_without_none(spec))


def _without_none(value: Any) -> Any:  # noqa: ANN401 - JSON of any depth
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value


class Closing(Struct, frozen=True):
    """An open record that can be completed now."""

    record: Record
    phase: Phase
    message: str


def closings(
    records: Collection[Record], pods: Collection[GpuPod], verdicts: Mapping[str, VerdictKind]
) -> tuple[Closing, ...]:
    """Gives what became of actions whose answer was lost, or that were not tried again.

    A pod that is going or gone after a request of ours counts as taken: limits rather count too much.
    """
    by_uid = {pod.uid: pod for pod in pods}
    found = []
    for record in records:
        if record.phase is not Phase.PLANNED:
            continue
        pod = by_uid.get(record.pod_uid)
        if pod is None or pod.deleting:
            found.append(Closing(record, Phase.ACCEPTED, "the answer was lost, and the pod is gone or going"))
        elif verdicts.get(record.pod_uid) not in {None, VerdictKind.IDLE}:
            found.append(Closing(record, Phase.REFUSED, "not tried again: the pod is not idle any more"))
    return tuple(found)
