"""The desk that writes reservations: batches, conflicts, lost answers, deadlines."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from policy.ledger import Ask, NotYet, Reservation, Short
from runtime.kube import ApiError, ApiUnreachable, Response
from runtime.quotas import StoredQuota, read_stored
from tests.quota.memory import MemoryApi
from tests.runtime.fakes import FakeTime
from webhook.quota_metrics import QuotaMetrics
from webhook.reservations import Desk, Gone, Result, Taken

GPU = "nvidia.com/gpu"


def ask(uid: str, gpus: int = 1, namespace: str = "team-a") -> Ask:
    """A pod with GPUs."""
    return Ask(uid, namespace, f"p-{uid}", "dev-a", {GPU: gpus})


class Room:
    """A desk in front of an API server in memory; the watch shows what it is told to."""

    def __init__(self, hard: int = 8) -> None:
        self.api = MemoryApi()
        self.api.add_quota(hard=hard, namespaces=["team-a"])
        self.watched: StoredQuota | None = read_stored(self.api.raw())
        self.time = FakeTime(auto=True)
        self.registry = CollectorRegistry()
        self.desk = self.new_desk()

    def new_desk(self) -> Desk:
        """One more replica."""
        return Desk(
            self.api,
            lambda: self.watched,
            lambda _: Fraction(1),
            self.time,
            QuotaMetrics(CollectorRegistry()),
            sleep=self.time.sleep,
            draw=lambda: 0.5,
        )

    async def take(self, *asks: Ask, seconds: float = 4, forced: bool = False) -> list[Result]:
        """What becomes of pods that come at once."""
        return await asyncio.gather(*(self.desk.take(one, seconds, forced=forced) for one in asks))

    @property
    def writes(self) -> int:
        """How many writes were sent."""
        return sum(method == "PUT" for method, _ in self.api.requests)

    def reserved(self) -> set[str]:
        """The UIDs in the stored ledger."""
        return set(self.api.status().get("reservations") or {})


@pytest.fixture
def room() -> Room:
    """A quota of eight for one namespace."""
    return Room()


async def test_what_comes_at_once_is_one_write(room: Room) -> None:
    """Twenty pods against eight devices: eight are in, in one write."""
    results = await room.take(*(ask(str(number)) for number in range(20)))
    assert [isinstance(one, Taken) for one in results] == [True] * 8 + [False] * 12
    assert all(isinstance(one, Short) for one in results[8:])
    assert room.reserved() == {str(number) for number in range(8)}
    assert room.writes <= 2


async def test_refusals_need_no_request(room: Room) -> None:
    """A full quota costs the API server nothing."""
    await room.take(ask("big", 8))
    before = len(room.api.requests)
    (result,) = await room.take(ask("more"))
    assert isinstance(result, Short)
    assert len(room.api.requests) == before


async def test_replicas_with_old_caches_never_admit_too_many(room: Room) -> None:
    """Each of five replicas knows only the first version and learns by conflicts."""
    desks = [room.new_desk() for _ in range(5)]
    results = await asyncio.gather(*(desks[number % 5].take(ask(str(number)), 4) for number in range(60)))
    assert sum(isinstance(one, Taken) for one in results) == 8
    assert len(room.reserved()) == 8
    assert all(isinstance(one, Taken | Short) for one in results)


async def test_a_lost_answer_is_looked_up(room: Room) -> None:
    """The write came through, its answer did not: the pod is in, once, and by this wish."""
    losses = [ApiUnreachable("cut")]
    room.api.after_write = lambda _, __: losses.pop() if losses else None
    (result,) = await room.take(ask("a"))
    assert result == Taken(added=True, fits=result.fits if isinstance(result, Taken) else None)
    assert room.reserved() == {"a"}
    assert room.writes == 1


async def test_an_outage_ends_with_come_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits longer than the time that is given."""
    monkeypatch.setattr("webhook.reservations.DOUBT_PAUSE_SECONDS", 0)
    room.api.fail = lambda _, __: ApiUnreachable("down")
    begun = room.time.seconds
    (result,) = await room.take(ask("a"), seconds=4)
    assert isinstance(result, NotYet)
    assert 4 <= room.time.seconds - begun < 5


