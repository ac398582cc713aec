"""Reduces an object to what admission may read and write of it: a small, hashable value; decides nothing.

Two pods that look alike here get the same answer, however different their containers are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from policy.keys import (
    KUEUE_MAX_EXEC_TIME,
    KUEUE_QUEUE_NAME,
    REAPER_ONLY,
    SEED_EVICTION_POLICY,
    TERM_LABELS,
    Annotation,
    Label,
)
from policy.objects import Job, ObjectMeta, Pod
from webhook.scheduling import OwnScheduling

OWN_LABELS: tuple[str, ...] = tuple(
    str(key) for key in (Label.POLICY, Label.CLASS, *TERM_LABELS, KUEUE_MAX_EXEC_TIME)
)
"""The labels that admission writes; the last one only on what Kueue manages."""

OWN_ANNOTATIONS: tuple[str, ...] = tuple(
    str(key)
    for key in (
        Annotation.REQUESTED_BY,
        Annotation.DEADLINE,
        Annotation.DEADLINE_SECONDS,
        Annotation.ASKED,
        *REAPER_ONLY,
    )
)
"""The annotations that admission writes or removes."""

READ_ANNOTATIONS = (*OWN_ANNOTATIONS, SEED_EVICTION_POLICY)

UNIT_CHARACTERS = 1024

Pairs = tuple[tuple[str, str], ...]


class OwnMetadata(msgspec.Struct, frozen=True):
    """The part of an object's metadata that concerns us; None where a map is absent or null.

    `exists` is false where the object has no metadata at all.
    """

    labels: Pairs | None = None
    annotations: Pairs | None = None
    exists: bool = True

    @property
    def size(self) -> int:
        """How much there is to remember: 1 for what people send."""
        pairs = (*(self.labels or ()), *(self.annotations or ()))
        return 1 + sum([len(value) for _, value in pairs]) // UNIT_CHARACTERS if pairs else 1

    def document(self) -> dict[str, Any]:
        """The same as a JSON document, to compare and to patch."""
        document: dict[str, Any] = {}
        if self.labels is not None:
            document["labels"] = dict(self.labels)
        if self.annotations is not None:
            document["annotations"] = dict(self.annotations)
        return document


class OwnPod(msgspec.Struct, frozen=True):
    """The part of a pod that concerns us; `deadline` in seconds.

    `requester` is who asked for it, as it shall be written. `scheduling` is None where no policy or none of
    ours may touch it.
    """

    metadata: OwnMetadata
    deadline: int | None = None
    queued: bool = False
    requester: str | None = None
    scheduling: OwnScheduling | None = None

    def size(self) -> int:
        """How much there is to remember."""
        scheduling = self.scheduling.size if self.scheduling is not None else 0
        return self.metadata.size + scheduling // UNIT_CHARACTERS


class OwnJob(msgspec.Struct, frozen=True):
    """The part of a Job that concerns us; deadlines in seconds, `requester` as for pods."""

    metadata: OwnMetadata
    template: OwnMetadata
    deadline: int | None = None
    template_deadline: int | None = None
    queued: bool = False
    requester: str | None = None

    def size(self) -> int:
        """How much there is to remember."""
        return self.metadata.size + self.template.size - 1


def own_pod(
    pod: Pod,
    *,
    metadata_exists: bool = True,
    requester: str | None = None,
    scheduling: OwnScheduling | None = None,
) -> OwnPod:
    """Reduces a pod."""
    metadata = own_metadata(pod.metadata, OWN_LABELS, exists=metadata_exists)
    deadline = pod.spec.active_deadline_seconds
    return OwnPod(metadata, deadline, is_queued(pod.metadata), requester, scheduling)


def own_job(job: Job, *, metadata_exists: bool = True, requester: str | None = None) -> OwnJob:
    """Reduces a Job; its template's labels are only read, for what its pods will get."""
    template = job.spec.template
    template_metadata = template.metadata if template is not None else None
    template_spec = template.spec if template is not None else None
    return OwnJob(
        own_metadata(job.metadata, (KUEUE_MAX_EXEC_TIME,), exists=metadata_exists),
        own_metadata(template_metadata or ObjectMeta(), OWN_LABELS, exists=template_metadata is not None),
        job.spec.active_deadline_seconds,
        template_spec.active_deadline_seconds if template_spec is not None else None,
        is_queued(job.metadata),
        requester,
    )


def own_metadata(metadata: ObjectMeta, labels: Sequence[str], *, exists: bool = True) -> OwnMetadata:
    """Keeps the keys that concern us, in a fixed order."""
    return OwnMetadata(
        None if metadata.labels is None else _pick(metadata.labels, labels),
        None if metadata.annotations is None else _pick(metadata.annotations, READ_ANNOTATIONS),
        exists,
    )


def _pick(values: Mapping[str, str], keys: Sequence[str]) -> Pairs:
    """The pairs of the given keys that exist; looks up each key, however many values there are."""
    if values.keys().isdisjoint(keys):  # as for most pods, and decided without a loop of ours
        return ()
    return tuple([(key, values[key]) for key in keys if key in values])


def is_queued(metadata: ObjectMeta) -> bool:
    """Whether Kueue manages the object."""
    return metadata.labels is not None and KUEUE_QUEUE_NAME in metadata.labels
