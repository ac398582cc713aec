"""The plan of a cycle: what is warned, moved, acted on and left alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from policy.snooze import Snooze
from policy.terms import Action
from policy.verdicts import Reason, VerdictKind
from reaper.brakes import Brake
from reaper.limits import Limits
from reaper.marks import Mark
from reaper.pause import Pause
from reaper.records import Phase
from reaper.steps import Change
from tests.reaper.acting.made import (
    ACTIVE,
    AFTER,
    GRACE,
    IDLE,
    NOON,
    UNKNOWN,
    due_mark,
    due_subject,
    minutes,
    record_of_pod,
    subject_of,
    verdict_of,
)
from tests.reaper.acting.planning import DAEMON, FRESH, RUN, acted, changes, planned, skips

OTHER_STRETCH = Mark(NOON - timedelta(seconds=3 * AFTER), reclaim_at=NOON - minutes(1))

CASES = [
    pytest.param(subject_of(streak=1), None, Reason.NOT_CONFIRMED, id="one Idle verdict is not enough"),
    pytest.param(subject_of(streak=2), Change.WARN, Reason.WITHIN_GRACE, id="two in a row are warned"),
    pytest.param(subject_of(verdict=ACTIVE), None, None, id="an active pod is nobody's business"),
    pytest.param(subject_of(verdict=UNKNOWN), None, None, id="an Unknown pod is left alone"),
    pytest.param(
        subject_of(verdict=ACTIVE, mark=FRESH), Change.REMOVE, None, id="activity withdraws the warning"
    ),
    pytest.param(
        subject_of(verdict=UNKNOWN, mark=FRESH), Change.REMOVE, None, id="Unknown withdraws the warning"
    ),
    pytest.param(subject_of(mark=FRESH), None, Reason.WITHIN_GRACE, id="within the grace nothing changes"),
    pytest.param(
        subject_of(mark=OTHER_STRETCH), Change.WARN, Reason.WITHIN_GRACE, id="another stretch is warned anew"
    ),
    pytest.param(
        subject_of(mark=OTHER_STRETCH, streak=1),
        None,
        Reason.NOT_CONFIRMED,
        id="another stretch needs two verdicts too",
    ),
    pytest.param(
        subject_of(mark=OTHER_STRETCH, last_idle=NOON - minutes(1)),
        None,
        None,
        id="a stretch that this process saw without a break goes on",
    ),
    pytest.param(
        subject_of(ceiling=Action.WARN), Change.WARN, Reason.WARN_ONLY, id="under warn nothing is announced"
    ),
    pytest.param(
        subject_of(ceiling=Action.STOP), Change.WARN, Reason.WITHIN_GRACE, id="stop of a pod alone evicts it"
    ),
    pytest.param(
        subject_of(ceiling=Action.STOP, root=RUN),
        Change.WARN,
        Reason.NOT_STOPPABLE,
        id="stop of an owner that no way is known for only warns",
    ),
    pytest.param(subject_of(ceiling=Action.OBSERVE), None, Reason.OBSERVE_ONLY, id="observe writes nothing"),
    pytest.param(
        subject_of(ceiling=Action.OBSERVE, mark=FRESH),
        Change.REMOVE,
        Reason.OBSERVE_ONLY,
        id="loosened to observe, the warning goes",
    ),
    pytest.param(
        due_subject(ceiling=Action.WARN),
        Change.LOWER,
        Reason.WARN_ONLY,
        id="loosened to warn, the announced action is taken back",
    ),
    pytest.param(
        subject_of(mark=Mark(NOON - timedelta(seconds=AFTER))),
        Change.WARN,
        Reason.WITHIN_GRACE,
        id="raised to evict, the grace begins now",
    ),
    pytest.param(subject_of(skip=Reason.EXEMPT), None, Reason.EXEMPT, id="an exempt pod is left alone"),
    pytest.param(
        due_subject(skip=Reason.EXEMPT), Change.REMOVE, Reason.EXEMPT, id="exempt withdraws the warning"
    ),
    pytest.param(
        due_subject(skip=Reason.OPTED_OUT), Change.REMOVE, Reason.OPTED_OUT, id="a namespace opted out"
    ),
    pytest.param(
        due_subject(skip=Reason.DRY_RUN), Change.REMOVE, Reason.DRY_RUN, id="a namespace that runs dry"
    ),
    pytest.param(
        due_subject(skip=Reason.PLACEHOLDER),
        Change.REMOVE,
        Reason.PLACEHOLDER,
        id="a placeholder is left alone",
    ),
    pytest.param(
        due_subject(skip=Reason.EXCLUDED),
        Change.REMOVE,
        Reason.EXCLUDED,
        id="an excluded namespace is left alone",
    ),
    pytest.param(due_subject(skip=Reason.TERMINATING), None, Reason.TERMINATING, id="going: not written on"),
    pytest.param(due_subject(skip=Reason.FINISHED), None, Reason.FINISHED, id="finished: not written on"),
    pytest.param(
        due_subject(root=DAEMON), Change.REMOVE, Reason.OBSERVE_ONLY, id="DaemonSets are only reported"
    ),
    pytest.param(
        subject_of(snooze=Snooze(NOON + minutes(30))),
        Change.SIGHT,
        Reason.SNOOZED,
        id="snoozed before a warning: the start of the stretch is kept",
    ),
    pytest.param(
        subject_of(snooze=Snooze(NOON + minutes(30)), ceiling=Action.OBSERVE),
        None,
        Reason.SNOOZED,
        id="snoozed where nothing may be written",
    ),
    pytest.param(
        due_subject(snooze=Snooze(NOON + minutes(30))),
        Change.MOVE,
        Reason.SNOOZED,
        id="a snooze moves the time and keeps the warning",
    ),
    pytest.param(
        due_subject(may_act_now=False), None, Reason.OUTSIDE_WINDOW, id="outside of the policy's window"
    ),
]


@pytest.mark.parametrize(("subject", "change", "skip"), CASES)
def test_a_single_pod(subject: Any, change: Change | None, skip: Reason | None) -> None:
    """Each state of a pod leads to one change of its mark and one reason."""
    found = planned(subject)
    assert changes(found) == ({"a": change} if change else {})
    assert skips(found) == ({"a": skip} if skip else {})


def test_a_due_warning_is_acted_on() -> None:
    """Nothing is written then but the eviction itself."""
    found = planned(due_subject())
    assert acted(found) == ["a"]
    assert found.steps == ()
    assert found.skips == ()


def test_a_warning_announces_grace_from_now() -> None:
    """The mark says since when, and when."""
    (step,) = planned(subject_of()).steps
    assert step.mark == Mark(NOON - timedelta(seconds=AFTER), reclaim_at=NOON + timedelta(seconds=GRACE))


def test_a_pause_moves_every_announced_time_to_its_end_plus_grace() -> None:
    """Whoever looked during the pause gets the full grace."""
    resumed = Pause(paused=False, resumed_at=NOON - minutes(5))
    found = planned(due_subject(), pause=resumed)
    assert acted(found) == []
    assert [step.mark.reclaim_at for step in found.steps if step.mark] == [NOON + minutes(25)]


def test_a_lengthened_grace_counts_at_once() -> None:
    """An announced time that lies within the longer grace is moved."""
    mark = Mark(NOON - timedelta(seconds=AFTER), reclaim_at=NOON - minutes(1))
    found = planned(due_subject(mark=mark))
    assert acted(found) == []
    assert changes(found) == {"a": Change.MOVE}


HOLDS = [
    pytest.param({"pause": Pause(paused=True, reason="x")}, Reason.PAUSED, {}, id="somebody has paused it"),
    pytest.param(
        {"brake": Brake(engaged_at=NOON, sentence="x")}, Reason.BRAKE, {}, id="the brake is engaged"
    ),
    pytest.param(
        {"quiet_until": NOON + minutes(1)}, Reason.QUIET_TIME, {"busy": Change.REMOVE}, id="quiet time"
    ),
    pytest.param(
        {"slow_until": NOON + minutes(1)},
        Reason.BACKING_OFF,
        {"busy": Change.REMOVE, "new": Change.WARN},
        id="the API server asked to wait",
    ),
]


@pytest.mark.parametrize(("situation", "reason", "expected"), HOLDS)
def test_a_hold_stops_every_action(situation: Any, reason: Reason, expected: dict[str, Change]) -> None:
    """Pause and brake freeze marks too; the others only keep back what could hurt."""
    found = planned(
        due_subject("due"), subject_of("new"), subject_of("busy", ACTIVE, mark=due_mark()), **situation
    )
    assert acted(found) == []
    assert skips(found)["due"] is reason
    assert skips(found)["new"] is (Reason.WITHIN_GRACE if "new" in expected else reason)
    assert changes(found) == expected
    assert [hold.reason for hold in found.holds] == [reason]


RECORDS = [
    pytest.param(Phase.ACCEPTED, 600, Reason.TERMINATING, id="accepted once is accepted for ever"),
    pytest.param(Phase.BLOCKED, 4, Reason.DISRUPTION_BUDGET, id="a budget is left alone for minutes"),
    pytest.param(Phase.BLOCKED, 6, None, id="then it is asked again"),
    pytest.param(Phase.REFUSED, 59, Reason.BACKING_OFF, id="a refusal is left alone for an hour"),
    pytest.param(Phase.REFUSED, 61, None, id="then it is tried again"),
    pytest.param(Phase.PLANNED, 1, None, id="an answer that was lost is asked for again"),
    pytest.param(Phase.GONE, 600, Reason.TERMINATING, id="gone is never tried again"),
]


@pytest.mark.parametrize(("phase", "ago", "reason"), RECORDS)
def test_a_record_of_the_pod_itself(phase: Phase, ago: int, reason: Reason | None) -> None:
    """How far an earlier try came decides when the next may be."""
    record = record_of_pod("uid-team-a-a", phase=phase, at=NOON - minutes(ago))
    found = planned(due_subject("a"), records=[record])
    assert acted(found) == ([] if reason else ["a"])
    assert skips(found) == ({"a": reason} if reason else {})


def test_limits_take_the_most_waste_first() -> None:
    """Per namespace and per cycle; who is left is told by which limit."""
    subjects = [due_subject(f"p{number}", devices=number, namespace="team-a") for number in range(1, 5)]
    others = [due_subject(f"q{number}", devices=1, namespace=f"team-{number}") for number in range(9)]
    found = planned(*subjects, *others)
    assert acted(found)[:2] == ["p4", "p3"]
    assert len(found.actions) == 5
    assert skips(found)["p1"] is Reason.LIMIT_REACHED


def test_the_device_limit_lets_the_largest_candidate_pass_alone() -> None:
    """Ten percent of eighty devices are eight: a run of sixteen goes, and nothing beside it."""
    large = due_subject("large", devices=16)
    found = planned(large, due_subject("small"), limits=Limits(), judged_devices=80)
    assert acted(found) == ["large"]
    assert skips(found)["small"] is Reason.LIMIT_REACHED


def test_small_candidates_do_not_starve_a_large_one() -> None:
    """What the large one waits for is not used up by those behind it."""
    spent = [record_of_pod("former", devices=4, at=NOON - minutes(30))]
    found = planned(
        due_subject("large", devices=16),
        due_subject("small"),
        records=spent,
        limits=Limits(),
        judged_devices=80,
    )
    assert acted(found) == []
    later = planned(
        due_subject("large", devices=16), due_subject("small"), limits=Limits(), judged_devices=80
    )
    assert acted(later) == ["large"]


def test_once_sees_first_then_warns() -> None:
    """A run without memory warns only what an earlier run wrote down."""
    first = planned(subject_of(streak=1), once=True)
    assert changes(first) == {"a": Change.SIGHT}
    (step,) = first.steps
    second = planned(subject_of(streak=1, mark=step.mark), once=True)
    assert changes(second) == {"a": Change.WARN}


def test_once_sees_even_while_the_brake_holds() -> None:
    """Otherwise every run would find the same surprise and the brake would hold for ever."""
    held = planned(subject_of(streak=1), once=True, brake=Brake(engaged_at=NOON, sentence="x"))
    assert changes(held) == {"a": Change.SIGHT}
    paused = planned(subject_of(streak=1), once=True, pause=Pause(paused=True, reason="x"))
    assert changes(paused) == {}


def test_a_snooze_is_written_as_a_time() -> None:
    """Where the reaper may write at all."""
    snoozed = subject_of(snooze=Snooze(NOON + minutes(30), "2025-03-01T12:30:00Z"))
    assert [keep.text for keep in planned(snoozed).keeps] == ["2025-03-01T12:30:00Z"]
    observed = subject_of(snooze=snoozed.snooze, ceiling=Action.OBSERVE)
    assert planned(observed).keeps == ()


def test_a_verdict_without_a_start_is_not_trusted_with_an_old_warning() -> None:
    """No start, no proof that the stretch is the same."""
    verdict = verdict_of(VerdictKind.IDLE)
    broken = type(verdict)(verdict.kind, verdict.reason, None, False, verdict.evidence, "")
    assert acted(planned(due_subject(verdict=broken))) == []
    assert acted(planned(due_subject(verdict=IDLE))) == ["a"]
