"""When users hear of a deadline, and what."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from reaper.deadlines import Deadline, Left, Origin, leads, notice_of, origin_of, sentence
from reaper.owners import Root
from tests.reaper.acting.made import NOON, minutes

POD = Root("v1", "Pod", "team-a", "train", "uid")
DAY = 86_400
TOLD = 900


def deadline(seconds: int, *, origin: Origin = Origin.INJECTED, holder: Root = POD) -> Deadline:
    """Gives a deadline that counts from noon."""
    return Deadline(
        holder=holder,
        root=holder,
        policy="default",
        longest_seconds=14 * DAY,
        contact="Ask in gpu-help.",
        origin=origin,
        seconds=seconds,
        started=NOON,
    )


@pytest.mark.parametrize(
    ("seconds", "moments"),
    [
        pytest.param(7 * DAY, [(Left.DAY, DAY), (Left.TENTH, 60_480), (Left.HOUR, 3600)], id="a week"),
        pytest.param(14 * DAY, [(Left.TENTH, 120_960), (Left.DAY, DAY), (Left.HOUR, 3600)], id="two weeks"),
        pytest.param(10 * DAY, [(Left.DAY, DAY), (Left.HOUR, 3600)], id="ten days: a tenth is a day"),
        pytest.param(DAY, [(Left.TENTH, 8640), (Left.HOUR, 3600)], id="a day: nothing at its start"),
        pytest.param(1800, [(Left.TENTH, 180)], id="half an hour"),
        pytest.param(599, [], id="a few minutes: too short for anything"),
        pytest.param(0, [], id="no time at all"),
    ],
)
def test_the_moments_of_a_deadline(seconds: int, moments: list[tuple[Left, int]]) -> None:
    """A day, an hour and a tenth before the end, where that makes sense."""
    assert list(leads(seconds)) == moments


@pytest.mark.parametrize(
    ("hours", "left", "fresh"),
    [
        pytest.param(0, None, None, id="at its start"),
        pytest.param(6 * 24 - 0.1, None, None, id="right before the first moment"),
        pytest.param(6 * 24, Left.DAY, True, id="a day is left"),
        pytest.param(6 * 24 + 2, Left.DAY, False, id="two hours later: told before"),
        pytest.param(6 * 24 + 9, Left.TENTH, False, id="more than a tenth was left an hour ago"),
        pytest.param(7 * 24 - 1, Left.HOUR, True, id="an hour is left"),
        pytest.param(7 * 24 - 0.01, Left.HOUR, False, id="seconds are left"),
        pytest.param(7 * 24, None, None, id="at the end the kubelet speaks"),
    ],
)
def test_what_is_said_when(hours: float, left: Left | None, fresh: bool | None) -> None:
    """The tightest moment counts, and an old one is taken for told."""
    found = notice_of(deadline(7 * DAY), NOON + timedelta(hours=hours), TOLD)
    assert (found.left if found else None, found.fresh if found else None) == (left, fresh)


def test_one_moment_lasts_until_the_next() -> None:
    """So that alerts follow each other without a gap, the last up to the end."""
    one = deadline(7 * DAY)
    first = notice_of(one, NOON + timedelta(days=6), TOLD)
    assert first is not None
    second = notice_of(one, first.until, TOLD)
    assert second is not None
    assert (second.left, second.since) == (Left.TENTH, first.until)
    third = notice_of(one, second.until, TOLD)
    assert third is not None
    assert (third.left, third.until) == (Left.HOUR, one.ends_at)


def test_what_has_passed_is_said_for_a_while() -> None:
    """And is no news after an hour."""
    late = structs.replace(deadline(DAY), exceeded_at=NOON + timedelta(days=1))
    found = notice_of(late, NOON + timedelta(days=1) + minutes(5), TOLD)
    assert found is not None
    assert (found.left, found.fresh) == (Left.NOTHING, True)
    assert found.until == NOON + timedelta(days=1, seconds=TOLD)
    assert notice_of(late, NOON + timedelta(days=1, hours=2), TOLD) is None


@given(st.integers(0, 2**63), st.integers(0, 2**40))
def test_no_deadline_that_anybody_writes_breaks_it(seconds: int, elapsed: int) -> None:
    """Jobs take any number of 63 bits; at most one moment holds, and never beyond the end."""
    now = NOON + timedelta(seconds=min(elapsed, 7000 * 365 * DAY))
    found = notice_of(deadline(seconds), now, TOLD)
    if found is not None:
        assert found.since <= now < found.until <= deadline(seconds).ends_at
        assert sentence(deadline(seconds), found)


def said(one: Deadline, now: datetime) -> str:
    """Gives the sentence."""
    found = notice_of(one, now, TOLD)
    assert found is not None
    return sentence(one, found)


def test_a_pod_s_user_is_told_why_and_how_to_get_more() -> None:
    """When, by which policy, and that a pod's deadline cannot be raised."""
    assert said(deadline(7 * DAY), NOON + timedelta(days=6)) == (
        "Ends at 2025-03-08 12:00Z, in at most 24 hours, by its deadline of 7d, which policy default set "
        "because none was asked for. A pod's deadline cannot be raised: save what you need. To have more "
        "next time set activeDeadlineSeconds, up to 1209600 (14d). Ask in gpu-help."
    )


def test_a_job_s_user_may_ask_for_more() -> None:
    """An administrator can raise it while the Job runs."""
    job = Root("batch/v1", "Job", "team-a", "train", "job")
    text = said(deadline(7 * DAY, origin=Origin.LOWERED, holder=job), NOON + timedelta(days=7, hours=-1))
    assert "lowered to the maximum of policy default" in text
    assert "ask an administrator to raise activeDeadlineSeconds of the Job while it runs" in text


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (Origin.INJECTED, "which policy default set"),
        (Origin.LOWERED, "lowered to the maximum of policy default"),
        (Origin.KEPT, "as was asked for (policy default)"),
        (Origin.OWN, "its own activeDeadlineSeconds"),
    ],
)
def test_afterwards_its_origin_is_named(origin: Origin, words: str) -> None:
    """Nobody has to guess who set it."""
    late = structs.replace(deadline(DAY, origin=origin), exceeded_at=NOON + timedelta(days=1))
    text = said(late, NOON + timedelta(days=1))
    assert text.startswith("Ended by its deadline of 1d, ")
    assert words in text


@pytest.mark.parametrize(
    ("annotation", "origin"),
    [
        ("injected", Origin.INJECTED),
        ("lowered", Origin.LOWERED),
        ("kept", Origin.KEPT),
        (None, Origin.OWN),
        ("would-inject", Origin.OWN),
        ("none: Kueue", Origin.OWN),
        ("{policy.__class__}", Origin.OWN),
    ],
)
def test_where_a_deadline_comes_from(annotation: str | None, origin: Origin) -> None:
    """What admission wrote, or else the user's own."""
    assert origin_of(annotation) is origin
