"""What the webhook knows of quotas when its watch is dead, behind, or of another world."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import pytest

from runtime.kube import ApiError, ApiUnreachable
from runtime.quotas import QUOTAS_PATH
from tests.quota.memory import MemoryApi
from tests.runtime.fakes import FakeTime, settle
from webhook.look import Look
from webhook.quotas import SILENT_SECONDS, QuotaBook

NAMESPACE = "/api/v1/namespaces/team-a"


class Desert:
    """A book over an API server whose watches never say anything."""

    def __init__(self) -> None:
        self.api, self.time = MemoryApi(), FakeTime(auto=True)
        self.api.namespaces["team-a"] = {"team": "a"}
        self.book = QuotaBook(self.api, clock=self.time, settle_seconds=6)

    def cut(self) -> None:
        """Nothing is answered any more."""
        self.api.fail = lambda *_: ApiUnreachable("cut")

    def lists(self) -> int:
        """How often quotas were listed."""
        return self.api.requests.count(("GET", QUOTAS_PATH))

    def covering(self) -> list[str]:
        """The quotas of the namespace, by name."""
        return [one.name for one in self.book.covering("team-a", {})]


@pytest.fixture
def desert() -> Desert:
    """Without a quota yet."""
    return Desert()


@pytest.fixture
async def watching(desert: Desert) -> AsyncIterator[Desert]:
    """It has read a first list, and nothing since."""
    desert.api.add_quota("old")
    run = asyncio.create_task(desert.book._cache.run())
    await desert.book._cache.wait_synced(5)
    yield desert
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


async def test_a_new_quota_is_known_without_a_watch(watching: Desert) -> None:
    """Whoever must know looks, and then it counts."""
    watching.api.add_quota("new")
    assert watching.covering() == ["old"]
    assert await watching.book.heard("team-a") == {"team": "a"}
    assert watching.covering() == ["new", "old"]
    assert watching.book.get("new") is not None


async def test_a_deleted_quota_is_forgotten_without_a_watch(watching: Desert) -> None:
    """Nobody is refused for what is no more."""
    del watching.api.quotas["old"]
    watching.api.revision += 1
    await watching.book.heard("team-a")
    assert watching.covering() == []


async def test_of_watch_and_list_the_newer_holds(watching: Desert) -> None:
    """Neither takes back what the other knows better."""
    await watching.book.heard("team-a")
    old = watching.book.get("old")
    assert old is not None
    watching.api.revision += 1
    watching.api.quotas["old"]["metadata"]["resourceVersion"] = str(watching.api.revision)
    watching.time.seconds += 60
    await watching.book.heard("team-a")
    new = watching.book.get("old")
    assert new is not None
    assert int(new.version) == int(old.version) + 1


async def test_a_world_that_went_back_is_believed(watching: Desert) -> None:
    """After a restore the watch is of the future: it would outbid everything, and hear nothing."""
    watching.api.revision = 3
    watching.api.quotas.clear()
    watching.api.add_quota("restored")
    await watching.book.heard("team-a")
    assert watching.covering() == ["restored"]


async def test_a_crowd_looks_once(desert: Desert) -> None:
    """A hundred pods at once cost one list and one namespace, and so does the next second."""
    await asyncio.gather(*(desert.book.heard("team-a") for _ in range(100)))
    desert.time.seconds += 0.9
    await desert.book.heard("team-a")
    assert sorted(path for _, path in desert.api.requests) == [NAMESPACE, QUOTAS_PATH]


async def test_busy_times_look_ahead(desert: Desert) -> None:
    """Before it is too old it is read again, and nobody waits for that."""
    await desert.book.heard("team-a")
    desert.time.seconds += 2
    before = desert.lists()
    await desert.book.heard("team-a")
    await settle()
    assert desert.lists() == before + 1
    desert.time.seconds += 2
    assert await desert.book.heard("team-a") is not None


@pytest.mark.parametrize(
    "path",
    [pytest.param(QUOTAS_PATH, id="quotas"), pytest.param(NAMESPACE, id="the namespace")],
)
async def test_half_of_the_settling_time_is_how_old_it_may_be(desert: Desert, path: str) -> None:
    """Up to then an outage is nobody's business; after it nobody can tell."""
    assert await desert.book.heard("team-a") is not None
    desert.api.fail = lambda _, asked: ApiUnreachable("cut") if asked == path else None
    desert.time.seconds += 3
    assert await desert.book.heard("team-a") is not None
    desert.time.seconds += 0.1
    assert await desert.book.heard("team-a") is None
    desert.api.fail = lambda *_: None
    assert await desert.book.heard("team-a") is not None


