"""The keeper's rounds over pods and quotas in memory: conflicts, old caches, restores, expiry."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from fractions import Fraction
from typing import Any

import pytest

from policy.ledger import Reservation
from policy.ledger_count import HeldPod
from policy.objects import Namespace, ObjectMeta
from quota.coverage import Coverage
from quota.expiry import Expiry
from quota.keeper import ASK_SECONDS, Keeper, Rules, WentBackError
from quota.report import Reporter
from runtime.kube import ApiUnreachable
from runtime.listing import Listing
from runtime.quotas import StoredQuota, read_stored
from tests.quota.memory import QUOTAS, MemoryApi
from tests.runtime.fakes import FakeTime

GPU = "nvidia.com/gpu"
EXPIRE = 75.0


class Cache:
    """What a watch cache shows."""

    def __init__(self) -> None:
        self.resource_version: str | None = "10"
        self.held: list[Any] = []
        self.unseen: list[Any] = []

    async def fresh_list(self) -> Listing[Any]:
        """What there really is."""
        return Listing("10", {("", one.uid): one for one in (*self.held, *self.unseen)})

    def values(self) -> list[Any]:
        """Everything that is kept."""
        return self.held


class FakeView:
    """The view as tests set it."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.pods, self.quotas = Cache(), Cache()
        self.births: dict[str, float] = {}
        self.deleted: set[str] = set()
        self.missing: str | None = None

    def not_synced(self) -> str | None:
        """Why nothing can be counted."""
        return self.missing

    def held_pods(self) -> list[HeldPod]:
        """All pods."""
        return list(self.pods.held)

    def gone(self) -> Collection[str]:
        """UIDs that were deleted."""
        return self.deleted

    def countable(self) -> list[Namespace]:
        """Two namespaces."""
        return [Namespace(ObjectMeta(name=name)) for name in ("team-a", "team-b")]


