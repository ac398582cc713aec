"""Decides how a stop is undone, from its record and the owner as it is now; writes nothing, asks nobody."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from policy.durations import format_time
from policy.errors import FormatError
from reaper.reclaims import Reclaim
from reaper.records import Phase
from reaper.stops import RESUMER, STOPPED, Stop
from reaper.stopways import JOB, REPLICAS, merged, patch_of, value_in
from reaper.undoing import undoer

DEADLINE: Final = "/spec/activeDeadlineSeconds"
SHORT: Final = {
    "deploy": "deployment",
    "rs": "replicaset",
    "sts": "statefulset",
    "po": "pod",
    "isvc": "inferenceservice",
}
UNDOABLE: Final = frozenset({Phase.PLANNED, Phase.ACCEPTED, Phase.REVERTED, Phase.RESUMED})
"""A planned stop may have been carried out by a process that was killed right after."""


class Result(StrEnum):
    """What came of one stop."""

    RESUMED = "resumed"
    WOULD_RESUME = "would-resume"
    RUNNING = "running"
    CHANGED = "changed"
    GONE = "gone"
    FAILED = "failed"


class Stopped(Struct, frozen=True, kw_only=True):
    """One owner that was stopped.

    Attributes:
        namespace: Where it lives.
        stop: What was changed.
        at: When.
        devices: Of all its pods that went.
        names: What a person may call it: `kind/name` of itself and of the root owner, in lower-case kinds.
    """

    namespace: str
    stop: Stop
    at: datetime
    devices: int
    names: frozenset[str] = frozenset()

    @property
    def owner(self) -> str:
        """As tables name it."""
        return f"{self.stop.kind} {self.stop.name}"


class Wanted(Struct, frozen=True):
    """An owner as a person names it: `deployment/web`, `deploy/web` or `jobs.batch/train`."""

    kind: str
    name: str


class Decision(Struct, frozen=True):
    """What to do about one stop: a merge patch, or None, and what to say."""

    result: Result
    sentence: str
    patch: dict[str, Any] | None = None


def parse_wanted(text: str) -> Wanted:
    """Reads KIND/NAME; raises FormatError."""
    kind, slash, name = text.partition("/")
    kind = kind.partition(".")[0].lower()
    if not slash or not kind or not name or "/" in name:
        raise FormatError(f"must be KIND/NAME such as deployment/web, is {text!r}")
    return Wanted(SHORT.get(kind, kind), name)


def stopped_in(reclaims: Collection[Reclaim], since: datetime | None = None) -> tuple[Stopped, ...]:
    """Gives the last stop of each owner, the newest first."""
    gathered: dict[tuple[str, str], list[Reclaim]] = {}
    for one in reclaims:
        stop = one.record.stop
        if stop is not None and one.record.phase in UNDOABLE:
            gathered.setdefault((one.record.namespace, stop.uid), []).append(one)
    found = [_last(some) for some in gathered.values()]
    wanted = [one for one in found if since is None or one.at >= since]
    return tuple(sorted(wanted, key=lambda one: (one.at, one.namespace, one.stop.name), reverse=True))


def _last(reclaims: Iterable[Reclaim]) -> Stopped:
    ordered = sorted(reclaims, key=lambda one: one.record.acted_at)
    last = ordered[-1].record
    if last.stop is None:
        raise ValueError("a reclaim without a stop")
    action = [one for one in ordered if one.record.decided_at == last.decided_at]
    names = {f"{last.stop.kind}/{last.stop.name}", f"{last.stop.resource}/{last.stop.name}"}
    names |= {one.owner.replace(" ", "/", 1) for one in action}
    return Stopped(
        namespace=last.namespace,
        stop=last.stop,
        at=last.acted_at,
        devices=sum(one.record.devices for one in action),
        names=frozenset(_lower(name) for name in names),
    )


def is_wanted(one: Stopped, wanted: Wanted | None) -> bool:
    """True if a person means this owner; None means all."""
    if wanted is None:
        return True
    kinds = {wanted.kind, wanted.kind.removesuffix("s")}
    return any(f"{kind}/{wanted.name}" in one.names for kind in kinds)


def decide(one: Stopped, content: Mapping[str, Any] | None, *, dry_run: bool = False) -> Decision:
    """Gives what undoes a stop; None as content means that the owner is gone."""
    stop = one.stop
    if content is None or value_in(content, "/metadata/uid") != stop.uid:
        return Decision(Result.GONE, f"{one.owner} is gone: nothing to resume")
    noted = STOPPED in (value_in(content, "/metadata/annotations") or {})
    if not stop.still_set(content):
        by = undoer(content, stop.field)
        if not noted:
            return Decision(Result.RUNNING, "runs again already")
        if by == RESUMER:
            return Decision(Result.RUNNING, "runs again already")
        return Decision(Result.CHANGED, f"left as it is: {by} has changed it since")
    if not noted:
        return Decision(Result.CHANGED, "left as it is: it was resumed before, and somebody else stopped it")
    return _resumption(stop, content, dry_run=dry_run)


def _resumption(stop: Stop, content: Mapping[str, Any], *, dry_run: bool) -> Decision:
    former = msgspec.json.decode(stop.former)
    identity = {
        "metadata": {
            "uid": stop.uid,
            "resourceVersion": value_in(content, "/metadata/resourceVersion"),
            "annotations": {STOPPED: None},
        }
    }
    parts = [patch_of(stop.remember, former)]
    if stop.remember != stop.field:
        parts.append(patch_of(stop.field, None))
    said = f"{stop.remember.rpartition('/')[2]} {_shown(former)}" if stop.field == REPLICAS else "runs again"
    deadline = _deadline(stop, content)
    if deadline is not None:
        parts.append(patch_of(DEADLINE, deadline))
        said = f"runs again, with {deadline} s left of its deadline"
    result = Result.WOULD_RESUME if dry_run else Result.RESUMED
    return Decision(result, said, merged(identity, *parts))


def _deadline(stop: Stop, content: Mapping[str, Any]) -> int | None:
    """Gives what is left of a Job's deadline: its clock begins anew, and time it had is not given twice."""
    now = value_in(content, DEADLINE)
    is_job = (stop.kind, stop.resource) == (JOB.kind, JOB.resource)
    if not is_job or not isinstance(now, int) or not stop.used_seconds:
        return None
    return max(now - stop.used_seconds, 1)


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _lower(name: str) -> str:
    kind, _, rest = name.partition("/")
    return f"{kind.lower()}/{rest}"


def document(one: Stopped, decision: Decision) -> dict[str, Any]:
    """One stop and what came of it, as JSON."""
    return {
        "namespace": one.namespace,
        "kind": one.stop.kind,
        "name": one.stop.name,
        "uid": one.stop.uid,
        "stoppedAt": format_time(one.at),
        "devices": one.devices,
        "result": decision.result.value,
        "message": decision.sentence,
    }
