"""What the quota check answers: whom it concerns, in which words, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from policy.classes import PodClass
from policy.profile import Profile
from policy.resourcequota import Room
from runtime.quotas import StoredQuota, read_stored
from tests.quota.memory import MemoryApi
from tests.runtime.fakes import FakeTime, settle
from webhook.answers import Allowed, Denied
from webhook.decision import Decision
from webhook.quota_metrics import QuotaMetrics
from webhook.quota_stage import QuotaStage
from webhook.quotas import Labels, QuotaBook
from webhook.reservations import Desk, Desks
from webhook.validation import validate

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

GPU = "nvidia.com/gpu"
Make = Callable[..., dict[str, Any]]


class Counter(QuotaBook):
    """The quotas of an API server in memory, as a watch without any delay would show them."""

    def __init__(self, api: MemoryApi) -> None:
        self._api = api
        self.known = True
        self.silence: str | None = None
        self.labels: Labels = {}

    @property
    def synced(self) -> bool:
        """Whether quotas have been read."""
        return self.known

    async def heard(self, namespace: str) -> Labels | None:  # noqa: ARG002 - one namespace
        """The labels of the namespace, unless nothing can be read."""
        return None if self.silence else self.labels

    def unheard(self) -> str | None:
        """What is told of a silence."""
        return self.silence

    def all(self) -> list[StoredQuota]:
        """All quotas."""
        return [read_stored(self._api.raw(name)) for name in self._api.quotas]

    def get(self, name: str) -> StoredQuota | None:
        """One quota."""
        return read_stored(self._api.raw(name)) if name in self._api.quotas else None


class Hall:
    """The validating path with the quota check, over an API server in memory."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.api = MemoryApi()
        self.time = FakeTime(auto=True)
        self.book = Counter(self.api)
        self.rooms: list[Room] = []
        metrics = QuotaMetrics(CollectorRegistry())

        def desk(name: str) -> Desk:
            known = lambda: self.book.get(name)  # noqa: E731 - bound to this name
            return Desk(self.api, known, weigh, self.time, metrics, sleep=self.time.sleep)

        self.stage = QuotaStage(self.book, Desks(desk), lambda _: self.rooms, weigh, metrics, self.time)

    async def decide(self, pod: dict[str, Any]) -> Decision:
        """What validation says of a pod."""
        door = self.door
        return await validate(door.request(pod), door.world(), door.settings(), door.memory, (self.stage,))

    async def refusal(self, pod: dict[str, Any]) -> Denied:
        """The refusal; fails if there is none."""
        answer = (await self.decide(pod)).answer
        assert isinstance(answer, Denied), answer
        return answer

    def reserved(self, name: str = "q") -> set[str]:
        """UIDs in the ledger of a quota."""
        return set(self.api.status(name).get("reservations") or {})


def weigh(_: str) -> Fraction:
    """Every unit is a device."""
    return Fraction(1)


@pytest.fixture
def hall(door: Door) -> Hall:
    """Under enforce, without a quota yet."""
    return Hall(door)


@pytest.fixture
def gpu_pod(pod: Make) -> Make:
    """Makes a pod as the validating path sees it, with its UID."""

    def make(uid: str = "u1", gpus: int = 1, **metadata: Any) -> dict[str, Any]:
        return pod(gpus, metadata={"name": f"p-{uid}", "uid": uid, **metadata})

    return make


async def test_a_pod_that_fits_is_in_the_ledger(hall: Hall, gpu_pod: Make) -> None:
    """It is admitted, without a word, after it was written down."""
    hall.api.add_quota()
    assert (await hall.decide(gpu_pod())).answer == Allowed()
    assert hall.reserved() == {"u1"}


async def test_a_refusal_says_all_that_one_needs(hall: Hall, gpu_pod: Make) -> None:
    """Quota, used, hard, asked, and who holds it."""
    holders = {"*": ["team-a/Job/train (5, idle since 2025-01-01T08:00:00Z)", "team-b/Pod/x (2)"]}
    hall.api.add_quota(used={"*": {GPU: 7}}, holders=holders)
    refusal = await hall.refusal(gpu_pod(gpus=2))
    assert refusal.code == 403
    assert refusal.message == (
        "GPUQuota q has 7 of 8 devices in use, and this pod asks for 2. "
        "Held by team-a/Job/train (5, idle since 2025-01-01T08:00:00Z); team-b/Pod/x (2)."
    )
    assert hall.reserved() == set()


async def test_a_pod_larger_than_the_quota_is_told_so(hall: Hall, gpu_pod: Make) -> None:
    """Waiting will not help."""
    hall.api.add_quota(hard=2)
    assert (await hall.refusal(gpu_pod(gpus=3))).message.endswith("It can never fit.")


async def test_a_rollout_gets_the_hint(hall: Hall, gpu_pod: Make) -> None:
    """The pod of a ReplicaSet is often one too many for a moment."""
    hall.api.add_quota(used={"*": {GPU: 8}})
    hall.door.user = "system:serviceaccount:kube-system:replicaset-controller"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": True}
    refusal = await hall.refusal(gpu_pod(ownerReferences=[owner]))
    assert "set maxSurge to 0" in refusal.message