async def test_a_request_that_hangs_keeps_nobody_beyond_the_time(room: Room) -> None:
    """The limit of one request may be longer than what is left of a review."""
    forever = asyncio.Event()
    answer = room.api.request

    async def hang(method: str, path: str, **more: Any) -> Response:
        if method == "PUT":
            await forever.wait()
        return await answer(method, path, **more)

    room.api.request = hang  # type: ignore[method-assign]
    async with asyncio.timeout(2):
        (result,) = await room.take(ask("a"), seconds=0.05)
    assert isinstance(result, NotYet)
    forever.set()
    (later,) = await room.take(ask("b"))
    assert isinstance(later, Taken)


async def test_a_write_that_came_through_unseen_is_taken_back(room: Room) -> None:
    """Its pod is refused and comes again under another UID: ten such tries must not fill the quota."""
    room.api.after_write = lambda _, __: ApiUnreachable("no answer in time")
    room.api.fail = lambda method, _: ApiUnreachable("slow") if method == "GET" else None
    results = await room.take(ask("a"), ask("b"), seconds=3)
    assert all(isinstance(one, NotYet) for one in results)
    assert room.reserved() == {"a", "b"}
    room.api.after_write = room.api.fail = lambda _, __: None
    assert room.desk._doubting is not None
    await room.desk._doubting
    assert room.reserved() == set()
    assert isinstance((await room.take(ask("c", 8)))[0], Taken)


async def test_a_pod_that_is_let_in_anyway_keeps_what_came_through_unseen(room: Room) -> None:
    """Where nothing is refused it exists, whatever was answered."""
    room.api.after_write = lambda _, __: ApiUnreachable("no answer in time")
    room.api.fail = lambda method, _: ApiUnreachable("slow") if method == "GET" else None
    await room.take(ask("a"), seconds=1, forced=True)
    room.api.after_write = room.api.fail = lambda _, __: None
    assert room.desk._doubting is None
    assert room.reserved() == {"a"}


async def test_contention_ends_with_come_again(room: Room) -> None:
    """Somebody else is always faster."""
    room.api.fail = lambda method, _: ApiError(409, "Conflict") if method == "PUT" else None
    (result,) = await room.take(ask("a"), seconds=2)
    assert isinstance(result, NotYet)
    assert "at once" in result.why


async def test_a_quota_that_is_deleted_holds_nobody_up(room: Room) -> None:
    """Neither known by the watch, nor found after a conflict."""
    room.api.quotas.clear()
    assert await room.take(ask("a")) == [Gone()]
    room.watched = None
    assert await room.take(ask("a")) == [Gone()]


async def test_what_was_added_can_be_given_back(room: Room) -> None:
    """Only its own: another pod's reservation stays."""
    await room.take(ask("a"), ask("b"))
    await room.desk.give_back(ask("a"), 4)
    assert room.reserved() == {"b"}


async def test_a_review_that_comes_twice_adds_once(room: Room) -> None:
    """The second finds what the first has written, and has nothing to give back."""
    first, second = [*await room.take(ask("a")), *await room.take(ask("a"))]
    assert isinstance(first, Taken)
    assert isinstance(second, Taken)
    assert (first.added, second.added) == (True, False)
    assert room.writes == 1


async def test_where_nothing_is_refused_pods_count_all_the_same(room: Room) -> None:
    """A dry-run namespace goes over the limit, and the ledger says so."""
    results = await room.take(*(ask(str(number), 3) for number in range(4)), forced=True)
    assert [isinstance(one, Taken) and one.short is not None for one in results] == [False, False, True, True]
    assert len(room.reserved()) == 4


async def test_the_own_write_is_newer_than_the_watch(room: Room) -> None:
    """Until the watch catches up the next batch builds on the last write, without a conflict."""
    await room.take(ask("a"))
    await room.take(ask("b"))
    assert [method for method, _ in room.api.requests] == ["PUT", "PUT"]
    assert room.reserved() == {"a", "b"}


async def test_data_that_went_back_in_time_are_believed(room: Room) -> None:
    """After a restore the stored quota has a lower version than the own last write."""
    await room.take(ask("a", 8))
    old = msgspec.json.decode(room.api.raw())
    room.api.revision = 3
    old["metadata"]["resourceVersion"] = "3"
    old["status"]["reservations"] = {"x": msgspec.to_builtins(Reservation("team-a", "x", "*", {GPU: 8}))}
    room.api.quotas["q"] = old
    (short,) = await room.take(ask("b"))
    await room.desk.give_back(ask("a"), 4)
    assert isinstance(short, Short)
    assert room.reserved() == {"x"}