class Told:
    """Remembers Events."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    async def record(self, regarding: Any, reason: str, action: str, note: str, type: str = "Normal") -> bool:  # noqa: A002, ARG002
        """Writes one."""
        self.notes.append((regarding.name, note))
        return True


class House:
    """A keeper over an API server in memory."""

    def __init__(self) -> None:
        self.api, self.view, self.time, self.told = MemoryApi(), FakeView(), FakeTime(auto=True), Told()
        self.leads = True
        rules = Rules(lambda _: Fraction(1), Coverage(5), Expiry(self.api, self.time, EXPIRE))
        reporter = Reporter(self.told, rules.weigh)
        self.keeper = Keeper(self.api, self.view, rules, reporter, lambda: self.leads, self.time)

    def see(self, *pods: HeldPod, version: int | None = None) -> None:
        """The watches bring pods and the quota as it is stored now."""
        self.view.pods.held = list(pods)
        self.view.pods.resource_version = str(self.api.revision if version is None else version)
        self.see_quota()

    def see_quota(self) -> StoredQuota:
        """The watch brings the quota."""
        stored = read_stored(self.api.raw())
        self.view.quotas.held = [stored]
        return stored

    def reserve(self, *uids: str) -> None:
        """A webhook adds reservations."""
        status = self.api.status()
        made = {
            uid: {"namespace": "team-a", "name": f"p-{uid}", "subject": "*", "counts": {GPU: 1}}
            for uid in uids
        }
        status["reservations"] = {**(status.get("reservations") or {}), **made}
        self.api.revision += 1
        self.api.quotas["q"]["metadata"]["resourceVersion"] = str(self.api.revision)

    def held(self) -> int:
        """What the stored ledger shows."""
        stored = read_stored(self.api.raw()).ledger
        return stored.used.get("*", {}).get(GPU, 0) + sum(
            one.counts[GPU] for one in stored.reservations.values()
        )

    @property
    def writes(self) -> int:
        """How many writes were sent."""
        return sum(method == "PUT" for method, _ in self.api.requests)


def pod(uid: str, **more: Any) -> HeldPod:
    """A pod with a GPU in team-a."""
    return HeldPod(uid, "team-a", f"p-{uid}", None, {GPU: 1}, **more)


@pytest.fixture
def house() -> House:
    """A quota of eight that has counted nothing."""
    house = House()
    house.api.add_quota()
    return house


async def test_a_round_counts_and_releases(house: House) -> None:
    """The pod that is counted needs no reservation any more; the others keep theirs."""
    house.reserve("a", "b")
    house.see(pod("a"))
    await house.keeper.round()
    status = house.api.status()
    assert status["used"] == {"*": {GPU: 1}}
    assert set(status["reservations"]) == {"b"}
    assert status["summary"] == "2/8"


async def test_nothing_is_written_twice(house: House) -> None:
    """Rounds without news read nothing and write nothing."""
    house.see(pod("a"))
    await house.keeper.round()
    before = len(house.api.requests)
    house.see(pod("a"))
    await house.keeper.round()
    assert len(house.api.requests) == before


async def test_a_conflict_is_counted_anew(house: House) -> None:
    """A reservation that came in between is still there after the write."""
    house.see(pod("a"))
    house.reserve("late")
    await house.keeper.round()
    assert set(house.api.status()["reservations"]) == {"late"}
    assert house.held() == 2


async def test_an_old_cache_takes_nothing_back(house: House) -> None:
    """A paused leader wakes up with a cache from before, reads the new ledger, and must not write it."""
    house.see(pod("a"), pod("b"), version=house.api.revision)
    house.api.revision += 10
    house.view.pods.resource_version = str(house.api.revision)
    await house.keeper.round()
    assert house.held() == 2
    paused = House()
    paused.api = house.api
    paused.keeper = Keeper(
        house.api,
        paused.view,
        Rules(lambda _: Fraction(1), Coverage(5), Expiry(house.api, paused.time, EXPIRE)),
        Reporter(paused.told, lambda _: Fraction(1)),
        lambda: True,
        paused.time,
    )
    paused.see(version=5)
    before = house.writes
    await paused.keeper.round()
    assert house.held() == 2
    assert house.writes == before


async def test_a_namespace_is_counted_only_by_who_sees_its_pods(house: House) -> None:
    """The watch of pods is dead: what was let in before the quota would be missing for ever."""
    house.api.add_quota(namespaces=["team-b"])
    house.view.pods.unseen = [pod("early")]
    house.see()
    await house.keeper.round()
    house.time.seconds += 5
    await house.keeper.round()
    assert house.api.status()["namespaces"] == ["team-b"]
    house.view.pods.unseen = []
    house.see(pod("early"))
    await house.keeper.round()
    assert house.api.status()["namespaces"] == ["team-a", "team-b"]
    assert house.held() == 1


async def test_a_pod_that_is_gone_by_now_holds_nothing_up(house: House) -> None:
    """It was deleted between the look and the list."""
    house.api.add_quota(namespaces=[])
    house.view.pods.unseen, house.view.deleted = [pod("short")], {"short"}
    house.see()
    await house.keeper.round()
    house.time.seconds += 5
    await house.keeper.round()
    assert house.api.status()["namespaces"] == ["team-a", "team-b"]


async def test_who_does_not_lead_writes_nothing(house: House) -> None:
    """The Lease is asked right before each write."""
    house.see(pod("a"))
    house.leads = False
    await house.keeper.round()
    assert house.writes == 0


async def test_a_cache_that_must_list_again_counts_nothing(house: House) -> None:
    """Without a version it is not known what the pods are the pods of."""
    house.see(pod("a"))
    house.view.pods.resource_version = None
    await house.keeper.round()
    house.view.pods.resource_version, house.view.missing = "99", "pods are not read yet"
    await house.keeper.round()
    assert house.writes == 0


async def test_a_restore_is_noticed_before_the_write(house: House) -> None:
    """The API server is behind the cache: its data were put back, and the cache is of another world."""
    house.api.add_quota(used={"*": {GPU: 5}}, podsResourceVersion="8")
    house.see(version=500)
    with pytest.raises(WentBackError):
        await house.keeper.round()
    assert house.held() == 5


async def test_a_restore_is_noticed_while_nothing_happens(house: House) -> None:
    """A watch of a version that is not there yet is accepted by the API server, and says nothing."""
    house.see(pod("a"))
    await house.keeper.round()
    house.api.revision = 5
    house.time.seconds += ASK_SECONDS - 1
    await house.keeper.round()
    house.time.seconds += 1
    house.api.fail = lambda *_: ApiUnreachable("not yet")
    await house.keeper.round()
    house.api.fail = lambda *_: None
    house.time.seconds += ASK_SECONDS
    with pytest.raises(WentBackError):
        await house.keeper.round()


async def test_a_restore_in_between_is_noticed_by_the_write(house: House) -> None:
    """The list came from before, the write from after: its version tells."""
    house.see(pod("a"), version=house.api.revision)

    def restored(method: str, path: str) -> Exception | None:
        if (method, path) == ("PUT", f"{QUOTAS}/q/status"):
            house.api.revision = 2
        return None

    house.api.fail = restored
    with pytest.raises(WentBackError):
        await house.keeper.round()


async def test_a_ledger_of_a_world_that_is_no_more_is_counted_anew(house: House) -> None:
    """After a restore from a backup of objects alone the version in the ledger lies in the future."""
    house.api.add_quota(used={"*": {GPU: 8}}, podsResourceVersion="99999")
    house.see(pod("a"))
    await house.keeper.round()
    assert house.held() == 1


async def test_a_reservation_expires_only_after_its_time_and_a_look(house: House) -> None:
    """Seen long enough by this process, and no pod of this UID: then, and not before."""
    house.reserve("never", "slow", "other")
    house.api.pods = {"team-a/p-slow": "slow", "team-a/p-other": "a-successor"}
    house.see()
    await house.keeper.round()
    house.time.seconds += EXPIRE
    await house.keeper.round()
    assert set(house.api.status()["reservations"]) == {"never", "slow", "other"}
    house.time.seconds += 1
    house.see()
    await house.keeper.round()
    assert set(house.api.status()["reservations"]) == {"slow"}


async def test_nothing_expires_while_pods_cannot_be_looked_up(house: House) -> None:
    """No answer is no proof."""
    house.reserve("a")
    house.see()
    await house.keeper.round()
    house.time.seconds += EXPIRE + 1
    house.api.fail = lambda method, _: ApiUnreachable("down") if method == "GET" else None
    await house.keeper.round()
    assert set(house.api.status()["reservations"]) == {"a"}


@pytest.mark.parametrize("name", ["../../../secrets/x", "p*", ""])
async def test_names_that_no_pod_can_have_are_never_asked_for(house: House, name: str) -> None:
    """A forged review cannot make the keeper read other paths."""
    expiry = Expiry(house.api, house.time, EXPIRE)
    forged = {"x": Reservation("team-a", name, "*", {GPU: 1})}
    assert await expiry.never_came("q", forged) == {"x"}
    assert house.api.requests == []


async def test_deleted_pods_give_back_at_once(house: House) -> None:
    """A pod that came and went between two rounds was seen."""
    house.reserve("a")
    house.see()
    house.view.deleted = {"a"}
    await house.keeper.round()
    assert house.held() == 0


async def test_what_slipped_in_is_told_once(house: House) -> None:
    """The newest pods of the excess get an Event, and nothing else happens to them."""
    house.api.add_quota(hard=1)
    pods = [pod("old", created="2025-01-01T00:00:00Z"), pod("new", created="2025-01-02T00:00:00Z")]
    for _ in range(2):
        house.see(*pods)
        await house.keeper.round()
    ((name, note),) = house.told.notes
    assert name == "p-new"
    assert "2 of 1 devices in use" in note
    assert house.api.status()["over"] == ["*"]


async def test_an_outage_ends_the_round_and_not_the_keeper(house: House) -> None:
    """The next round does what this one could not."""
    house.see(pod("a"))
    house.api.fail = lambda _, __: ApiUnreachable("down")
    await house.keeper.round()
    house.api.fail = lambda _, __: None
    await house.keeper.round()
    assert house.held() == 1
