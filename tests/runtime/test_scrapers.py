"""Who may read metrics, by what a real API server says of tokens."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from runtime.clock import SystemClock
from runtime.kube import ApiUnreachable, KubeClient, Response
from runtime.ops import OpsServer
from runtime.scrapers import (
    KEPT,
    REMEMBERED_SECONDS,
    STRANGERS,
    STRANGERS_SECONDS,
    Scrapers,
    guard_of,
)
from sandbox.cluster import Sandbox
from tests.runtime.fakes import FakeTime

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Asked:
    """An API server that knows the token `good`, and lets its user read if told so."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.allowed = True
        self.down = False

    async def request(self, method: str, path: str, *, body: Any, timeout: float) -> Response:  # noqa: ASYNC109, ARG002
        """Answers a review."""
        if self.down:
            raise ApiUnreachable(path)
        self.paths.append(path.rpartition("/")[2])
        if path.endswith("tokenreviews"):
            known = b"true" if body["spec"]["token"].startswith("good") else b"false"
            return Response(201, {}, b'{"status":{"authenticated":%s,"user":{"username":"p"}}}' % known)
        return Response(201, {}, b'{"status":{"allowed":%s}}' % (b"true" if self.allowed else b"false"))


@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param("Bearer good", 200, id="who may"),
        pytest.param("bearer good", 200, id="the scheme in any case"),
        pytest.param("Bearer bad", 401, id="whom nobody knows"),
        pytest.param("", 401, id="nobody"),
        pytest.param("Basic good", 401, id="another scheme"),
        pytest.param("Bearer ", 401, id="no token"),
        pytest.param("Bearer " + "good" * 10_000, 401, id="a token without end"),
        pytest.param("Bearer good\udcff", 401, id="bytes that are no text"),
    ],
)
async def test_a_header_is_judged(header: str, status: int) -> None:
    """By the API server, if it is one at all."""
    assert await Scrapers(Asked(), FakeTime(auto=True)).check(header) == status  # type: ignore[arg-type]


async def test_answers_are_remembered_for_a_moment() -> None:
    """A scrape every few seconds costs a question a minute; a right that was taken away ends then."""
    api, time = Asked(), FakeTime(auto=True)
    scrapers = Scrapers(api, time)  # type: ignore[arg-type]
    for _ in range(5):
        assert await scrapers.check("Bearer good") == 200
    assert api.paths == ["tokenreviews", "subjectaccessreviews"]
    api.allowed = False
    time.seconds += REMEMBERED_SECONDS
    assert await scrapers.check("Bearer good") == 403


async def test_what_is_remembered_has_a_limit_and_trouble_is_not_remembered() -> None:
    """Whoever tries tokens fills no memory, and an outage ends with the outage."""
    api = Asked()
    time = FakeTime(auto=True)
    scrapers = Scrapers(api, time)  # type: ignore[arg-type]
    api.down = True
    assert await scrapers.check("Bearer good") == 503
    api.down = False
    assert await scrapers.check("Bearer good") == 200
    for number in range(2 * KEPT):
        await scrapers.check(f"Bearer bad{number}")
        time.seconds += STRANGERS_SECONDS / STRANGERS
    assert len(scrapers._known) == KEPT


async def test_whoever_tries_many_tokens_has_nobody_asked_and_nobody_forgotten() -> None:
    """Reservations are written with the same account: a flood of questions would have pods wait."""
    api, time = Asked(), FakeTime(auto=True)
    scrapers = Scrapers(api, time)  # type: ignore[arg-type]
    assert await scrapers.check("Bearer good") == 200
    for number in range(500):
        status = await scrapers.check(f"Bearer bad{number}")
    assert status == 503
    assert api.paths.count("tokenreviews") == STRANGERS
    time.seconds += REMEMBERED_SECONDS - 1
    for number in range(KEPT):
        await scrapers.check(f"Bearer worse{number}")
    time.seconds += 1
    before = len(api.paths)
    assert await scrapers.check("Bearer good") == 200, "it was good a minute ago: it is asked about"
    assert len(api.paths) == before + 2
    time.seconds += STRANGERS_SECONDS
    assert await scrapers.check("Bearer good2") == 200


async def test_without_protection_there_is_no_guard() -> None:
    """As everywhere in a cluster whose network is trusted."""
    assert guard_of(Asked(), FakeTime(auto=True), protect=False) is None  # type: ignore[arg-type]


async def test_a_real_api_server_says_who_may(sandbox: Sandbox) -> None:
    """With the right to get /metrics one may, without it not, and probes need nothing."""
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    sandbox.api().create(f"{RBAC}/clusterroles", {"metadata": {"name": "scrapes"}, "rules": rules})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dev-a"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrapes"}
    body = {"metadata": {"name": "scrapes"}, "roleRef": ref, "subjects": [subject]}
    sandbox.api().create(f"{RBAC}/clusterrolebindings", body)
    async with await KubeClient.connect(sandbox.kubeconfig("admin")) as client:
        guard = guard_of(client, SystemClock(), protect=True)
        async with OpsServer("127.0.0.1", 0, guard=guard) as ops, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{ops.port}"
            found = {}
            for user in ("dev-a", "dev-b"):
                header = {"Authorization": f"Bearer {sandbox.users[user].token}"}
                async with session.get(f"{url}/metrics", headers=header) as answer:
                    found[user] = answer.status, "python_info" in await answer.text()
            async with session.get(f"{url}/metrics") as answer:
                found["nobody"] = answer.status, "python_info" in await answer.text()
            async with session.get(f"{url}/readyz") as answer:
                assert answer.status == 200
    assert found == {"dev-a": (200, True), "dev-b": (403, False), "nobody": (401, False)}
