"""Decides what the verdicts of one group lead to; must not know other groups, cycle limits or a clock."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from msgspec import Struct

from policy.terms import Action, Terms, weakest
from policy.verdicts import Reason
from reaper.groups import Group
from reaper.limits import Limits
from reaper.marks import CLOCK_SKEW, Mark, has_any, same_stretch
from reaper.records import Phase, Record, other_actions
from reaper.situation import Situation
from reaper.steps import Change, Skip, Step
from reaper.stopways import GOES_ON, Ways, is_kueue
from reaper.subjects import Subject


class Outlook(Struct, frozen=True):
    """What is next for one pod.

    Attributes:
        step: The change of its mark.
        skip: Why nothing is done to it; None if it is Active or Unknown, or due.
        due: True if the action may come now, as far as this pod goes.
    """

    step: Step | None = None
    skip: Skip | None = None
    due: bool = False


class Ceiling(Struct, frozen=True):
    """The most that may be done to a group, and why that is less than its terms allow."""

    action: Action
    lowered_by: Reason | None = None

    @property
    def acts(self) -> bool:
        """True if it goes beyond a warning."""
        return self.action.rank > Action.WARN.rank


class _Common(Struct, frozen=True, kw_only=True):
    """What all members of a group share."""

    restless: Subject | None
    snoozed_until: datetime | None
    ceiling: Ceiling


class _Scene(Struct, frozen=True, kw_only=True):
    """The arguments that every decision takes."""

    common: _Common
    situation: Situation
    limits: Limits
    now: datetime


def outlook_of(
    group: Group, ceiling: Ceiling, situation: Situation, limits: Limits, now: datetime
) -> tuple[Outlook, ...]:
    """Gives what is next for each member of a group, in their order."""
    common = _common(group, ceiling, now)
    scene = _Scene(common=common, situation=situation, limits=limits, now=now)
    return tuple(_decide(member, scene) for member in group.members)


def left_alone(subject: Subject, reason: Reason, sentence: str = "") -> Outlook:
    """Gives the outlook of a pod that is skipped: its mark goes."""
    return Outlook(_removal(subject, reason), Skip(subject, reason, sentence))


def due_time(mark: Mark, terms: Terms, resumed_at: datetime | None) -> datetime:
    """Gives when the action of a warning is due.

    Never within a grace that was lengthened, or that a pause covered.
    """
    latest = [mark.reclaim_at or mark.idle_since, mark.idle_since + terms.after.delta + terms.grace.delta]
    if resumed_at is not None:
        latest.append(resumed_at + terms.grace.delta)
    return whole(max(latest))


def latest_due(mark: Mark, terms: Terms, resumed_at: datetime | None, now: datetime) -> datetime:
    """Gives the latest time that a warning given now would name.

    One that names a later time was given under terms that hold no more, such as a grace or a snooze beyond
    today's bounds.
    """
    return max(whole(now + terms.grace.delta), due_time(Mark(mark.idle_since), terms, resumed_at))


def whole(time: datetime) -> datetime:
    """Rounds up to whole seconds, as annotations hold them."""
    cut = time.replace(microsecond=0)
    return cut if cut == time else cut + timedelta(seconds=1)


def ceiling_of(
    group: Group, records: Collection[Record], situation: Situation, limits: Limits, now: datetime
) -> Ceiling:
    """Gives the most that may be done to a group, from its terms and the records of its owners."""
    lowest = weakest(group.action, *(member.ceiling for member in group.members))
    if lowest.rank <= Action.WARN.rank:
        return Ceiling(lowest)
    since = now - timedelta(seconds=limits.owner_seconds)
    if other_actions(records, group.uids, since) >= limits.actions_per_owner:
        return Ceiling(Action.WARN, Reason.OWNER_RECREATES)
    if lowest is not Action.STOP or _ends_for_good(group):
        return Ceiling(Action.EVICT)
    if any(record.phase is Phase.REVERTED for record in records):
        return Ceiling(Action.WARN, Reason.STOP_REVERTED)
    if not all(can_stop(member, situation.ways) for member in group.members):
        return Ceiling(Action.WARN, Reason.NOT_STOPPABLE)
    return Ceiling(Action.STOP)


def can_stop(member: Subject, ways: Ways) -> bool:
    """True if a way to stop the pod's owner is known; whether it can be gone is seen right before."""
    root = member.root
    kueue = bool(ways.rows) and is_kueue(member.pod.labels)
    starts_others = bool(ways.rows) and (root.group, root.kind) in GOES_ON
    return kueue or starts_others or ways.of(root.group, root.kind) is not None


def _ends_for_good(group: Group) -> bool:
    """True for pods that nobody makes again: evicting them is the way that keeps them stopped."""
    return all(one.root.kind == "Pod" and not is_kueue(one.pod.labels) for one in group.members)


def _common(group: Group, ceiling: Ceiling, now: datetime) -> _Common:
    restless = [one for one in group.members if not one.idle or one.skip not in {None, Reason.SNOOZED}]
    snoozes = [one.snooze.until for one in group.members if one.snooze.until and one.snooze.until > now]
    return _Common(
        restless=restless[0] if restless else None,
        snoozed_until=max(snoozes, default=None),
        ceiling=ceiling,
    )