@pytest.mark.parametrize(
    ("status", "why"),
    [
        pytest.param({"observedGeneration": 0}, "has changed and is being counted", id="a new generation"),
        pytest.param({"namespaces": ["team-b"]}, "has not counted namespace team-a", id="a new namespace"),
        pytest.param(
            {
                "reservations": {
                    f"r{n}": {"namespace": "team-a", "name": f"r{n}", "subject": "*", "counts": {GPU: 1}}
                    for n in range(4)
                }
            },
            "waits for half of GPUQuota q",
            id="half of it unconfirmed",
        ),
    ],
)
async def test_what_passes_by_itself_is_tried_again(
    hall: Hall, gpu_pod: Make, status: dict[str, Any], why: str
) -> None:
    """Code 429 with a time makes clients come again by themselves."""
    hall.api.add_quota(**status)
    refusal = await hall.refusal(gpu_pod())
    assert (refusal.code, refusal.reason, refusal.retry_after_seconds) == (429, "TooManyRequests", 1)
    assert why in refusal.message


async def test_several_quotas_are_taken_by_name_and_given_back(hall: Hall, gpu_pod: Make) -> None:
    """The second refuses, so the first gets back what this review took."""
    hall.api.add_quota("a")
    hall.api.add_quota("b", used={"*": {GPU: 8}})
    assert "GPUQuota b" in (await hall.refusal(gpu_pod())).message
    await settle()
    assert hall.reserved("a") == set()
    assert next(path for method, path in hall.api.requests if method == "PUT").endswith("/a/status")


async def test_what_another_review_took_is_not_given_back(hall: Hall, gpu_pod: Make) -> None:
    """The pod was let in before; a second review of the same pod is refused, and takes nothing away."""
    reservation = {"namespace": "team-a", "name": "p-u1", "subject": "*", "counts": {GPU: 1}}
    hall.api.add_quota("a", reservations={"u1": reservation})
    hall.api.add_quota("b", used={"*": {GPU: 8}})
    await hall.refusal(gpu_pod())
    await settle()
    assert hall.reserved("a") == {"u1"}


async def test_a_dry_run_leaves_nothing(hall: Hall, gpu_pod: Make) -> None:
    """The same answers, and not one request."""
    hall.api.add_quota()
    hall.door.dry_run = True
    assert (await hall.decide(gpu_pod())).allowed
    assert not (await hall.decide(gpu_pod(gpus=9))).allowed
    assert hall.api.requests == []


async def test_dry_run_namespaces_count_and_are_warned(hall: Hall, gpu_pod: Make) -> None:
    """Nothing is refused there, and the ledger knows of it."""
    hall.api.add_quota(used={"*": {GPU: 8}})
    hall.door.namespace_labels = {"gpu-tenure.io/enforcement": "dry-run"}
    decision = await hall.decide(gpu_pod())
    assert decision.allowed
    assert any("would be refused: GPUQuota q" in warning for warning in decision.warnings)
    assert hall.reserved() == {"u1"}


async def test_a_profile_that_only_observes_delays_nobody(hall: Hall, gpu_pod: Make) -> None:
    """What cannot be told at once is left open."""
    hall.api.add_quota(observedGeneration=0)
    hall.door.profile = Profile.OBSERVE
    assert (await hall.decide(gpu_pod())).answer == Allowed()
    hall.book.known = False
    assert (await hall.decide(gpu_pod())).answer == Allowed()


async def test_nearly_full_is_said(hall: Hall, gpu_pod: Make) -> None:
    """From nine tenths on."""
    hall.api.add_quota(used={"*": {GPU: 7}})
    (warning,) = (await hall.decide(gpu_pod())).warnings
    assert "GPUQuota q is nearly full: 8 of 8 devices in use" in warning


async def test_a_full_resource_quota_refuses_before_anything_is_reserved(hall: Hall, gpu_pod: Make) -> None:
    """The API server would refuse the pod after us, and the reservation would be stranded."""
    hall.api.add_quota()
    hall.rooms = [Room("ResourceQuota", "team", GPU, 4, 4)]
    message = (await hall.refusal(gpu_pod())).message
    assert message == f"ResourceQuota team has 4 of 4 {GPU} in use, and this pod asks for 1."
    assert hall.api.requests == []


async def test_pods_that_no_quota_selects_ask_nobody(hall: Hall, gpu_pod: Make) -> None:
    """Whatever is wrong with quotas does not reach them."""
    hall.api.add_quota(namespaces=["team-b"])
    hall.api.quotas["q"]["spec"]["namespaceSelector"] = {"matchLabels": {"team": "b"}}
    hall.api.fail = lambda _, __: AssertionError("asked")
    assert (await hall.decide(gpu_pod())).answer == Allowed()


async def test_quotas_that_are_not_read_yet_refuse_nobody_for_ever(hall: Hall, gpu_pod: Make) -> None:
    """A replica that has just started asks clients to come again."""
    hall.book.known = False
    assert (await hall.refusal(gpu_pod())).code == 429


