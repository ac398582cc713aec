"""Who leads and for how long, whatever the API server does in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from runtime.lease import LeaseOptions
from tests.runtime.leases import Candidate, LeaseStore

Start = Callable[[Any], asyncio.Task[Any]]


@pytest.fixture
def store(manual_time: Any) -> LeaseStore:
    """An API server with no Lease yet."""
    return LeaseStore(manual_time)


@pytest.fixture
def candidate(store: LeaseStore, manual_time: Any) -> Callable[[str], Candidate]:
    """Makes candidates."""
    return lambda identity: Candidate(store, identity, manual_time)


async def test_the_first_candidate_creates_the_lease_and_works(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """Its spec is what kubectl and other implementations read."""
    one = candidate("one")
    assert not one.elector.is_leader()
    start(one.elector.run(one.work))
    await manual_time.advance(1)
    assert one.working
    assert one.elector.is_leader()
    assert one.changes == [True]
    assert store.lease is not None
    assert store.lease["spec"] == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2025-01-01T00:16:40.000000Z",
        "renewTime": "2025-01-01T00:16:40.000000Z",
        "leaseTransitions": 0,
    }


async def test_a_leader_that_renews_keeps_the_lease(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """A minute of renewals: one work, one holder, and the second candidate waits."""
    one, two = candidate("one"), candidate("two")
    start(one.elector.run(one.work))
    await manual_time.advance(1)
    start(two.elector.run(two.work))
    await manual_time.advance(60)
    assert (one.began, two.began, store.holder) == (1, 0, "one")
    assert two.elector.leader == "one"
    assert all(timeout < 5 for _, timeout in store.requests)


async def test_on_stop_the_lease_is_given_back_and_the_next_leads_within_three_seconds(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """The holder is cleared, so nobody waits for the Lease to expire."""
    one, two = candidate("one"), candidate("two")
    task = start(one.elector.run(one.work))
    await manual_time.advance(1)
    start(two.elector.run(two.work))
    await manual_time.advance(5)
    task.cancel()
    await manual_time.advance(0)
    assert task.cancelled()
    assert (one.working, one.elector.is_leader(), store.holder) == (False, False, "")
    await manual_time.advance(3)
    assert (two.working, store.holder) == (True, "two")
    assert store.lease is not None
    assert store.lease["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_vanishes_is_followed_within_twenty_seconds(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """The follower counts from when it saw the last renewal, not by the holder's clock."""
    one, two = candidate("one"), candidate("two")
    store.lease = {
        "metadata": {"name": "gpu-tenure-reaper", "namespace": "gpu-tenure-system", "resourceVersion": "7"},
        "spec": {
            "holderIdentity": "gone",
            "leaseDurationSeconds": 15,
            "renewTime": "2001-01-01T00:00:00.000000Z",
        },
    }
    start(two.elector.run(two.work))
    await manual_time.advance(14)
    assert not two.working
    await manual_time.advance(5)
    assert two.working
    assert one.began == 0


@pytest.mark.parametrize("fault", ["hang", "refuse", "500"])
async def test_a_leader_that_cannot_renew_stops_before_another_may_begin(
    fault: str, store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """The work is cancelled ten seconds after the last renewal; nobody follows before fifteen."""
    one, two = candidate("one"), candidate("two")
    start(one.elector.run(one.work))
    await manual_time.advance(1)
    start(two.elector.run(two.work))
    await manual_time.advance(10)
    store.fault = fault
    broken_at = manual_time.seconds
    await manual_time.advance(11)
    assert not one.working
    assert one.ended_at <= broken_at + 10
    assert one.changes == [True, False]
    assert not two.working
    store.fault = ""
    await manual_time.advance(20)
    assert [one.working, two.working].count(True) == 1


async def test_a_short_outage_loses_nothing(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """One hung renewal leaves time for the next."""
    one = candidate("one")
    start(one.elector.run(one.work))
    await manual_time.advance(2)
    store.fault = "hang"
    await manual_time.advance(5)
    store.fault = ""
    await manual_time.advance(30)
    assert (one.began, one.working) == (1, True)


async def test_the_answer_to_is_leader_does_not_wait_for_the_watchdog(
    candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """A process that was stopped and wakes up late knows it at the first question."""
    one = candidate("one")
    start(one.elector.run(one.work))
    await manual_time.advance(1)
    manual_time.seconds += 10
    assert one.working
    assert not one.elector.is_leader()


async def test_a_lost_answer_to_a_renewal_is_not_a_lost_lease(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """The write took effect, so the next one conflicts with our own; the work goes on."""
    one = candidate("one")
    start(one.elector.run(one.work))
    await manual_time.advance(1)
    store.fault = "lost answer"
    await manual_time.advance(2)
    store.fault = ""
    await manual_time.advance(10)
    assert (one.began, one.working, one.elector.is_leader()) == (1, True, True)


async def test_a_lease_taken_by_someone_else_ends_the_work_at_once(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """Whoever edits the Lease by hand wins, and we do not take it back before it expires."""
    one = candidate("one")
    start(one.elector.run(one.work))
    await manual_time.advance(1)
    assert store.lease is not None
    store.lease["spec"]["holderIdentity"] = "other"
    store.lease["metadata"]["resourceVersion"] = "999"
    await manual_time.advance(2)
    assert (one.working, one.elector.is_leader(), store.holder) == (False, False, "other")


async def test_a_write_left_unanswered_at_the_stop_is_given_back_too(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """It may have made us the holder, and the next leader should not wait for that."""
    one = candidate("one")
    store.fault = "lost answer"
    task = start(one.elector.run(one.work))
    await manual_time.advance(0)
    assert store.holder == "one"
    store.fault = ""
    task.cancel()
    await manual_time.advance(0)
    assert store.holder == ""


async def test_an_error_of_the_work_is_raised_and_the_lease_given_back(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """A leader that fails makes room."""

    async def fail() -> None:
        raise LookupError("no")

    task = start(candidate("one").elector.run(fail))
    await manual_time.advance(1)
    with pytest.raises(LookupError), contextlib.suppress(asyncio.CancelledError):
        await task
    assert store.holder == ""


async def test_a_work_that_ends_ends_the_campaign(
    store: LeaseStore, candidate: Callable[[str], Candidate], manual_time: Any, start: Start
) -> None:
    """A single run under the Lease is possible."""

    async def once() -> None:
        return None

    task = start(candidate("one").elector.run(once))
    await manual_time.advance(1)
    assert task.done()
    assert task.exception() is None
    assert store.holder == ""


@pytest.mark.parametrize(
    ("duration", "deadline", "retry"),
    [(10, 10, 2), (15, 10, 5), (15, 10, 0)],
    ids=["no room for drift", "no time for a second attempt", "no pause"],
)
def test_timings_that_could_let_two_lead_are_refused(duration: int, deadline: float, retry: float) -> None:
    """The margins are not a matter of taste."""
    with pytest.raises(ValueError, match="below"):
        LeaseOptions(duration=duration, renew_deadline=deadline, retry=retry)
