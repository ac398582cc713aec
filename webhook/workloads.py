"""Settles a new workload that is neither pod nor Job: who asked, its deadline, and what to tell; pure.

Its pods are decided about one by one when their controller creates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jsonpatch
import msgspec

from policy.asking import Admitted, admitted_terms
from policy.classes import ClassDecision, ClassSettings, ControllerDecision, class_of, controller_of
from policy.deadline import DeadlineDecision, DeadlineInput, KueueDecision, workload_deadline
from policy.keys import KUEUE_MAX_EXEC_TIME, Annotation
from policy.objects import ObjectMeta, OwnerReference, Pod
from policy.profile import is_enforcing
from policy.workloads import Path, WorkloadKind, find, first
from webhook.own import is_queued
from webhook.parts import Part
from webhook.patch import (
    ANNOTATIONS_LIMIT_BYTES,
    UnfitPatchError,
    annotations_bytes,
    encode_patch,
    make_patch,
)
from webhook.pods import acting_remarks, note_kueue_limit
from webhook.projection import project, value_at
from webhook.settle import SIGNATURE, Settled, deadline_sentence, requester_sentences
from webhook.subject import Subject
from webhook.warnings import fit_warnings

_DEADLINE = ("metadata", "annotations", str(Annotation.DEADLINE))
_KUEUE = ("metadata", "labels", KUEUE_MAX_EXEC_TIME)
_REQUESTED_BY = str(Annotation.REQUESTED_BY)


class Workload(msgspec.Struct, frozen=True):
    """A workload that makes GPU pods: its kind, the plain object, its GPU parts, and where it is created."""

    kind: WorkloadKind
    tree: dict[str, Any]
    parts: tuple[Part, ...]
    subject: Subject

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the workload itself."""
        return self.subject.metadata or ObjectMeta()


class _Plan(msgspec.Struct, frozen=True):
    """What shall be found where, and the decisions that lead there."""

    writes: dict[Path, str | int | None]
    requester: str | None = None
    deadline: DeadlineDecision | None = None
    kueue: KueueDecision = KueueDecision()


def settle_workload(workload: Workload) -> Settled:
    """Settles a workload; its warnings are for its creator even where nothing changes."""
    plan = _plan(workload, workload.tree)
    remarks = fit_warnings(SIGNATURE + remark for remark in _remarks(workload, plan))
    settled = Settled(
        deadline=plan.deadline.value if plan.deadline is not None else None,
        warnings=remarks,
        reasons=(
            *((deadline_sentence(plan.deadline),) if plan.deadline is not None else ()),
            *requester_sentences(plan.requester),
        ),
    )
    try:
        operations = make_patch(*project(workload.tree, plan.writes))
    except UnfitPatchError as error:
        return msgspec.structs.replace(settled, unfit=str(error))
    if not operations:
        return settled
    patched = jsonpatch.apply_patch(workload.tree, list(operations))
    unfit = _unfit(workload, plan, patched)
    return msgspec.structs.replace(settled, patch=encode_patch(operations), unfit=unfit)


def _unfit(workload: Workload, plan: _Plan, patched: dict[str, Any]) -> str | None:
    """Why the patched workload must not be sent: it would change again, or exceeds what is allowed."""
    again = project(patched, _plan(workload, patched).writes)
    if again[0] != again[1]:
        return "deciding again would change the object again"
    for path in plan.writes:
        texts = value_at(patched, path[:-1]) if path[-2:-1] == ("annotations",) else None
        if isinstance(texts, dict):
            sizes = {key: text for key, text in texts.items() if isinstance(text, str)}
            if annotations_bytes(sizes) > ANNOTATIONS_LIMIT_BYTES:
                return f"annotations would exceed {ANNOTATIONS_LIMIT_BYTES} bytes"
    return None


def _plan(workload: Workload, tree: dict[str, Any]) -> _Plan:
    """Decides what is written; planning the planned workload again changes nothing."""
    writes: dict[Path, str | int | None] = {}
    requester = None
    for part in workload.parts:
        said = value_at(tree, (*part.mark, "annotations"))
        requester = workload.subject.requester(_metadata_at(part, said), workload.metadata)
        writes[*part.mark, "annotations", _REQUESTED_BY] = requester
    writes |= _elsewhere(workload, tree, requester)
    deadline = _plan_deadline(workload, tree, writes)
    return _Plan(writes, requester, deadline, _plan_kueue(workload, tree, writes))


