"""The sentences people read in Events, logs and records; must not know how they are delivered."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from policy.counting import counted
from policy.keys import Annotation
from policy.terms import Action
from policy.verdicts import REASONS, Reason
from reaper.fates import Fate
from reaper.marks import Mark
from reaper.owners import Root
from reaper.subjects import Subject


class EventReason(StrEnum):
    """Reasons of Events on pods."""

    IDLE_WARNING = "GPUIdleWarning"
    WARNING_WITHDRAWN = "GPUIdleWarningWithdrawn"
    RECLAIM_MOVED = "GPUReclaimMoved"
    EVICTED = "GPUIdleEvicted"
    EVICTION_BLOCKED = "GPUEvictionBlocked"
    EVICTION_REFUSED = "GPUEvictionRefused"
    NOT_WRITABLE = "GPUWarningNotWritten"
    KEEP_UNTIL = "GPUKeepUntil"
    DEADLINE_APPROACHING = "DeadlineApproaching"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    STOPPED = "GPUIdleStopped"
    STOP_REVERTED = "GPUStopReverted"
    DEADLINE_GIVEN = "GPUDeadlineGiven"


class Announced(Struct, frozen=True):
    """What a warning announces: what is done, and in a sentence what comes of it."""

    done: str = "evicted"
    consequence: str = ""


EVICTION = Announced()
WORTH_SAYING = frozenset({Reason.OWNER_RECREATES, Reason.STOP_REVERTED, Reason.NOT_STOPPABLE})


def announced_of(action: Action, root: Root, fate: Fate | None = None) -> Announced:
    """Gives what is announced for a pod of an owner; `fate` is what an eviction does to its Job."""
    if action is Action.STOP:
        back = f" {root.kind} {root.name} is stopped as a whole; {command_to_resume(root)} brings it back."
        return Announced("stopped", back)
    return Announced(consequence=f" {fate.sentence}" if fate is not None else "")


def command_to_resume(root: Root) -> str:
    """Gives the command that undoes a stop."""
    return f"gpu-tenure resume {root.kind.lower()}/{root.name} -n {root.namespace}"


def clock(time: datetime, now: datetime) -> str:
    """Gives a time of today as `09:12Z`, of another day with its date."""
    return f"{time:%H:%MZ}" if time.date() == now.date() else f"{time:%Y-%m-%d %H:%MZ}"


def devices(count: int) -> str:
    """Gives `1 GPU` or `2 GPUs`."""
    return counted(count, "GPU")


def idleness(subject: Subject, mark: Mark, now: datetime) -> str:
    """Says what is idle, since when, and how that is known."""
    known = f" ({subject.verdict.sentence})" if subject.verdict and subject.verdict.sentence else ""
    return f"{devices(subject.devices)} idle since {clock(mark.idle_since, now)}{known}."


def warning(
    subject: Subject,
    mark: Mark,
    contact: str,
    now: datetime,
    reason: Reason | None = None,
    announced: Announced = EVICTION,
) -> str:
    """Says what will happen, when, and how to keep the pod; or for which reason nothing will."""
    pod, parts = subject.pod, [idleness(subject, mark, now)]
    if mark.reclaim_at is None:
        why = f" {REASONS[reason]}" if reason in WORTH_SAYING else ""
        parts.append(f"This is only a warning, nothing will be done to the pod.{why}")
    else:
        parts.append(f"Will be {announced.done} at {clock(mark.reclaim_at, now)}.{announced.consequence}")
        parts.append(
            f"To keep it: kubectl annotate pod {pod.name} -n {pod.namespace} {Annotation.KEEP_UNTIL}=4h."
        )
    return _joined(*parts, contact)


def withdrawn(reason: Reason | None) -> str:
    """Says why a warning does not count any more."""
    why = f": {REASONS[reason]}" if reason else "."
    return f"The warning is withdrawn{why}"


def moved(
    subject: Subject,
    mark: Mark,
    reason: Reason | None,
    contact: str,
    now: datetime,
    announced: Announced = EVICTION,
) -> str:
    """Says that the time of action is later than was announced."""
    why = (
        "as keep-until asks"
        if reason is Reason.SNOOZED
        else "because reclaiming was paused, or grace was lengthened"
    )
    when = clock(mark.reclaim_at, now) if mark.reclaim_at else "no time"
    return _joined(
        idleness(subject, mark, now),
        f"If it stays idle it will be {announced.done} at {when}, {why}.",
        contact,
    )


def lowered(reason: Reason) -> str:
    """Says that the announced action will not come."""
    return f"Nothing will be done to it: {REASONS[reason]}"


def evicted(subject: Subject, mark: Mark, contact: str, now: datetime) -> str:
    """Says what was done and why."""
    return _joined(idleness(subject, mark, now), "Evicted.", how_to_get_back(subject.root), contact)


def stopped(subject: Subject, mark: Mark, contact: str, now: datetime) -> str:
    """Says that the owner was stopped, and why."""
    root = subject.root
    back = f"To get it back: {command_to_resume(root)}."
    return _joined(idleness(subject, mark, now), f"{root.kind} {root.name} was stopped.", back, contact)


def reverted(kind: str, name: str, by: str) -> str:
    """Says that a stop did not last."""
    before = f"{kind} {name} was stopped because its GPUs were idle, and {by} started it again."
    return f"{before} It is not stopped again."


def late_deadline(kind: str, policy: str, ends_at: datetime, now: datetime) -> str:
    """Says that an object without a deadline has got one."""
    return (
        f"Was created without a deadline, which policy {policy} demands: "
        f"this {kind} ends at {clock(ends_at, now)}, whatever it does."
    )


def blocked(message: str, again: datetime, now: datetime, done: str = "evicted") -> str:
    """Says that a PodDisruptionBudget keeps the pod."""
    return f"Not {done}: {_ended(message)} Tried again after {clock(again, now)}."


def refused(message: str, again: datetime, now: datetime, done: str = "evicted") -> str:
    """Says that the API server refused for a reason that a retry does not change."""
    return (
        f"Not {done}, an administrator should look: {_ended(message)} Tried again after {clock(again, now)}."
    )


def held_in_memory(
    subject: Subject, mark: Mark, contact: str, now: datetime, announced: Announced = EVICTION
) -> str:
    """Says that the warning counts although it could not be written on the pod."""
    return _joined(
        warning(subject, mark, "", now, announced=announced),
        "The pod's annotations are full: this Event is the only sign of the warning.",
        contact,
    )


def how_to_get_back(root: Root, action: Action = Action.EVICT) -> str:
    """Says what brings the work back."""
    if action is Action.STOP:
        return f"To get it back: {command_to_resume(root)}."
    if root.kind == "Pod":
        return "To get it back: create the pod again."
    return f"{root.kind} {root.name} may create it again by itself."


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
