"""The composed webhook with a fake of the caches: waiting for namespaces, counting, dry runs, draining."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from policy.objects import Namespace
from policy.selection import PolicySet
from runtime.clock import SystemClock
from webhook.answers import Denied, RefusedBy
from webhook.app import MUTATE, VALIDATE, Admission, Webhook, keep_certificate
from webhook.decision import Decision, Outcome
from webhook.metrics import WebhookMetrics
from webhook.reception import Limits, reviewed
from webhook.review import UserInfo
from webhook.rights import Right
from webhook.tls import ServingCertificate

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

Object = dict[str, Any]
MakePod = Callable[..., Object]
REVIEWS = "gpu_tenure_webhook_reviews_total"


class Caches:
    """What runtime.catalog.Catalog offers, steered by a test."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.synced = True
        self.arrives_after_wait = False
        self.waits: list[float] = []

    @property
    def policies(self) -> PolicySet:
        """The policies of the door."""
        return self._door.world().policies

    def namespace(self, name: str) -> Namespace | None:
        """The namespace of the door."""
        assert name == self._door.namespace
        return self._door.world().namespace

    async def wait_namespace(self, name: str, timeout: float) -> Namespace | None:  # noqa: ASYNC109
        """Notes the wait; the namespace comes if the test says so."""
        self.waits.append(timeout)
        self._door.namespace_known = self.arrives_after_wait
        return self.namespace(name)


class Nobody:
    """Rights that nobody has."""

    async def may_use(self, user: UserInfo, policy: str, namespace: str) -> Right:
        """Denied."""
        assert (user.username, policy, namespace) == ("dev-a", "default", "team-a")
        return Right.DENIED