async def test_a_late_answer_is_as_old_as_its_request(desert: Desert) -> None:
    """What was true when it was asked may be false when it comes."""

    def slow(*_: str) -> None:
        desert.time.seconds += 4

    desert.api.fail = slow
    assert await desert.book.heard("team-a") is None


async def test_a_look_that_hangs_is_given_up(desert: Desert, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next one tries again."""
    monkeypatch.setattr("webhook.look.LOOK_SECONDS", 0.01)
    forever = asyncio.Event()

    async def read() -> int:
        await forever.wait()
        return 1

    look = Look("it", read, desert.time, 3)
    assert await look.value() is None
    assert look.problem == "no answer in time"
    forever.set()
    assert await look.value() == 1
    assert look.problem is None


class SlowReads:
    """Answers that come when a test lets them, each with its number."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[int]] = []

    async def read(self) -> int:
        """Waits for its answer."""
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


async def test_an_answer_that_comes_late_still_says_that_somebody_is_there(
    desert: Desert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that takes seconds to answer everybody must not take every replica out of the Service."""
    monkeypatch.setattr("webhook.look.LOOK_SECONDS", 0.01)
    slow = SlowReads()
    look = Look("it", slow.read, desert.time, 3)
    assert await look.value() is None
    desert.time.seconds += 9
    slow.answers[0].set_result(1)
    await settle()
    assert look.age() == 9
    assert look.problem is None
    assert await look.value() is None, "what was true nine seconds ago may be false now"


async def test_nobody_waits_for_an_answer_that_may_be_lost(
    desert: Desert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first look's time another begins, and whichever is newer holds."""
    monkeypatch.setattr("webhook.look.LOOK_SECONDS", 0.01)
    slow = SlowReads()
    look = Look("it", slow.read, desert.time, 3)
    assert await look.value() is None
    desert.time.seconds += 1
    asking = asyncio.create_task(look.value())
    await settle()
    assert len(slow.answers) == 2
    slow.answers[1].set_result(2)
    assert await asking == 2
    slow.answers[0].set_result(1)
    await settle()
    assert await look.value() == 2


async def test_without_the_definition_there_are_no_quotas(desert: Desert) -> None:
    """That is an answer, too."""
    desert.api.fail = lambda _, path: ApiError(404, "NotFound") if path == QUOTAS_PATH else None
    assert await desert.book.heard("team-a") == {"team": "a"}
    assert desert.covering() == []


async def test_a_replica_that_hears_nothing_is_not_ready_any_more(watching: Desert) -> None:
    """Others may reach the API server; where nothing is enforced it goes on, and says so."""
    book = watching.book
    assert book.too_silent() is None
    await book.heard("team-a")
    assert book.unheard() is None
    watching.cut()
    watching.time.seconds += SILENT_SECONDS + 1
    assert await book.heard("team-a") is None
    assert book.too_silent() == "GPUQuotas could not be read for 31 s"
    assert book.unheard() == "GPUQuotas could not be read for 31 s"
    assert book.not_ready() is None


async def test_remarks_on_workloads_ask_nobody(watching: Desert) -> None:
    """The mutating path says what quotas leave from what is known, whatever is cut."""
    await watching.book.heard("team-a")
    before = list(watching.api.requests)
    watching.cut()
    watching.time.seconds += 60
    assert watching.book.rooms("team-a", {}, lambda _: Fraction(1))
    await settle()
    assert watching.api.requests == before


async def test_it_looks_while_nobody_asks(desert: Desert) -> None:
    """So that it is ready again soon after the API server is."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        desert.time.seconds += seconds
        if len(waits) == 2:
            desert.cut()
        if len(waits) == 4:
            raise asyncio.CancelledError

    looking: Any = desert.book._keep_looking(sleep)
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert waits == [10, 10, 1, 1]


async def test_namespaces_that_nobody_asks_for_are_forgotten(
    desert: Desert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory does not grow with the names that reviews have."""
    monkeypatch.setattr("webhook.quotas.MOST_NAMESPACES", 3)
    for number in range(9):
        desert.api.namespaces[f"n{number}"] = {}
        await desert.book.heard(f"n{number}")
        desert.time.seconds += 4
    assert len(desert.book._namespaces) <= 3
