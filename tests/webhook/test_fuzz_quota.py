"""Random reviews with the quota check behind those of rights and images, over ledgers in memory.

Whatever is sent, no quota ever holds more than it may, and what is refused holds nothing.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from policy.profile import Profile
from policy.resourcequota import Room
from runtime.quotas import StoredQuota, read_stored
from tests.quota.memory import MemoryApi
from tests.runtime.fakes import FakeTime, settle
from tests.webhook.reviews import FAST, POLICY, USERS, change, changes, make_door, make_request, send
from webhook.app import MUTATE, VALIDATE, Admission
from webhook.quota_metrics import QuotaMetrics
from webhook.quota_stage import LONGEST_UID, QuotaStage
from webhook.quotas import Labels, QuotaBook
from webhook.reception import MalformedError
from webhook.reservations import Desk, Desks
from webhook.rights import Right

GPU = "nvidia.com/gpu"
POD = ("v1", "Pod")
Object = dict[str, Any]


class Shelf(QuotaBook):
    """The quotas of an API server in memory, as they are at any moment."""

    def __init__(self, api: MemoryApi, labels: dict[str, str]) -> None:
        self._api = api
        self._team = labels

    @property
    def synced(self) -> bool:
        """They have been read."""
        return True

    async def heard(self, namespace: str) -> Labels | None:  # noqa: ARG002 - one namespace
        """The labels of the namespace."""
        return self._team

    def unheard(self) -> str | None:
        """Nothing is in doubt."""
        return None

    def all(self) -> list[StoredQuota]:
        """All quotas."""
        return [read_stored(self._api.raw(name)) for name in self._api.quotas]

    def get(self, name: str) -> StoredQuota | None:
        """One quota."""
        return read_stored(self._api.raw(name)) if name in self._api.quotas else None


class Hall:
    """The decision path with every check that there is."""

    def __init__(
        self,
        profile: Profile,
        right: Right,
        fields: frozenset[str],
        quotas: list[tuple[int, str, int]],
        labels: dict[str, str],
    ) -> None:
        self.profile = profile
        self.api = MemoryApi()
        for number, (hard, per, used) in enumerate(quotas):
            self.api.add_quota(
                f"q{number}", hard, used={"team-a" if per == "namespace" else "*": {GPU: used}}
            )
            self.api.quotas[f"q{number}"]["spec"]["per"] = per
        self.enforcing = profile is Profile.ENFORCE and not labels
        time, metrics = FakeTime(auto=True), QuotaMetrics(CollectorRegistry())
        book = Shelf(self.api, labels)

        def desk(name: str) -> Desk:
            return Desk(self.api, lambda: book.get(name), weigh, time, metrics, sleep=time.sleep)

        rooms: list[Room] = []
        stage = QuotaStage(book, Desks(desk), lambda _: rooms, weigh, metrics, time)
        self.door: Admission = make_door(labels, profile, right, fields)
        self.door.keep_quotas(stage, lambda *_: ())

    def reserved(self) -> dict[str, set[str]]:
        """UIDs in each ledger."""
        return {name: set(self.api.status(name).get("reservations") or {}) for name in self.api.quotas}

    def held(self, name: str) -> int:
        """Devices that a ledger shows as held, by all subjects."""
        status = self.api.status(name)
        counts = [*status.get("used", {}).values()]
        counts += [one["counts"] for one in (status.get("reservations") or {}).values()]
        return sum(one.get(GPU, 0) for one in counts)


def weigh(name: str) -> Fraction:
    """Devices weigh one, and nothing else anything."""
    return Fraction(1 if name == GPU else 0)


halls = st.builds(
    Hall,
    st.sampled_from(list(Profile)),
    st.sampled_from([Right.ALLOWED, Right.ALLOWED, Right.ALLOWED, *Right]),
    # Most pods shall get past rights and images, to the quotas.
    st.frozensets(st.sampled_from(sorted(set(POLICY) - {"images"}))) | st.just(frozenset(POLICY)),
    st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from(["quota", "namespace"]), st.integers(0, 3)), max_size=3
    ),
    st.sampled_from([{}, {}, {"gpu-tenure.io/enforcement": "dry-run"}]),
)
pods = st.lists(st.tuples(changes, st.sampled_from(USERS), st.booleans()), min_size=1, max_size=5)


def named(number: int, user: str, *, dry_run: bool) -> Object:
    """The review of a pod that has its UID, as validating webhooks see it."""
    request = make_request(POD, user, update=False)
    request["object"]["metadata"] |= {"uid": f"u{number}", "name": f"p{number}"}
    return {**request, "name": f"p{number}", "dryRun": dry_run}


async def decided(hall: Hall, request: Object) -> Object:
    """The answer to a review, after all that it set going has ended."""
    response = await send(hall.door, VALIDATE, request)
    await settle()
    return response


@FAST
@given(hall=halls, sent=pods)
async def test_no_pod_gets_past_a_quota_and_no_refusal_holds_anything(hall: Hall, sent: list[Any]) -> None:
    """Sending a review again changes nothing, and a dry run leaves nothing."""
    at_first = {name: hall.held(name) for name in hall.api.quotas}
    for number, (changed, user, dry_run) in enumerate(sent):
        request = named(number, user, dry_run=dry_run)
        change(request["object"]["spec"], changed, keeps_types=True)
        await send(hall.door, MUTATE, request)
        before = hall.reserved()
        response = await decided(hall, request)
        after = hall.reserved()
        if dry_run or not response["allowed"]:
            assert after == before
        if not response["allowed"]:
            assert hall.enforcing
            assert response["status"]["code"] in {403, 429}
            assert response["status"]["message"]
        for name, hard in ((name, one["spec"]["hard"]["devices"]) for name, one in hall.api.quotas.items()):
            if hall.enforcing:
                assert hall.held(name) <= max(hard, at_first[name])
        if response["allowed"] and not dry_run:
            assert (await decided(hall, request))["allowed"]
            assert hall.reserved() == after


@FAST
@given(hall=halls, changed=changes, user=st.sampled_from(USERS), update=st.booleans())
async def test_whatever_is_sent_leaves_ledgers_that_can_be_read(
    hall: Hall, changed: list[Any], user: str, update: bool
) -> None:
    """Even reviews that no API server would send, such as forged ones."""
    request = make_request(POD, user, update=update)
    change(request, changed, keeps_types=False)
    try:
        await decided(hall, request)
    except MalformedError:
        assert not any(hall.reserved().values())
    for name in hall.api.quotas:
        stored = read_stored(hall.api.raw(name))
        assert stored.problem is None
        assert all(len(uid) <= LONGEST_UID for uid in hall.reserved()[name])
        assert msgspec.json.encode(hall.api.quotas[name])


async def test_the_reviews_reach_the_ledgers() -> None:
    """Were they refused before, nothing would be tested above."""
    hall = Hall(Profile.ENFORCE, Right.ALLOWED, frozenset({"requireUse"}), [(8, "quota", 2)], {})
    assert (await decided(hall, named(1, "dev-a", dry_run=False)))["allowed"]
    assert hall.reserved() == {"q0": {"u1"}}
    held = hall.held("q0")
    assert held > 2
    hall.api.quotas["q0"]["spec"]["hard"]["devices"] = held
    refused = await decided(hall, named(2, "dev-a", dry_run=False))
    assert not refused["allowed"]
    assert "GPUQuota q0" in refused["status"]["message"]
    assert hall.reserved() == {"q0": {"u1"}}
