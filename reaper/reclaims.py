"""GPUReclaims as people read them: who lost what, why, and how to get it back; knows no cycle."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from policy.durations import format_time, readable_time
from reaper.aftermath import reclaimed_seconds
from reaper.endings import Ended
from reaper.records import Record, parse_record

HOUR = 3600.0
_NAMES = {
    "idle_since": "idleSince",
    "warned_at": "warnedAt",
    "how_to_get_back": "howToGetBack",
    "logs_url": "logsURL",
}


class Reclaim(Struct, frozen=True, kw_only=True):
    """One record, with all that it says.

    Attributes:
        record: What planning reads of it.
        action: `evict` or `stop`.
        node: Where the pod ran; empty if nobody knows.
        owner: Its root owner, as `Job train`; the pod itself if it had none.
        requester: Who asked for it; empty if nobody knows.
        policy: The policy that applied.
        reason: The verdict's.
        sentence: How it was known.
        idle_since: The start of the idle stretch.
        warned_at: When its user was warned, if the process that acted knew.
        containers: How its containers ended, as far as that was seen.
        how_to_get_back: In a sentence.
        logs_url: Where its logs are; empty if nobody said.
    """

    record: Record
    action: str
    node: str = ""
    owner: str = ""
    requester: str = ""
    policy: str = ""
    reason: str = ""
    sentence: str = ""
    idle_since: datetime | None = None
    warned_at: datetime | None = None
    containers: tuple[Ended, ...] = ()
    how_to_get_back: str = ""
    logs_url: str = ""

    def reclaimed_hours(self, now: datetime) -> float:
        """Gives the device-hours that it has given back so far."""
        return reclaimed_seconds([self.record], self.record.decided_at, now) / HOUR


class _Pod(Struct, frozen=True):
    node: str = ""


class _Owner(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Verdict(Struct, frozen=True):
    reason: str = ""
    sentence: str = ""


class _Spec(Struct, frozen=True, rename=_NAMES):
    action: str = ""
    pod: _Pod = _Pod()
    owner: _Owner = _Owner()
    verdict: _Verdict = _Verdict()
    requester: str = ""
    policy: str = ""
    idle_since: str | None = None
    warned_at: str | None = None
    how_to_get_back: str = ""
    logs_url: str = ""


class _Container(Struct, frozen=True, rename="camel"):
    name: str
    exit_code: int
    reason: str = ""
    finished_at: str | None = None


class _Status(Struct, frozen=True):
    containers: tuple[_Container, ...] | None = None


class _Object(Struct, frozen=True):
    spec: _Spec = _Spec()
    status: _Status | None = None


def parse_reclaim(raw: msgspec.Raw | bytes) -> Reclaim:
    """Reads a GPUReclaim.

    Raises:
        ValueError: it is not one of ours in shape (msgspec.DecodeError: or not JSON of that form).
    """
    record = parse_record(raw)
    found = msgspec.json.decode(raw, type=_Object)
    spec, containers = found.spec, (found.status or _Status()).containers or ()
    return Reclaim(
        record=record,
        action=record.action.value,
        node=spec.pod.node,
        owner=f"{spec.owner.kind} {spec.owner.name}".strip(),
        requester=spec.requester,
        policy=spec.policy,
        reason=spec.verdict.reason,
        sentence=spec.verdict.sentence,
        idle_since=readable_time(spec.idle_since),
        warned_at=readable_time(spec.warned_at),
        containers=tuple(
            Ended(one.name, one.exit_code, one.reason, readable_time(one.finished_at)) for one in containers
        ),
        how_to_get_back=spec.how_to_get_back,
        logs_url=spec.logs_url if spec.logs_url.startswith(("https://", "http://")) else "",
    )


def since(reclaims: Iterable[Reclaim], start: datetime) -> list[Reclaim]:
    """Gives the records of actions decided at or after a time, the newest first."""
    found = [one for one in reclaims if one.record.decided_at >= start]
    return sorted(found, key=lambda one: (one.record.decided_at, one.record.name), reverse=True)


def document(one: Reclaim, now: datetime) -> dict[str, Any]:
    """One record as JSON: times in RFC 3339, `reclaimedDeviceHours` as of now."""
    record = one.record
    return {
        "namespace": record.namespace,
        "pod": record.pod_name,
        "uid": record.pod_uid,
        "node": one.node or None,
        "owner": one.owner or None,
        "requester": one.requester or None,
        "devices": record.devices,
        "action": one.action,
        "phase": record.phase.value,
        "message": record.message,
        "policy": one.policy or None,
        "reason": one.reason or None,
        "sentence": one.sentence,
        "idleSince": _time(one.idle_since),
        "warnedAt": _time(one.warned_at),
        "decidedAt": _time(record.decided_at),
        "completedAt": _time(record.completed_at),
        "endedAt": _time(record.ended_at),
        "returnedAt": _time(record.returned_at),
        "activeAgainAt": _time(record.active_again_at),
        "containers": [
            {
                "name": each.name,
                "exitCode": each.exit_code,
                "reason": each.reason or None,
                "finishedAt": _time(each.finished_at),
            }
            for each in one.containers
        ],
        "reclaimedDeviceHours": round(one.reclaimed_hours(now), 3),
        "howToGetBack": one.how_to_get_back,
        "logsURL": one.logs_url or None,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)