def _decide(member: Subject, scene: _Scene) -> Outlook:
    if member.skip is not None and member.skip is not Reason.SNOOZED:
        return left_alone(member, member.skip)
    if not member.idle or member.terms is None:
        reason = member.verdict.reason if member.verdict else Reason.NO_SERIES
        return Outlook(_removal(member, reason))
    if member.root.untouchable:
        return left_alone(member, Reason.OBSERVE_ONLY, f"pods of a {member.root.kind} are only reported")
    if scene.common.restless is not None:
        other = scene.common.restless
        return left_alone(
            member, Reason.PEER_NOT_IDLE, f"{other.pod.name} of {member.root} is {_state(other)}"
        )
    mark = member.mark if member.mark is not None and _continues(member, member.mark) else None
    if scene.common.snoozed_until is not None:
        return _snoozed(member, mark, scene.common.snoozed_until, scene)
    if scene.common.ceiling.action is Action.OBSERVE:
        return left_alone(member, Reason.OBSERVE_ONLY)
    if mark is None or not mark.warned:
        return _unwarned(member, mark, member.terms, scene)
    return _warned(member, mark, member.terms, scene)


def _removal(subject: Subject, reason: Reason) -> Step | None:
    marked = subject.mark is not None or has_any(subject.pod)
    gone = reason in {Reason.TERMINATING, Reason.FINISHED}
    return Step(Change.REMOVE, subject, None, reason) if marked and not gone else None


def _continues(member: Subject, mark: Mark) -> bool:
    return (
        member.verdict is not None
        and member.terms is not None
        and same_stretch(mark, member.verdict, member.terms, member.last_idle)
    )


def _state(subject: Subject) -> str:
    if subject.skip is not None:
        return subject.skip.value
    verdict = subject.verdict
    return f"{verdict.kind.value} ({verdict.reason.value})" if verdict else "not judged"


def _snoozed(member: Subject, mark: Mark | None, until: datetime, scene: _Scene) -> Outlook:
    skip = Skip(member, Reason.SNOOZED, f"kept until {until:%Y-%m-%d %H:%MZ}")
    if mark is None and scene.common.ceiling.action is not Action.OBSERVE:
        # A snooze is bounded by the start of its stretch, which the metrics forget sooner than that.
        return Outlook(Step(Change.SIGHT, member, _sighting(member, scene.now)), skip)
    if mark is None or mark.reclaim_at is None or mark.reclaim_at >= until:
        return Outlook(None, skip)
    moved = Mark(mark.idle_since, reclaim_at=until)
    return Outlook(_step(Change.MOVE, member, moved, Reason.SNOOZED, scene), skip)


def _unwarned(member: Subject, sighting: Mark | None, terms: Terms, scene: _Scene) -> Outlook:
    since = _idle_since(member, scene.now)
    once = scene.situation.once
    if sighting is None and (once or member.streak < scene.limits.idle_verdicts):
        step = Step(Change.SIGHT, member, _sighting(member, scene.now)) if once else None
        return Outlook(step, Skip(member, Reason.NOT_CONFIRMED))
    reclaim_at = None
    if scene.common.ceiling.acts:
        reclaim_at = whole(scene.now + terms.grace.delta)
    skip = _waiting(member, reclaim_at, scene)
    return Outlook(_step(Change.WARN, member, Mark(since, reclaim_at=reclaim_at), skip.reason, scene), skip)


def _warned(member: Subject, mark: Mark, terms: Terms, scene: _Scene) -> Outlook:
    if not scene.common.ceiling.acts:
        skip = _waiting(member, None, scene)
        lowered = Step(Change.LOWER, member, Mark(mark.idle_since), skip.reason)
        return Outlook(lowered if mark.reclaim_at else None, skip)
    latest = latest_due(mark, terms, scene.situation.pause.resumed_at, scene.now)
    if mark.reclaim_at is None or mark.reclaim_at > latest + CLOCK_SKEW:
        # Nobody was told of an action before, or of one under bounds that were laxer: a new grace begins.
        again = Mark(mark.idle_since, reclaim_at=latest)
        skip = _waiting(member, again.reclaim_at, scene)
        return Outlook(_step(Change.WARN, member, again, skip.reason, scene), skip)
    due_at = due_time(mark, terms, scene.situation.pause.resumed_at)
    if due_at > mark.reclaim_at:
        moved = Mark(mark.idle_since, reclaim_at=due_at)
        step = _step(Change.MOVE, member, moved, Reason.PAUSED, scene)
        return Outlook(step, _waiting(member, due_at, scene))
    if mark.reclaim_at > scene.now:
        return Outlook(None, _waiting(member, mark.reclaim_at, scene))
    return Outlook(due=True)


def _waiting(member: Subject, reclaim_at: datetime | None, scene: _Scene) -> Skip:
    if reclaim_at is not None:
        return Skip(member, Reason.WITHIN_GRACE, f"until {reclaim_at:%Y-%m-%d %H:%MZ}")
    return Skip(member, scene.common.ceiling.lowered_by or Reason.WARN_ONLY)


def _step(change: Change, member: Subject, mark: Mark, reason: Reason, scene: _Scene) -> Step:
    """Gives a change that speaks of what is to come."""
    return Step(change, member, mark, reason, scene.common.ceiling.action)


def _sighting(member: Subject, now: datetime) -> Mark:
    """Gives the mark of a pod seen Idle; it is told from a copied one by not being older than its pod."""
    return Mark(max(_idle_since(member, now), member.pod.created), warned=False)


def _idle_since(member: Subject, now: datetime) -> datetime:
    """Gives the earliest known start of the stretch."""
    starts = [
        member.verdict.idle_since if member.verdict else None,
        member.mark.idle_since if member.mark and _continues(member, member.mark) else None,
    ]
    return min((start for start in starts if start is not None), default=now)
