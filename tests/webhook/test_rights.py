"""The right to use a policy: what is asked, how long answers count, and what happens without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pytest

from policy.keys import Enforcement
from policy.profile import Profile
from runtime.answers import ApiError, ApiUnreachable, Response
from runtime.kube import IDLE_STREAM_SECONDS, Query
from webhook.answers import Denied
from webhook.decision import Decision, Outcome
from webhook.review import UserInfo
from webhook.rights import REVIEWS_PATH, Right, Rights, RightsLimits
from webhook.rights_stage import rights_stage
from webhook.validation import terms_stage, validate

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

T = TypeVar("T")
Object = dict[str, Any]
MakePod = Callable[..., Object]
USER = UserInfo("dev-a", ("g1", "g2"), "u-1", {"scope": ("a", "b")})


class Time:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        """Never asked for."""
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        """The seconds that a test set."""
        return self.seconds


class Server:
    """An API server that answers reviews: `allowed` may be a verdict, a failure to raise, or a wait."""

    def __init__(self) -> None:
        self.asked: list[Object] = []
        self.called = asyncio.Event()
        self.allowed: bool | Exception | asyncio.Event = True
        self.open = self.most_open = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,  # noqa: ARG002
        body: object = None,
        content_type: str = "application/json",  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
    ) -> Response:
        """Answers a review."""
        assert (method, path) == ("POST", REVIEWS_PATH)
        self.called.set()
        self.asked.append(msgspec.json.decode(msgspec.json.encode(body)))
        if isinstance(self.allowed, Exception):
            raise self.allowed
        if isinstance(self.allowed, asyncio.Event):
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            try:
                await self.allowed.wait()
            finally:
                self.open -= 1
        status = {"allowed": self.allowed is not False, "reason": "RBAC"}
        return Response(201, {}, msgspec.json.encode({"kind": "SubjectAccessReview", "status": status}))

    async def get(self, path: str, kind: type[T], *, query: Query | None = None) -> T:
        """Never asked for."""
        raise NotImplementedError

    async def stream(
        self,
        path: str,  # noqa: ARG002
        query: Query | None = None,  # noqa: ARG002
        idle_timeout: float = IDLE_STREAM_SECONDS,  # noqa: ARG002
    ) -> AsyncGenerator[bytes, None]:
        """Never asked for."""
        raise NotImplementedError
        yield b""


@pytest.fixture
def server() -> Server:
    """A server that allows everything."""
    return Server()


@pytest.fixture
def time() -> Time:
    """A time that stands still."""
    return Time()


@pytest.fixture
def counted() -> list[str]:
    """The results that were counted."""
    return []


@pytest.fixture
def rights(server: Server, time: Time, counted: list[str]) -> Rights:
    """Rights with the default limits."""
    return Rights(server, time, RightsLimits(timeout_seconds=0.05, kept=3), counted.append)


async def test_the_whole_user_is_told(rights: Rights, server: Server) -> None:
    """Name, UID, groups and extra values: an authorizer may look at any of them."""
    assert await rights.may_use(USER, "ml", "team-a") is Right.ALLOWED
    assert server.asked == [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "dev-a",
                "uid": "u-1",
                "groups": ["g1", "g2"],
                "extra": {"scope": ["a", "b"]},
                "resourceAttributes": {
                    "group": "gpu-tenure.io",
                    "version": "v1alpha1",
                    "resource": "gpupolicies",
                    "name": "ml",
                    "verb": "use",
                    "namespace": "team-a",
                },
            },
        }
    ]


@pytest.mark.parametrize(("allowed", "seconds"), [(True, 10), (False, 2)], ids=["allowed", "denied"])
async def test_answers_count_for_a_moment(
    rights: Rights, server: Server, time: Time, allowed: bool, seconds: float
) -> None:
    """A right that is given or taken counts soon."""
    server.allowed = allowed
    for moment, asked in ((0, 1), (seconds - 0.1, 1), (seconds, 2)):
        time.seconds = moment
        assert await rights.may_use(USER, "ml", "team-a") is (Right.ALLOWED if allowed else Right.DENIED)
        assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("user", "policy", "namespace"),
    [
        pytest.param(UserInfo("dev-b", ("g1", "g2"), "u-1", {"scope": ("a", "b")}), "ml", "a", id="a name"),
        pytest.param(UserInfo("dev-a", ("g1",), "u-1", {"scope": ("a", "b")}), "ml", "a", id="a group"),
        pytest.param(UserInfo("dev-a", ("g1", "g2"), "u-2", {"scope": ("a", "b")}), "ml", "a", id="a UID"),
        pytest.param(
            UserInfo("dev-a", ("g1", "g2"), "u-1", {"scope": ("a",)}), "ml", "a", id="an extra value"
        ),
        pytest.param(UserInfo("dev-a", ("g1", "g2"), "u-1", None), "ml", "a", id="no extra values"),
        pytest.param(USER, "other", "a", id="a policy"),
        pytest.param(USER, "ml", "b", id="a namespace"),
    ],
)
async def test_nobody_profits_from_the_answer_to_another_question(
    rights: Rights, server: Server, user: UserInfo, policy: str, namespace: str
) -> None:
    """Whatever differs is asked anew."""
    assert await rights.may_use(USER, "ml", "a") is Right.ALLOWED
    server.allowed = False
    assert await rights.may_use(user, policy, namespace) is Right.DENIED


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(ApiUnreachable("reset"), id="no connection"),
        pytest.param(ApiError(403, "Forbidden"), id="no right to ask"),
        pytest.param(ApiError(500, "InternalError"), id="an internal error"),
        pytest.param(asyncio.Event(), id="no answer in time"),
    ],
)
async def test_trouble_is_unknown_and_forgotten(
    rights: Rights, server: Server, counted: list[str], failure: Any
) -> None:
    """The next review asks again."""
    server.allowed = failure
    assert await rights.may_use(USER, "ml", "team-a") is Right.UNKNOWN
    server.allowed = True
    assert await rights.may_use(USER, "ml", "team-a") is Right.ALLOWED
    assert counted == ["unknown", "allowed"]


async def test_an_odd_answer_is_unknown(rights: Rights, server: Server, monkeypatch: Any) -> None:
    """An answer without a verdict gives no right."""

    async def odd(*_: Any, **__: Any) -> Response:
        return Response(201, {}, b'{"status": "yes"}')

    monkeypatch.setattr(server, "request", odd)
    assert await rights.may_use(USER, "ml", "team-a") is Right.UNKNOWN


async def test_equal_questions_are_asked_once(server: Server, time: Time) -> None:
    """A hundred pods at once are one question, also when the first to ask goes away."""
    rights = Rights(server, time, RightsLimits(timeout_seconds=30))
    server.allowed = gate = asyncio.Event()
    first = asyncio.create_task(rights.may_use(USER, "ml", "team-a"))
    others = [asyncio.create_task(rights.may_use(USER, "ml", "team-a")) for _ in range(99)]
    await asyncio.wait_for(server.called.wait(), 5)
    first.cancel()
    gate.set()
    assert await asyncio.gather(*others) == [Right.ALLOWED] * 99
    assert len(server.asked) == 1


async def test_few_questions_at_once(server: Server, time: Time) -> None:
    """Forged reviews of ever new users cannot flood the API server; who waits too long is unknown."""
    rights = Rights(server, time, RightsLimits(timeout_seconds=0.05, at_once=2))
    server.allowed = asyncio.Event()
    answers = await asyncio.gather(*(rights.may_use(UserInfo(f"u{n}"), "ml", "a") for n in range(20)))
    assert answers == [Right.UNKNOWN] * 20
    assert server.most_open == 2


async def test_what_is_remembered_is_bounded(rights: Rights, server: Server) -> None:
    """Three answers are kept, the oldest goes first."""
    for name in ("a", "b", "c", "d", "d", "b", "a"):
        await rights.may_use(UserInfo(name), "ml", "x")
    assert [question["spec"]["user"] for question in server.asked] == ["a", "b", "c", "d", "a"]


class Given:
    """Rights as a test gives them; remembers who was asked for."""

    def __init__(self, right: Right) -> None:
        self.right = right
        self.asked: list[tuple[str, str, str]] = []

    async def may_use(self, user: UserInfo, policy: str, namespace: str) -> Right:
        """The right that was given."""
        self.asked.append((user.username, policy, namespace))
        return self.right


@pytest.fixture
def guarded(door: Door) -> Door:
    """A door whose policy wants the right."""
    return door.policy("ml", requireUse=True, contact={"url": "https://desk.example"})


async def check(door: Door, obj: Object, given: Given) -> Decision:
    """Runs the validating path."""
    stages = (terms_stage(door.memory), rights_stage(given, door.settings()))
    return await validate(door.request(obj), door.world(), door.settings(), door.memory, stages)


async def test_who_lacks_the_right_is_refused_with_a_sentence(guarded: Door, pod: MakePod) -> None:
    """It says who, which policy, where, and how to come by the right."""
    given = Given(Right.DENIED)
    decision = await check(guarded, pod(), given)
    assert decision.outcome is Outcome.REFUSED
    assert isinstance(decision.answer, Denied)
    assert decision.answer.code == 403
    assert decision.answer.message == (
        "dev-a may not use GPUPolicy ml in namespace team-a, which GPU pods here need: ask an "
        "administrator for the verb use on gpupolicies.gpu-tenure.io/ml "
        "(ClusterRole gpu-tenure-policy-user). "
        "Questions: https://desk.example."
    )
    assert given.asked == [("dev-a", "ml", "team-a")]


async def test_who_has_the_right_passes(guarded: Door, pod: MakePod) -> None:
    """In silence about it."""
    assert (await check(guarded, pod(), Given(Right.ALLOWED))).allowed


async def test_trusted_controllers_pass_unasked(guarded: Door, pod: MakePod) -> None:
    """They act for somebody whose object was checked."""
    guarded.user = "system:serviceaccount:kube-system:job-controller"
    given = Given(Right.DENIED)
    assert (await check(guarded, pod(), given)).allowed
    assert given.asked == []


async def test_a_forged_controller_reference_helps_nobody(guarded: Door, pod: MakePod) -> None:
    """The sender counts, not what the pod says of its owner."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    made = pod(metadata={"name": "p", "ownerReferences": [owner]})
    assert not (await check(guarded, made, Given(Right.DENIED))).allowed


