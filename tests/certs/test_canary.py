"""The pod that is tried every minute: what counts as success, and what is shown of failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeVar

import msgspec
import pytest
from prometheus_client import REGISTRY

from certs.canary import CANARY_SECONDS, Canary, canary_pod
from policy.keys import Label
from runtime.kube import ApiError, ApiUnreachable, Query, Response
from tests.runtime.fakes import FakeTime

T = TypeVar("T")
TERMS = {Label.IDLE_ACTION.value: "observe"}


class Api:
    """An API server that answers each creation with the next of `answers`: labels, or an error."""

    def __init__(self, time: FakeTime, answers: list[Mapping[str, str] | Exception]) -> None:
        self.time = time
        self.answers = answers
        self.asked: list[tuple[str, str, Query | None, Any]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = "application/json",  # noqa: ARG002 - part of the port
        timeout: float | None = None,  # noqa: ASYNC109, ARG002 - as above
    ) -> Response:
        """Takes a quarter of a second."""
        self.asked.append((method, path, query, body))
        self.time.seconds += 0.25
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Response(201, {}, msgspec.json.encode({"metadata": {"labels": answer}}))

    async def get(self, path: str, kind: type[T], *, query: Query | None = None) -> T:
        """Is never asked."""
        raise AssertionError(path, kind, query)

    def stream(
        self, path: str, query: Query | None = None, idle_timeout: float = 0
    ) -> AsyncGenerator[bytes, None]:
        """Is never asked."""
        raise AssertionError(path, query, idle_timeout)


def shown(name: str) -> float | None:
    """A metric as it is exposed."""
    return REGISTRY.get_sample_value(f"gpu_tenure_certs_canary_{name}")


def canary(api: Api) -> Canary:
    """One that asks this API server."""
    return Canary(api, "tries", "nvidia.com/gpu", api.time, api.time.sleep)


async def test_only_a_dry_run_is_asked_for() -> None:
    """In its namespace, with one unit of the resource."""
    api = Api(FakeTime(auto=True), [TERMS])
    tried = await canary(api).attempt()
    assert (tried.error, tried.seconds) == (None, 0.25)
    assert api.asked == [
        ("POST", "/api/v1/namespaces/tries/pods", {"dryRun": "All"}, canary_pod("nvidia.com/gpu"))
    ]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param({}, "without terms", id="a pod without terms was let pass by a webhook nobody reached"),
        pytest.param({"app": "x"}, "without terms", id="other labels are no terms"),
        pytest.param(ApiError(403, "Forbidden", "no"), "no", id="a refusal is a failure"),
        pytest.param(ApiUnreachable("gone"), "gone", id="no answer is a failure"),
    ],
)
async def test_what_is_a_failure(answer: Any, says: str) -> None:
    """It says why."""
    tried = await canary(Api(FakeTime(auto=True), [answer])).attempt()
    assert tried.error is not None
    assert says in tried.error


async def test_it_is_tried_every_minute_and_shown() -> None:
    """A failure neither ends it nor stays."""
    time = FakeTime(auto=False)
    api = Api(time, [TERMS, ApiUnreachable("gone"), TERMS])
    running = asyncio.ensure_future(canary(api).run())
    seen = []
    await time.advance(0)
    for _ in range(3):
        seen.append(shown("success"))
        if api.answers:
            await time.advance(CANARY_SECONDS + 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == [1, 0, 1]
    assert shown("duration_seconds") == 0.25
