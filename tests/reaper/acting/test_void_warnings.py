"""Warnings that were given under bounds, or a snooze, that hold no more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from policy.selection import PolicySet
from policy.snooze import Snooze
from policy.verdicts import Reason
from reaper.marks import Mark
from reaper.pause import Pause
from reaper.steps import Change
from tests.reaper.acting.made import AFTER, GRACE, LABELS, NOON, POLICY, minutes, subject_of
from tests.reaper.acting.planning import changes, planned, skips
from tests.reaper.acting.worlds import FakeWorld, annotate, warned

SINCE = NOON - timedelta(seconds=AFTER)


def warned_until(reclaim_in: timedelta, **more: Any) -> Any:
    """Gives a warned subject whose action was announced for then."""
    return subject_of("a", mark=Mark(SINCE, reclaim_at=NOON + reclaim_in), **more)


def test_a_warning_beyond_todays_grace_is_given_anew() -> None:
    """With a full grace from now, and said as a warning."""
    found = planned(warned_until(minutes(600)))
    (step,) = found.steps
    assert step.change is Change.WARN
    assert step.mark is not None
    assert step.mark.reclaim_at == NOON + timedelta(seconds=GRACE)
    assert skips(found) == {"a": Reason.WITHIN_GRACE}


STANDS = [
    pytest.param(warned_until(timedelta(seconds=GRACE)), {}, id="just given"),
    pytest.param(warned_until(timedelta(seconds=GRACE) + minutes(4)), {}, id="by a clock that is ahead"),
    pytest.param(warned_until(minutes(600), snooze=Snooze(NOON + minutes(600))), {}, id="moved by a snooze"),
    pytest.param(
        warned_until(timedelta(seconds=GRACE)),
        {"pause": Pause(paused=False, resumed_at=NOON)},
        id="after a pause",
    ),
]


@pytest.mark.parametrize(("subject", "situation"), STANDS)
def test_a_warning_that_could_be_given_now_stands(subject: Any, situation: Any) -> None:
    """Nobody is told twice."""
    assert changes(planned(subject, **situation)) == {}


def policy_of(bound: str) -> PolicySet:
    """Gives the policy with a bound for graces that users ask for."""
    return PolicySet.of([{**POLICY, "spec": {**POLICY["spec"], "bounds": {"grace": bound}}}])


async def test_a_stricter_bound_reaches_a_running_pod_and_voids_its_warning() -> None:
    """It asked for ten hours; now two are allowed: a new warning names them, and only then it goes."""
    world = FakeWorld()
    world.policies = policy_of("10h")
    world.add(
        "a",
        labels={**LABELS, "gpu-tenure.io/idle-grace": "10h"},
        annotations={"gpu-tenure.io/asked": "idle-grace"},
    )
    await world.run(2)
    assert world.annotations("a")["reclaim-at"] == "2025-03-01T22:02:00Z"
    world.policies = policy_of("2h")
    await world.run(2)
    assert world.annotations("a")["reclaim-at"] == "2025-03-01T14:03:00Z"
    assert world.events.reasons("a") == ["GPUIdleWarning", "GPUIdleWarning"]
    await world.run(118)
    assert world.actor.evicted == []
    await world.run(3)
    assert world.actor.evicted == ["a"]


async def test_a_snooze_is_bounded_whatever_is_asked_for_again() -> None:
    """At most a day from now, and 72 hours after the pod became idle."""
    world = await warned()
    for _ in range(3):
        annotate(world, "gpu-tenure.io/keep-until", "1000h")
        await world.run(1, after=minutes(20 * 60))
    assert world.actor.evicted == []
    kept = world.annotations("a")["keep-until"]
    assert kept == "2025-03-04T10:00:00Z"
    annotate(world, "gpu-tenure.io/keep-until", "1000h")
    await world.run(1, after=minutes(20 * 60))
    assert world.actor.evicted == ["a"]