class App:
    """A composed webhook."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.caches = Caches(door)
        self.registry = CollectorRegistry()
        self.metrics = WebhookMetrics(self.registry)
        self.admission = Admission(self.caches, door.settings(), self.metrics, SystemClock(), 0.25, Nobody())

    async def post(self, path: str, obj: Object) -> Object:
        """Sends a review past the server and gives the response."""
        answer = json.loads(await reviewed(self.admission.routes()[path], self.door.review(obj)))
        assert answer["response"]["uid"] == "0001"
        response: Object = answer["response"]
        return response

    def count(self, name: str, **labels: str) -> float | None:
        """The value of a metric."""
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def app(enforced: Door) -> App:
    """A webhook whose caches hold the enforcing policy."""
    return App(enforced)


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    """What was logged."""
    with structlog.testing.capture_logs() as lines:
        yield lines


async def test_a_namespace_that_comes_in_time_is_waited_for(app: App, pod: MakePod) -> None:
    """A pod may be created faster than the watch tells of its namespace."""
    app.door.namespace_known = False
    app.caches.arrives_after_wait = True
    assert "patch" in await app.post(MUTATE, pod())
    assert app.caches.waits == [0.25]


async def test_a_namespace_that_does_not_come_is_answered_without_a_patch_and_counted(
    app: App, pod: MakePod, logged: list[Any]
) -> None:
    """Never longer than that: the pod is admitted, and the reaper completes it."""
    app.door.namespace_known = False
    assert await app.post(MUTATE, pod()) == {"uid": "0001", "allowed": True}
    assert app.count(REVIEWS, path=MUTATE, outcome="NamespaceUnknown", dry_run="false") == 1
    assert [line["event"] for line in logged] == ["object admitted without terms"]


@pytest.mark.parametrize("obj", [pytest.param(0, id="a CPU pod"), pytest.param(None, id="another kind")])
async def test_nobody_else_waits_for_a_namespace(app: App, pod: MakePod, obj: int | None) -> None:
    """Only GPU pods are worth the wait."""
    app.door.namespace_known = False
    sent = pod(obj) if obj is not None else {"apiVersion": "v1", "kind": "Service"}
    await app.post(MUTATE, sent)
    assert app.caches.waits == []


async def test_before_the_caches_are_complete_nothing_is_decided_from_them(app: App, pod: MakePod) -> None:
    """Half of the policies could mean the wrong one."""
    app.caches.synced = False
    assert "patch" not in await app.post(MUTATE, pod())


async def test_a_dry_run_counts_as_such_and_injects_nothing(app: App, pod: MakePod) -> None:
    """Kubectl --dry-run=server gets the same answer and leaves nothing behind."""
    real = await app.post(MUTATE, pod())
    app.door.dry_run = True
    assert await app.post(MUTATE, pod()) == real
    assert app.count(REVIEWS, path=MUTATE, outcome="Patched", dry_run="false") == 1
    assert app.count(REVIEWS, path=MUTATE, outcome="Patched", dry_run="true") == 1
    assert app.count("gpu_tenure_webhook_pods_total", **{"class": "batch"}) == 1
    assert app.count("gpu_tenure_webhook_deadlines_total", decision="injected") == 1


async def test_what_is_counted(app: App, pod: MakePod, job: MakePod) -> None:
    """Deadlines of Jobs, replaced terms, missing and exceeding ones, and the time of each review."""
    label = {"gpu-tenure.io/idle-after": "9h"}
    await app.post(MUTATE, job())
    await app.post(MUTATE, pod(metadata={"labels": label}))
    await app.post(VALIDATE, pod(metadata={"labels": label}))
    assert app.count("gpu_tenure_webhook_deadlines_total", decision="injected") == 2
    assert app.count("gpu_tenure_webhook_terms_replaced_total", term="idle-after") == 1
    assert app.count("gpu_tenure_webhook_pods_without_terms_total") == 1
    assert app.count("gpu_tenure_webhook_terms_exceeding_total", term="idle-after") == 1
    assert app.count("gpu_tenure_webhook_review_seconds_count", path=MUTATE) == 2
    assert app.count("gpu_tenure_webhook_review_seconds_bucket", path=MUTATE, le="+Inf") == 2
    assert app.count(REVIEWS, path=VALIDATE, outcome="Checked", dry_run="false") == 1


@pytest.mark.parametrize(("dry_run", "counted"), [(False, 1), (True, 0)], ids=["real", "a dry run"])
def test_refusals_are_counted_by_what_refuses(dry_run: bool, counted: int) -> None:
    """All are shown from the start, for the first of a kind is the one to see."""
    registry = CollectorRegistry()
    metrics = WebhookMetrics(registry)
    refusal = Denied("no", RefusedBy.IMAGES)
    metrics.reviewed(
        VALIDATE, Decision(outcome=Outcome.REFUSED, answer=refusal), dry_run=dry_run, seconds=0.1
    )
    found = {
        by: registry.get_sample_value("gpu_tenure_webhook_refusals_total", {"by": by}) for by in RefusedBy
    }
    assert found == {**dict.fromkeys(RefusedBy, 0), RefusedBy.IMAGES: counted}


async def test_a_refusal_is_logged_with_its_sentence(door: Door, pod: MakePod, logged: list[Any]) -> None:
    """An administrator finds out who was refused and why."""
    app = App(door.policy(requireTerms=True))
    response = await app.post(VALIDATE, pod())
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert [line["reason"] for line in logged] == [response["status"]["message"]]


async def test_readiness_follows_the_life_of_the_server(app: App) -> None:
    """Not before it listens, not after the stop has begun; the drain takes the time that it was given."""
    process = Webhook(app.admission, Limits(), app.metrics)
    assert process.not_ready() == "not listening yet"
    stop, drained, slept = asyncio.Event(), asyncio.Event(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await drained.wait()

    serving = asyncio.create_task(process.serve("127.0.0.1", 0, None, stop, 8.0, sleep))
    async with asyncio.timeout(5):
        while process.not_ready() is not None:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.005)
        stop.set()
        while not slept:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
        assert process.not_ready() == "draining: reviews should go to another replica"
        assert not serving.done()
        drained.set()
        await serving
    assert slept == [8.0]


async def test_the_certificate_is_looked_at_again_and_again() -> None:
    """Every few seconds, for ever."""
    looks: list[float] = []

    class Certificate(ServingCertificate):
        """Counts instead of reading files."""

        def __init__(self) -> None:
            """Reads nothing."""

        def reload_if_changed(self) -> bool:
            """Counts a look."""
            looks.append(1)
            return False

    async def sleep(_: float) -> None:
        if len(looks) == 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await keep_certificate(Certificate(), sleep)
    assert len(looks) == 3
