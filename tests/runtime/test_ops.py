from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from runtime.ops import OpsServer


@pytest.fixture
async def ops() -> AsyncIterator[OpsServer]:
    """A server with one readiness check that fails and a metric of its own."""
    registry = CollectorRegistry()
    Counter("gpu_tenure_test_things", "Things.", registry=registry).inc(3)
    async with OpsServer(
        "127.0.0.1",
        0,
        ready={"catalog": lambda: "namespaces are not read yet", "fine": lambda: None},
        registry=registry,
    ) as server:
        yield server


async def fetch(ops: OpsServer, path: str, **headers: str) -> tuple[int, str, str]:
    """Returns status, content type and body."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{ops.port}{path}", headers=headers) as answer,
    ):
        return answer.status, answer.headers["Content-Type"], await answer.text()


async def test_readiness_names_what_is_missing(ops: OpsServer) -> None:
    """Only the checks that fail are told."""
    status, _, body = await fetch(ops, "/readyz")
    assert (status, body) == (503, "catalog: namespaces are not read yet\n")
    assert ops.problems() == {"catalog": "namespaces are not read yet"}


async def test_readiness_comes_when_all_checks_pass(ops: OpsServer) -> None:
    """A check may be replaced while serving."""
    ops.add_ready("catalog", lambda: None)
    assert (await fetch(ops, "/readyz"))[0] == 200


async def test_liveness_does_not_depend_on_readiness(ops: OpsServer) -> None:
    """A process that waits for others must not be restarted for it."""
    assert (await fetch(ops, "/healthz"))[0] == 200


async def test_a_dead_part_fails_liveness() -> None:
    """The kubelet then restarts the process."""
    async with OpsServer("127.0.0.1", 0, alive={"cycle": lambda: "no cycle for 10 minutes"}) as server:
        assert (await fetch(server, "/healthz"))[::2] == (503, "cycle: no cycle for 10 minutes\n")


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text; version=1.0.0"),
    ],
    ids=["plain by default", "OpenMetrics if asked"],
)
async def test_metrics_are_written_in_the_format_asked_for(
    ops: OpsServer, accept: str, content_type: str
) -> None:
    """Prometheus negotiates."""
    status, got_type, body = await fetch(ops, "/metrics", Accept=accept)
    assert (status, got_type.startswith(content_type)) == (200, True)
    assert "gpu_tenure_test_things_total 3.0" in body


async def test_other_paths_are_not_there(ops: OpsServer) -> None:
    """Nothing else is served on this port."""
    assert (await fetch(ops, "/"))[0] == 404