async def test_policies_without_it_ask_nothing(enforced: Door, pod: MakePod) -> None:
    """The right is a choice of the policy."""
    given = Given(Right.DENIED)
    assert (await check(enforced, pod(), given)).allowed
    assert given.asked == []


@pytest.mark.parametrize(
    ("profile", "enforcement"),
    [(Profile.OBSERVE, None), (Profile.WARN, None), (Profile.ENFORCE, Enforcement.DRY_RUN)],
    ids=["observe", "warn", "a dry-run namespace"],
)
async def test_where_nothing_is_enforced_a_refusal_is_a_warning(
    guarded: Door, pod: MakePod, profile: Profile, enforcement: Enforcement | None
) -> None:
    """And trouble is not even that."""
    guarded.profile = profile
    guarded.namespace_labels = {"gpu-tenure.io/enforcement": enforcement.value} if enforcement else {}
    decision = await check(guarded, pod(), Given(Right.DENIED))
    assert decision.allowed
    assert any("would be refused: dev-a may not use GPUPolicy ml" in text for text in decision.warnings)
    decision = await check(guarded, pod(), Given(Right.UNKNOWN))
    assert decision.allowed
    assert not any("would be refused" in text for text in decision.warnings)


async def test_trouble_under_enforce_asks_to_come_again(guarded: Door, pod: MakePod) -> None:
    """As an administrator chose: no answer is no admission, but the client is told to try again."""
    decision = await check(guarded, pod(), Given(Right.UNKNOWN))
    assert isinstance(decision.answer, Denied)
    assert (decision.answer.code, decision.answer.retry_after_seconds) == (429, 1)
    assert "try again" in decision.answer.message
