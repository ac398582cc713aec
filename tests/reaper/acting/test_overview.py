"""What `gpu-tenure status` says of pods: order, reasons, which switch decides, and what is next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from policy.keys import Enforcement
from policy.profile import Profile
from policy.snooze import Snooze
from policy.terms import Action
from policy.verdicts import Reason, VerdictKind
from reaper.brakes import Brake
from reaper.glance import with_verdict
from reaper.limits import Limits
from reaper.marks import Mark
from reaper.overview import Look, Next, Row, document, rows_of
from reaper.owners import Root
from reaper.pause import Pause
from reaper.situation import Situation
from reaper.stopways import Ways, ways_of
from reaper.subjects import Subject
from reaper.switches import Switch, Switches, decides, switches_of
from tests.reaper.acting.made import (
    ACTIVE,
    AFTER,
    ENFORCED,
    NOON,
    TEAM_A,
    UNKNOWN,
    due_subject,
    minutes,
    subject_of,
    verdict_of,
)

RUNNING = Pause(paused=False)
JOB = Root("batch/v1", "Job", "team-a", "train", "job-uid")
LOUD = NOON + minutes(5)
QUIET = {"quiet_until": LOUD}
GRACE = Mark(NOON - timedelta(seconds=AFTER) - minutes(20), reclaim_at=NOON + minutes(10))


def looked(
    *subjects: Subject,
    pause: Pause = RUNNING,
    brake: bool = False,
    situation: Mapping[str, Any] = {},
    **more: Any,
) -> dict[str, Row]:
    """Gives the rows by the names of their pods, in their order."""
    around = Look(
        records=(),
        situation=Situation(
            pause=pause,
            brake=Brake(engaged_at=NOON) if brake else Brake(),
            judged_devices=100,
            **{"ways": ways_of(()), **situation},
        ),
        switches=more.pop("switches", ENFORCED),
        namespaces={"team-a": TEAM_A},
        **more,
    )
    return {row.subject.pod.name: row for row in rows_of(subjects, around, Limits(device_percent=100), NOON)}


def test_the_most_waste_comes_first() -> None:
    """Idle time times devices; then what nobody knows, then what computes."""
    long = verdict_of(VerdictKind.IDLE, idle_since=NOON - timedelta(hours=9))
    found = looked(
        subject_of("busy", ACTIVE, devices=8),
        subject_of("unknown", UNKNOWN),
        subject_of("wide", devices=8),
        subject_of("long", long),
        subject_of("done", None, skip=Reason.FINISHED),
    )
    assert list(found) == ["wide", "long", "unknown", "busy", "done"]
    assert found["long"].waste(NOON) == 9 * 3600


NEXT = [
    pytest.param(subject_of(), {}, Next.WARN, None, Reason.WITHIN_GRACE, id="idle long enough: a warning"),
    pytest.param(subject_of(streak=1), {}, Next.WARN, None, Reason.NOT_CONFIRMED, id="seen idle once"),
    pytest.param(
        subject_of(mark=GRACE), {}, Next.EVICT, NOON + minutes(10), Reason.WITHIN_GRACE, id="warned: its time"
    ),
    pytest.param(due_subject(), {}, Next.EVICT, None, None, id="due: with the next cycle"),
    pytest.param(
        due_subject(),
        {"pause": Pause(paused=True, reason="x")},
        Next.EVICT,
        NOON,
        Reason.PAUSED,
        id="due, but somebody has paused it",
    ),
    pytest.param(due_subject(), {"brake": True}, Next.EVICT, NOON, Reason.BRAKE, id="held by the brake"),
    pytest.param(
        subject_of(mark=GRACE, snooze=Snooze(until=NOON + minutes(90))),
        {},
        Next.EVICT,
        NOON + minutes(90),
        Reason.SNOOZED,
        id="kept by its user",
    ),
    pytest.param(
        subject_of(ceiling=Action.WARN), {}, Next.WARN, None, Reason.WARN_ONLY, id="its terms only warn"
    ),
    pytest.param(
        subject_of(ceiling=Action.OBSERVE), {}, Next.NOTHING, None, Reason.OBSERVE_ONLY, id="only observed"
    ),
    pytest.param(subject_of("a", ACTIVE), {}, Next.NOTHING, None, None, id="it is in use"),
    pytest.param(
        subject_of("a", verdict_of(VerdictKind.UNKNOWN, Reason.TOO_YOUNG)),
        {},
        Next.JUDGE,
        NOON - timedelta(days=1) + minutes(150),
        None,
        id="too young: when it can be judged",
    ),
    pytest.param(
        due_subject(),
        {"situation": {"wanted": {}}},
        Next.NOTHING,
        None,
        Reason.NO_PRESSURE,
        id="due, but nobody waits for devices",
    ),
    pytest.param(
        due_subject(),
        {"situation": {"wanted": {"nvidia.com/gpu": 1}}},
        Next.EVICT,
        None,
        None,
        id="due, and somebody waits",
    ),
    pytest.param(
        due_subject(), {"situation": QUIET}, Next.EVICT, LOUD, Reason.QUIET_TIME, id="due, after a start"
    ),
    pytest.param(
        subject_of(mark=GRACE),
        {"situation": QUIET},
        Next.EVICT,
        NOON + minutes(10),
        Reason.WITHIN_GRACE,
        id="warned: a start is over by then",
    ),
    pytest.param(
        subject_of(),
        {"situation": QUIET},
        Next.WARN,
        LOUD,
        Reason.QUIET_TIME,
        id="idle long enough, after a start",
    ),
    pytest.param(
        subject_of(mark=GRACE, root=JOB, ceiling=Action.STOP),
        {},
        Next.STOP,
        NOON + minutes(10),
        Reason.WITHIN_GRACE,
        id="its owner will be stopped",
    ),
    pytest.param(
        subject_of(mark=GRACE, ceiling=Action.STOP),
        {},
        Next.EVICT,
        NOON + minutes(10),
        Reason.WITHIN_GRACE,
        id="a pod that nobody makes again is evicted",
    ),
    pytest.param(
        due_subject(root=JOB, ceiling=Action.STOP),
        {"pause": Pause(paused=True, reason="x")},
        Next.STOP,
        NOON,
        Reason.PAUSED,
        id="a pause changes not what comes after it",
    ),
    pytest.param(
        subject_of(mark=GRACE, root=JOB, ceiling=Action.STOP),
        {"situation": {"ways": Ways()}},
        Next.NOTHING,
        None,
        Reason.NOT_STOPPABLE,
        id="nothing is stopped here",
    ),
    pytest.param(
        subject_of("a", None, skip=Reason.EXEMPT), {}, Next.NOTHING, None, Reason.EXEMPT, id="it is exempt"
    ),
]


@pytest.mark.parametrize(("subject", "around", "step", "at", "skip"), NEXT)
def test_what_is_next_is_what_the_planner_would_do(
    subject: Subject, around: dict[str, Any], step: Next, at: datetime | None, skip: Reason | None
) -> None:
    """With its time, where one is known."""
    (row,) = looked(subject, **around).values()
    assert (row.next_step, row.next_at, row.skip) == (step, at, skip)


SWITCHES = [
    pytest.param(Action.EVICT, {}, (Switch.TERMS, Action.EVICT), id="nothing is milder than the terms"),
    pytest.param(
        Action.OBSERVE,
        {"dry_run": True},
        (Switch.TERMS, Action.OBSERVE),
        id="of equal ones the terms are named",
    ),
    pytest.param(
        Action.EVICT, {"profile": "warn"}, (Switch.PROFILE, Action.WARN), id="the profile only warns"
    ),
    pytest.param(Action.EVICT, {"dry_run": True}, (Switch.FLAG, Action.OBSERVE), id="the reaper runs dry"),
    pytest.param(
        Action.EVICT,
        {"enforcement": Enforcement.DRY_RUN, "dry_run": True},
        (Switch.NAMESPACE, Action.OBSERVE),
        id="the namespace",
    ),
    pytest.param(
        Action.EVICT, {"skip": Reason.OPTED_OUT}, (Switch.NAMESPACE, Action.OBSERVE), id="opted out"
    ),
    pytest.param(
        Action.EVICT,
        {"skip": Reason.EXEMPT},
        (Switch.TERMS, Action.OBSERVE),
        id="an exemption is part of the terms",
    ),
    pytest.param(
        Action.EVICT, {"skip": Reason.SNOOZED}, (Switch.TERMS, Action.EVICT), id="a snooze decides not"
    ),
    pytest.param(Action.EVICT, {"hold": Reason.PAUSED}, (Switch.PAUSE, Action.OBSERVE), id="a pause"),
    pytest.param(Action.EVICT, {"hold": Reason.BRAKE}, (Switch.BRAKE, Action.OBSERVE), id="the brake"),
    pytest.param(
        Action.OBSERVE, {"hold": Reason.PAUSED}, (Switch.TERMS, Action.OBSERVE), id="a pause of nothing"
    ),
    pytest.param(
        Action.EVICT, {"hold": Reason.QUIET_TIME}, (Switch.TERMS, Action.EVICT), id="no switch of a person"
    ),
    pytest.param(
        Action.STOP, {"profile": None}, (Switch.TERMS, Action.STOP), id="what is unknown limits not"
    ),
]


@pytest.mark.parametrize(("action", "given", "expected"), SWITCHES)
def test_one_switch_decides(action: Action, given: dict[str, Any], expected: tuple[Switch, Action]) -> None:
    """The mildest; of equals the first of terms, namespace, profile and flag."""
    profile = given.get("profile", "enforce")
    switches = Switches(profile=Profile(profile) if profile else None, dry_run=given.get("dry_run", False))
    enforcement = given.get("enforcement", Enforcement.ENABLED)
    assert decides(action, enforcement, switches, given.get("skip"), given.get("hold")) == expected


def test_switches_are_read_from_what_the_chart_writes() -> None:
    """What cannot be read is not known, and never taken for a value."""
    written = {"profile": "warn", "dry-run": "false", "excluded-namespaces": "kube-system,gpu-operator"}
    assert switches_of(written) == Switches(
        profile=Profile.WARN, dry_run=False, excluded_namespaces=("kube-system", "gpu-operator")
    )
    assert switches_of({"profile": "x", "dry-run": "yes"}) == Switches()


def test_without_a_judge_the_mark_stands_for_a_verdict() -> None:
    """A warned pod is idle as far as the reaper wrote; of others nothing is said."""
    warned = subject_of("a", None, mark=GRACE)
    found = with_verdict(warned, None, Limits())
    assert found.verdict is not None
    assert (found.verdict.kind, found.verdict.idle_since) == (VerdictKind.IDLE, GRACE.idle_since)
    assert with_verdict(subject_of("a", None), None, Limits()).verdict is None
    (row,) = looked(subject_of("a", None)).values()
    assert (row.kind, row.reason) == (None, None)
    assert document(row, NOON)["verdict"] is None