async def test_who_cannot_tell_lets_nobody_past_a_quota_that_may_be_new(hall: Hall, gpu_pod: Make) -> None:
    """Also where no quota is known: there may be one by now."""
    hall.book.silence = "GPUQuotas could not be read for 9 s"
    refusal = await hall.refusal(gpu_pod())
    assert (refusal.code, refusal.retry_after_seconds) == (429, 1)
    assert "GPUQuotas cannot be read at present" in refusal.message
    assert hall.api.requests == []


@pytest.mark.parametrize(
    ("profile", "labels"),
    [
        pytest.param(Profile.OBSERVE, {}, id="a profile that only observes"),
        pytest.param(Profile.WARN, {}, id="a profile that only warns"),
        pytest.param(Profile.ENFORCE, {"gpu-tenure.io/enforcement": "dry-run"}, id="a dry-run namespace"),
    ],
)
async def test_where_nothing_is_refused_a_silence_is_only_told(
    hall: Hall, gpu_pod: Make, profile: Profile, labels: dict[str, str]
) -> None:
    """The pod is let in, at once."""
    hall.door.profile, hall.door.namespace_labels = profile, labels
    hall.book.silence = "GPUQuotas could not be read for 9 s"
    decision = await hall.decide(gpu_pod())
    assert decision.allowed
    assert any("would have to wait: GPUQuotas could not be read for 9 s" in one for one in decision.warnings)


async def test_labels_that_the_watch_did_not_bring_count(hall: Hall, gpu_pod: Make) -> None:
    """The namespace was put under the quota while the watch of namespaces hung."""
    hall.api.add_quota(used={"*": {GPU: 8}}, namespaces=[])
    hall.api.quotas["q"]["spec"]["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    assert (await hall.decide(gpu_pod())).answer == Allowed()
    hall.book.labels = {"team": "a"}
    assert "has not counted namespace team-a" in (await hall.refusal(gpu_pod())).message


async def test_a_quota_that_cannot_be_read_is_named(hall: Hall, gpu_pod: Make) -> None:
    """Ignoring it would let everything pass."""
    hall.api.add_quota()
    hall.api.quotas["q"]["spec"] = {"hard": {}}
    refusal = await hall.refusal(gpu_pod())
    assert "GPUQuota q cannot be applied, an administrator has to repair it" in refusal.message


async def test_the_requester_is_whose_limit_counts(hall: Hall, gpu_pod: Make) -> None:
    """The annotation that admission stamped decides."""
    hall.api.add_quota(used={"dev-b": {GPU: 8}})
    hall.api.quotas["q"]["spec"]["per"] = "requester"
    stamped = {"gpu-tenure.io/requested-by": "dev-b"}
    assert "GPUQuota q for dev-b has 8 of 8" in (await hall.refusal(gpu_pod(annotations=stamped))).message
    assert (await hall.decide(gpu_pod("u2"))).allowed
    assert hall.api.status()["reservations"]["u2"]["subject"] == "unknown:team-a"


async def test_a_forged_review_does_not_spoil_the_ledger(hall: Hall, gpu_pod: Make) -> None:
    """Of a name and a UID longer than any it gets what the ledger takes, and nothing is stuck."""
    hall.api.add_quota()
    assert isinstance((await hall.decide(gpu_pod("u" * 5000))).answer, Allowed)
    ((uid, reservation),) = hall.api.status("q")["reservations"].items()
    assert (len(uid), len(reservation["name"])) == (128, 253)


async def test_the_class_is_still_decided(hall: Hall, gpu_pod: Make) -> None:
    """A refusal by quota carries what else was found out."""
    hall.api.add_quota(hard=0)
    decision = await hall.decide(gpu_pod())
    assert (decision.pod_class, decision.outcome.value) == (PodClass.BATCH, "Refused")


async def test_a_pod_that_names_slices_without_end_reserves_under_few_names(
    hall: Hall, gpu_pod: Make
) -> None:
    """A ledger stays small enough to be written, and what the quota limits by name is kept by name."""
    hall.api.add_quota(hard=10_000)
    named = "nvidia.com/mig-3g.77gb"
    hall.api.quotas["q"]["spec"]["hard"][named] = "5"
    many = gpu_pod()
    limits = {f"nvidia.com/mig-{number % 7 + 1}g.{number}gb": "1" for number in range(2000)}
    many["spec"]["containers"][0]["resources"] = {"limits": {**limits, named: "2"}}
    assert (await hall.decide(many)).answer == Allowed()
    counts = hall.api.status()["reservations"]["u1"]["counts"]
    assert len(counts) <= 3
    assert counts[named] == 2
    assert sum(counts.values()) == len({*limits, named}) + 1
    more = gpu_pod("u2")
    more["spec"]["containers"][0]["resources"] = {"limits": {named: "4"}}
    assert f"GPUQuota q has 2 of 5 {named} in use" in (await hall.refusal(more)).message
