"""Jobs that hold GPUs and have a deadline, read once; knows no policy and no time."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from policy.deadline import DeadlineNote
from policy.durations import readable_time
from policy.keys import Annotation
from policy.objects import ObjectMeta
from runtime.listing import Head, Meta, Sieve

MARKED = frozenset({DeadlineNote.INJECTED, DeadlineNote.LOWERED, DeadlineNote.KEPT})
"""Values of the annotation `deadline` on Jobs that have one; admission writes it on GPU Jobs only."""

DEADLINE_EXCEEDED = "DeadlineExceeded"


class GpuJob(Struct, frozen=True):
    """A Job with a deadline.

    Attributes:
        deadline_seconds: Its `activeDeadlineSeconds` as it is now: an administrator may have changed it.
        started: From when it counts; None if the Job has not started, or is suspended.
        ended: True if it succeeded or failed.
        exceeded_at: When it failed by its deadline; None if it did not.
    """

    namespace: str
    name: str
    uid: str
    annotations: dict[str, str]
    deadline_seconds: int
    started: datetime | None
    ended: bool
    exceeded_at: datetime | None


class _Spec(Struct, frozen=True, rename="camel"):
    active_deadline_seconds: int | None = None


class _Condition(Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: str | None = None


class _Status(Struct, frozen=True, rename="camel"):
    start_time: str | None = None
    conditions: tuple[_Condition, ...] | None = None


class _Job(Struct, frozen=True):
    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status | None = None


class _Meta(Meta):
    annotations: dict[str, str] | None = None


class JobSketch(Head):
    """The part of a Job that says whether admission gave it a deadline."""

    metadata: _Meta


MARKED_JOBS = Sieve(
    JobSketch, lambda one: (one.metadata.annotations or {}).get(Annotation.DEADLINE) in MARKED
)
"""Holds back all Jobs that admission gave no deadline."""


def gpu_job(raw: msgspec.Raw | bytes) -> GpuJob | None:
    """Reads a Job; None if it is not marked as a GPU Job with a deadline.

    Raises:
        msgspec.DecodeError: it is no Job in shape.
    """
    job = msgspec.json.decode(raw, type=_Job)
    meta, seconds = job.metadata, job.spec.active_deadline_seconds
    annotations = meta.annotations or {}
    if seconds is None or annotations.get(Annotation.DEADLINE) not in MARKED:
        return None
    status = job.status or _Status()
    done = [
        one for one in status.conditions or () if one.status == "True" and one.type in {"Complete", "Failed"}
    ]
    late = next((one for one in done if one.reason == DEADLINE_EXCEEDED), None)
    return GpuJob(
        namespace=meta.namespace or "",
        name=meta.name or "",
        uid=meta.uid or "",
        annotations=annotations,
        deadline_seconds=seconds,
        started=readable_time(status.start_time),
        ended=bool(done),
        exceeded_at=readable_time(late.last_transition_time) if late else None,
    )
