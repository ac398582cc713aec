"""How the pods of one owner go together: whole runs, single pods of Deployments, once per owner."""

from __future__ import annotations

from typing import Any

import pytest

from policy.snooze import Snooze
from policy.terms import Action
from policy.verdicts import Reason
from reaper.records import Phase
from reaper.steps import Change
from tests.reaper.acting.made import (
    ACTIVE,
    NOON,
    UNKNOWN,
    due_mark,
    due_subject,
    minutes,
    record_of_pod,
    subject_of,
)
from tests.reaper.acting.planning import DEPLOYMENT, FRESH, RUN, acted, changes, planned, skips


def test_a_run_goes_whole() -> None:
    """All pods of one owner are one action."""
    found = planned(due_subject("a", root=RUN), due_subject("b", root=RUN))
    assert acted(found) == ["a", "b"]
    assert len(found.actions) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(subject_of("z", ACTIVE, root=RUN), id="a busy rank"),
        pytest.param(subject_of("z", UNKNOWN, root=RUN), id="an Unknown rank"),
        pytest.param(subject_of("z", None, root=RUN, skip=Reason.EXEMPT), id="an exempt rank"),
    ],
)
def test_one_rank_protects_its_run(other: Any) -> None:
    """Seven idle pods of eight stay, and their warnings go."""
    idle = [due_subject(f"rank-{number}", root=RUN) for number in range(7)]
    found = planned(*idle, other)
    assert acted(found) == []
    assert {skips(found)[f"rank-{number}"] for number in range(7)} == {Reason.PEER_NOT_IDLE}
    assert {changes(found)[f"rank-{number}"] for number in range(7)} == {Change.REMOVE}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(subject_of("z", None, root=RUN, skip=Reason.FINISHED), id="it has finished"),
        pytest.param(subject_of("z", None, root=RUN, skip=Reason.TERMINATING), id="it is going"),
    ],
)
def test_a_pod_that_holds_nothing_protects_nobody(other: Any) -> None:
    """Finished and going pods do not count as peers."""
    assert acted(planned(due_subject("a", root=RUN), other)) == ["a"]


def test_under_a_deployment_each_pod_stands_alone() -> None:
    """A busy replica does not protect an idle one."""
    found = planned(due_subject("a", root=DEPLOYMENT), subject_of("b", ACTIVE, root=DEPLOYMENT))
    assert acted(found) == ["a"]


def test_a_run_waits_for_its_last_warning() -> None:
    """A pod that is due waits for one that is not."""
    later = subject_of("b", root=RUN, mark=FRESH)
    found = planned(due_subject("a", root=RUN), later)
    assert acted(found) == []
    assert skips(found) == {"a": Reason.WITHIN_GRACE, "b": Reason.WITHIN_GRACE}


def test_the_mildest_ceiling_of_a_run_holds_for_all() -> None:
    """One pod that may only be warned about keeps the run."""
    found = planned(due_subject("a", root=RUN), due_subject("b", root=RUN, ceiling=Action.WARN))
    assert acted(found) == []
    assert changes(found) == {"a": Change.LOWER, "b": Change.LOWER}


def test_a_snooze_of_one_keeps_the_run() -> None:
    """Its end is the time of all."""
    until = NOON + minutes(30)
    found = planned(due_subject("a", root=RUN), due_subject("b", root=RUN, snooze=Snooze(until)))
    assert acted(found) == []
    assert {step.mark.reclaim_at for step in found.steps if step.mark} == {until}


def test_an_owner_is_acted_on_once_a_day() -> None:
    """Afterwards its pods are warned about, and no action is announced."""
    record = record_of_pod("former", owner_uid=DEPLOYMENT.uid, at=NOON - minutes(60))
    found = planned(subject_of("a", root=DEPLOYMENT), records=[record])
    assert [step.mark.reclaim_at for step in found.steps if step.mark] == [None]
    assert skips(found) == {"a": Reason.OWNER_RECREATES}
    day_old = record_of_pod("former", owner_uid=DEPLOYMENT.uid, at=NOON - minutes(24 * 60))
    assert acted(planned(due_subject("a", root=DEPLOYMENT), records=[day_old])) == ["a"]


def test_pods_of_one_owner_that_are_due_together_go_one_by_one() -> None:
    """The limit of an owner holds within a cycle too, and what it holds back keeps nobody else waiting."""
    replicas = [due_subject(name, root=DEPLOYMENT) for name in "abc"]
    found = planned(*replicas, due_subject("other", mark=due_mark(0)))
    assert acted(found) == ["a", "other"]
    assert skips(found) == {"b": Reason.LIMIT_REACHED, "c": Reason.LIMIT_REACHED}


def test_the_rest_of_a_run_belongs_to_its_own_action() -> None:
    """A pod that a budget kept back does not wait a day for the pods that went before it."""
    at = NOON - minutes(20)
    went = record_of_pod("uid-team-a-b", owner_uid=RUN.uid, at=at)
    kept = record_of_pod("uid-team-a-a", owner_uid=RUN.uid, at=at, phase=Phase.BLOCKED)
    assert acted(planned(due_subject("a", root=RUN), records=[went, kept])) == ["a"]
