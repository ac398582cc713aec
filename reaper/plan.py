"""Decides what one cycle does: a pure function of verdicts, records, limits and the time.

It must not read a clock, a pod or Prometheus, and does nothing itself. The same function plans for a dry run
and for real. The order of its input does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct, structs

from policy.terms import Action
from policy.verdicts import Reason
from reaper.budget import choose, of_group
from reaper.groups import Group, groups_of
from reaper.limits import Limits
from reaper.outlook import Ceiling, Outlook, ceiling_of, left_alone, outlook_of
from reaper.records import Phase, Record, by_owner
from reaper.situation import Situation, holds_of
from reaper.steps import Change, Hold, Keep, Skip, Step
from reaper.subjects import Subject


class Plan(Struct, frozen=True, kw_only=True):
    """What to do: marks first, then actions.

    Attributes:
        steps: Changes of marks.
        keeps: Snoozes to be written as times.
        actions: Groups to act on, in this order.
        skips: Pods that are left alone although idle, or whatever they are.
        holds: Why the cycle as a whole does less.
        ceilings: The most that may be done to each pod that holds devices, by UID: that of its group.
    """

    steps: tuple[Step, ...] = ()
    keeps: tuple[Keep, ...] = ()
    actions: tuple[Group, ...] = ()
    skips: tuple[Skip, ...] = ()
    holds: tuple[Hold, ...] = ()
    ceilings: Mapping[str, Ceiling] = {}


def plan(
    subjects: Collection[Subject],
    records: Collection[Record],
    situation: Situation,
    limits: Limits,
    now: datetime,
) -> Plan:
    """Gives the plan of one cycle with complete observations."""
    holds = holds_of(situation, now)
    outlooks = [left_alone(one, one.skip or Reason.EXCLUDED) for one in subjects if not one.holds_devices]
    due: list[Group] = []
    ceilings: dict[str, Ceiling] = {}
    of_owners = by_owner(records)
    for group in groups_of(subjects):
        ceiling = ceiling_of(group, of_group(group, of_owners), situation, limits, now)
        ceilings.update(dict.fromkeys(group.uids, ceiling))
        found = outlook_of(group, ceiling, situation, limits, now)
        outlooks.extend(found)
        if all(outlook.due for outlook in found):
            due.append(structs.replace(group, action=ceiling.action))
        else:
            outlooks.extend(_held_by_peers(group, found))
    actions, skips = _choose(due, records, holds, situation, limits, now)
    steps = _allowed([outlook.step for outlook in outlooks if outlook.step], holds, situation)
    warned = {step.subject.pod.uid for step in steps if step.change is Change.WARN}
    skips.extend(_skip_of(outlook.step, outlook.skip, warned, holds) for outlook in outlooks if outlook.skip)
    return Plan(
        steps=tuple(sorted(steps, key=lambda step: step.subject.key)),
        keeps=_keeps(subjects, holds),
        actions=actions,
        skips=tuple(sorted(skips, key=lambda skip: skip.subject.key)),
        holds=holds,
        ceilings=ceilings,
    )


def _held_by_peers(group: Group, found: Iterable[Outlook]) -> list[Outlook]:
    return [
        Outlook(None, Skip(member, Reason.WITHIN_GRACE, "a pod of the same owner is not due yet"))
        for member, outlook in zip(group.members, found, strict=True)
        if outlook.due
    ]


def _choose(
    due: list[Group],
    records: Collection[Record],
    holds: tuple[Hold, ...],
    situation: Situation,
    limits: Limits,
    now: datetime,
) -> tuple[tuple[Group, ...], list[Skip]]:
    ready, skips = _without_waiting(due, records, situation, limits, now)
    if holds:
        held = holds[0]
        skips.extend(Skip(one, held.reason, held.sentence) for group in ready for one in group.members)
        return (), skips
    choice = choose(ready, records, situation.judged_devices, limits, now, situation.wanted)
    for group, reason, why in choice.left:
        skips.extend(Skip(member, reason, why) for member in group.members)
    return choice.taken, skips


def _without_waiting(
    due: Iterable[Group],
    records: Collection[Record],
    situation: Situation,
    limits: Limits,
    now: datetime,
) -> tuple[list[Group], list[Skip]]:
    by_uid = {record.pod_uid: record for record in records}
    ready: list[Group] = []
    skips: list[Skip] = []
    for group in due:
        waiting = [_wait(uid, by_uid.get(uid), situation, limits, now) for uid in sorted(group.uids)]
        found = next((wait for wait in waiting if wait is not None), None)
        if not all(member.may_act_now for member in group.members):
            found = Reason.OUTSIDE_WINDOW, ""
        if found is None:
            ready.append(group)
        else:
            skips.extend(Skip(member, *found) for member in group.members)
    return ready, skips


def _wait(
    uid: str, record: Record | None, situation: Situation, limits: Limits, now: datetime
) -> tuple[Reason, str] | None:
    again = situation.not_before.get(uid)
    if again is not None and now < again:
        return Reason.BACKING_OFF, f"tried again after {again:%H:%M:%SZ}"
    return waits(record, limits, now) if record is not None else None


def waits(record: Record, limits: Limits, now: datetime) -> tuple[Reason, str] | None:
    """Gives why a pod with this record is not acted on now; None if it may be tried (again)."""
    if record.phase is Phase.ACCEPTED:
        return Reason.TERMINATING, "an action on it was accepted already"
    if record.phase in {Phase.REVERTED, Phase.RESUMED}:
        return Reason.STOP_REVERTED, record.message
    if record.phase is Phase.GONE:
        return Reason.TERMINATING, "it was gone, or going, when its eviction was asked for"
    if record.phase is Phase.BLOCKED:
        reason, span = Reason.DISRUPTION_BUDGET, limits.budget_seconds
    elif record.phase is Phase.REFUSED:
        reason, span = Reason.BACKING_OFF, limits.refusal_seconds
    else:
        return None
    again = (record.completed_at or record.decided_at) + timedelta(seconds=span)
    return (reason, f"{record.message}; tried again after {again:%H:%M:%SZ}") if now < again else None


def _allowed(steps: list[Step], holds: tuple[Hold, ...], situation: Situation) -> list[Step]:
    if situation.pause.paused:
        return []
    if any(hold.freezes for hold in holds):
        # A sighting promises nothing to anybody, and without it `--once` would never come out of a brake.
        return [step for step in steps if step.change is Change.SIGHT]
    if any(hold.reason is Reason.QUIET_TIME for hold in holds):
        return [step for step in steps if step.change is not Change.WARN]
    return steps


def _skip_of(step: Step | None, skip: Skip, warned: Collection[str], holds: tuple[Hold, ...]) -> Skip:
    """Gives why a pod is left alone; a warning that a hold keeps back is held for that reason."""
    kept_back = step is not None and step.change is Change.WARN and skip.subject.pod.uid not in warned
    return Skip(skip.subject, holds[0].reason, holds[0].sentence) if kept_back and holds else skip


def _keeps(subjects: Iterable[Subject], holds: tuple[Hold, ...]) -> tuple[Keep, ...]:
    if any(hold.freezes for hold in holds):
        return ()
    found = [
        Keep(one, one.snooze.write, one.snooze.problem)
        for one in subjects
        if (one.snooze.write or one.snooze.problem)
        and one.ceiling is not Action.OBSERVE
        and one.holds_devices
    ]
    return tuple(sorted(found, key=lambda keep: keep.subject.key))