def _elsewhere(
    workload: Workload, tree: dict[str, Any], requester: str | None
) -> dict[Path, str | int | None]:
    """The requester where single pods would inherit another one; what a trusted controller made stays."""
    request, settings = workload.subject.request, workload.subject.settings
    if request.user_info.username in settings.trusted_controllers:
        return {}
    places = [path for place in workload.kind.also for path, _ in find(tree, place)]
    keys = [(*path, "annotations", _REQUESTED_BY) for path in places]
    return {key: requester for key in keys if value_at(tree, key) is not None}


def _metadata_at(part: Part, annotations: object) -> ObjectMeta:
    """The metadata that the pods of a part inherit."""
    texts = annotations if isinstance(annotations, dict) else {}
    return ObjectMeta(labels=part.metadata.labels, annotations=texts)


def _plan_deadline(
    workload: Workload, tree: dict[str, Any], writes: dict[Path, str | int | None]
) -> DeadlineDecision | None:
    """Decides the deadline of a kind that has a field for it."""
    kind, subject = workload.kind, workload.subject
    if kind.deadline is None:
        return None
    own = first(tree, kind.deadline)
    readable = isinstance(own, int) and not isinstance(own, bool)
    if own is not None and not readable:
        return None
    policy, scene = subject.selected.policy, subject.scene
    decision = workload_deadline(
        DeadlineInput(
            policy=policy,
            enforcing=is_enforcing(scene.profile, scene.enforcement),
            spec_seconds=own,
            existing=_text(value_at(tree, _DEADLINE)),
            kueue=is_queued(workload.metadata),
            scoped_quota=scene.scoped_quota,
        ),
        _controller(workload),
    )
    writes[_DEADLINE] = decision.value
    if decision.seconds is not None:
        writes[tuple(kind.deadline.split("."))] = decision.seconds
    return decision


def _plan_kueue(
    workload: Workload, tree: dict[str, Any], writes: dict[Path, str | int | None]
) -> KueueDecision:
    """Decides the limit that Kueue enforces on what ends by itself."""
    if not (workload.kind.run_once and is_queued(workload.metadata)):
        return KueueDecision()
    own = _text(value_at(tree, _KUEUE))
    labels = {} if own is None else {KUEUE_MAX_EXEC_TIME: own}
    decision = note_kueue_limit(labels, workload.subject.selected.policy, workload.subject.scene)
    if decision.value is not None:
        writes[_KUEUE] = decision.value
    return decision


def _controller(workload: Workload) -> ControllerDecision:
    """Who controls the workload itself."""
    request, settings = workload.subject.request, workload.subject.settings
    known = ClassSettings(settings.trusted_controllers)
    return controller_of(workload.metadata, request.user_info.creator(), request.namespace, known)


def _remarks(workload: Workload, plan: _Plan) -> Sequence[str]:
    """What the creator should know: of the workload, and of its pods, whose creator nobody reads."""
    policy, scene = workload.subject.selected.policy, workload.subject.scene
    remarks = [] if plan.deadline is None or plan.deadline.warning is None else [plan.deadline.warning]
    remarks += [] if plan.kueue.warning is None else [plan.kueue.warning]
    admitted = [pods_terms(workload, part) for part in workload.parts]
    remarks += [f"its pods: {replacement}" for one in admitted for replacement in one.replaced]
    for one in admitted:
        remarks += acting_remarks(one.terms, policy, scene, "its pods")
    return list(dict.fromkeys(remarks))


def pods_terms(workload: Workload, part: Part) -> Admitted:
    """The terms that the pods of a part will get."""
    metadata = part.metadata
    pod_class = class_of_part(workload, part).pod_class
    policy = workload.subject.selected.policy
    return admitted_terms(policy, pod_class, metadata.labels, metadata.annotations)


def class_of_part(workload: Workload, part: Part) -> ClassDecision:
    """The class that the pods of a part will have, once their controller makes them."""
    group, kind = workload.kind.controller
    reference = OwnerReference(f"{group}/v1" if group else "v1", kind, controller=True)
    metadata = ObjectMeta(labels=part.metadata.labels, owner_references=(reference,))
    pod = Pod(metadata, part.spec)
    return class_of(pod, None, workload.subject.request.namespace, ClassSettings())


def _text(value: object) -> str | None:
    """A text, None for anything else."""
    return value if isinstance(value, str) else None
