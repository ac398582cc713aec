"""Pods, verdicts, subjects and records as tests of planning and acting need them; knows no fake."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import structs

from policy.devices import Devices
from policy.durations import duration_of, format_time
from policy.errors import FieldError
from policy.objects import Namespace, ObjectMeta, Pod
from policy.profile import Profile
from policy.selection import PolicySet
from policy.terms import Action, Statistic, Terms, terms_to_labels
from policy.verdicts import Reason, VerdictKind
from reaper.evidence import Evidence, Verdict
from reaper.marks import Mark
from reaper.owners import Root, root_of_pod
from reaper.pods import GpuPod, gpu_pod
from reaper.records import Phase, Record
from reaper.subjects import Subject
from reaper.switches import Switches

NOON = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)

MINUTE = timedelta(minutes=1)

AFTER = 7200

GRACE = 1800

TERMS = Terms(
    action=Action.EVICT,
    after=duration_of(AFTER),
    utilization=5,
    statistic=Statistic.MAXIMUM,
    memory=None,
    grace=duration_of(GRACE),
    warm_up=duration_of(1800),
)

POLICY = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "default", "creationTimestamp": "2025-01-01T00:00:00Z"},
    "spec": {
        "idle": {"action": "evict", "after": "2h", "grace": "30m", "warmUp": "30m"},
        "classes": {"serving": {"idle": {"action": "evict", "after": "2h"}}},
        "bounds": {"exemption": "30d"},
        "contact": {"text": "Ask in gpu-help."},
    },
}

POLICIES = PolicySet.of([POLICY])

TEAM_A = Namespace(ObjectMeta(name="team-a", labels={}))

ENFORCED = Switches(profile=Profile.ENFORCE, dry_run=False, excluded_namespaces=())

LABELS = {
    "gpu-tenure.io/policy": "default",
    "gpu-tenure.io/class": "batch",
    **terms_to_labels(TERMS),
}


def minutes(count: float) -> timedelta:
    """Gives a span."""
    return timedelta(minutes=count)


def pod_of(
    name: str,
    *,
    namespace: str = "team-a",
    devices: int = 1,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: datetime = NOON - timedelta(days=1),
    owner: Root | None = None,
    phase: str = "Running",
    deleting: bool = False,
    priority: int = 0,
    uid: str = "",
) -> GpuPod:
    """Gives a GPU pod that has run for a day."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{namespace}-{name}",
        "creationTimestamp": format_time(created),
        "labels": dict(LABELS if labels is None else labels),
        "annotations": dict(annotations or {}),
        "resourceVersion": "1",
    }
    if deleting:
        metadata["deletionTimestamp"] = format_time(NOON)
    if owner is not None:
        reference = {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
        }
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    spec = {
        "restartPolicy": "Never",
        "priority": priority,
        "nodeName": "node-a",
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(devices)}}}],
    }
    started = {"running": {"startedAt": format_time(created)}}
    status = {"phase": phase, "containerStatuses": [{"name": "main", "state": started}]}
    raw = msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})
    found = gpu_pod(msgspec.json.decode(raw, type=Pod))
    assert found is not None
    return found


def claiming(pod: GpuPod) -> GpuPod:
    """The pod with a claim of unknown devices in place of its GPUs."""
    unknown = (FieldError("spec.resourceClaims[0]", "is not known"),)
    return structs.replace(pod, devices=structs.replace(pod.devices, counts={}, unresolved=unknown))


def verdict_of(
    kind: VerdictKind, reason: Reason | None = None, idle_since: datetime | None = None
) -> Verdict:
    """Gives a verdict; an Idle one has been so for two hours unless told otherwise."""
    usual = {
        VerdictKind.ACTIVE: Reason.ABOVE_THRESHOLD,
        VerdictKind.IDLE: Reason.BELOW_THRESHOLD,
        VerdictKind.UNKNOWN: Reason.NO_SERIES,
    }
    since = (idle_since or NOON - timedelta(seconds=AFTER)) if kind is VerdictKind.IDLE else None
    evidence = Evidence(window=AFTER, utilization=5, statistic="maximum", devices_expected=1, devices_seen=1)
    return Verdict(kind, reason or usual[kind], since, False, evidence, "240 of 240 samples below 5 %")


IDLE = verdict_of(VerdictKind.IDLE)

ACTIVE = verdict_of(VerdictKind.ACTIVE)

UNKNOWN = verdict_of(VerdictKind.UNKNOWN)


def subject_of(
    name: str = "a",
    verdict: Verdict | None = IDLE,
    *,
    mark: Mark | None = None,
    root: Root | None = None,
    ceiling: Action = Action.EVICT,
    streak: int = 2,
    devices: int = 1,
    namespace: str = "team-a",
    **more: Any,
) -> Subject:
    """Gives a subject that may be warned at once."""
    pod = structs.replace(
        pod_of(name, namespace=namespace), devices=Devices({"nvidia.com/gpu": devices}, ("main",))
    )
    return Subject(
        pod=pod,
        root=root or root_of_pod(pod),
        terms=TERMS,
        ceiling=ceiling,
        verdict=verdict,
        mark=mark,
        streak=streak,
        **more,
    )


def due_mark(ago_minutes: float = 1) -> Mark:
    """Gives a warning whose time came a while ago."""
    reclaim_at = NOON - minutes(ago_minutes)
    return Mark(reclaim_at - timedelta(seconds=AFTER + GRACE), reclaim_at=reclaim_at)


def due_subject(name: str = "a", **more: Any) -> Subject:
    """Gives a subject whose warning is due and whose idle stretch goes on."""
    mark = more.pop("mark", due_mark())
    verdict = more.pop("verdict", verdict_of(VerdictKind.IDLE, idle_since=mark.idle_since))
    return subject_of(name, verdict, mark=mark, **more)


def record_of_pod(
    uid: str,
    *,
    owner_uid: str = "",
    phase: Phase = Phase.ACCEPTED,
    at: datetime = NOON - 10 * MINUTE,
    devices: int = 1,
    message: str = "",
) -> Record:
    """Gives a record."""
    return Record(
        namespace="team-a",
        name=f"pod-{uid}",
        pod_name=uid,
        pod_uid=uid,
        owner_uid=owner_uid or uid,
        devices=devices,
        decided_at=at,
        phase=phase,
        completed_at=None if phase is Phase.PLANNED else at,
        message=message,
    )
