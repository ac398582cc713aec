from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.claims import TEMPLATES_PATH, ClaimTemplates
from runtime.kube import KubeClient
from runtime.watch import WatchOptions

Start = Callable[[Any], asyncio.Task[Any]]
Eventually = Callable[[Callable[[], object]], Awaitable[None]]


def template(name: str, version: str = "1") -> dict[str, Any]:
    """A ResourceClaimTemplate for two devices."""
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": 2}
    return {
        "metadata": {"namespace": "team", "name": name, "uid": name, "resourceVersion": version},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}},
    }


def listing(*items: dict[str, Any]) -> dict[str, Any]:
    """A list of one page."""
    return {"metadata": {"resourceVersion": "1"}, "items": list(items)}


@pytest.fixture
def templates(client: KubeClient, fake_time: Any) -> ClaimTemplates:
    """The templates of the fake API server."""
    options = WatchOptions(sleep=fake_time.sleep, draw=lambda: 0.0)
    return ClaimTemplates(client, clock=fake_time, options=options)


async def test_templates_are_found_by_namespace_and_name(
    fake_api: Any, templates: ClaimTemplates, start: Start, eventually: Eventually
) -> None:
    """With the devices that they ask for."""
    fake_api.on("GET", TEMPLATES_PATH, fake_api.json(listing(template("two"))))
    fake_api.on("GET", TEMPLATES_PATH, fake_api.stream(), watch=True)
    start(templates.run())
    await eventually(lambda: templates.template("team", "two"))
    found = templates.template("team", "two")
    assert found is not None
    (request,) = found.spec.spec.devices.requests or ()
    assert request.exactly is not None
    assert (request.exactly.device_class_name, request.exactly.count) == ("gpu.nvidia.com", 2)
    assert templates.template("other", "two") is None
    assert await templates.wait("team", ["two"], 0)


async def test_a_template_that_is_newer_than_the_watch(
    fake_api: Any, templates: ClaimTemplates, start: Start, eventually: Eventually
) -> None:
    """Whoever waits goes on as soon as all are there."""
    event = {"type": "ADDED", "object": template("late", "2")}
    fake_api.on("GET", TEMPLATES_PATH, fake_api.json(listing(template("two"))))
    fake_api.on("GET", TEMPLATES_PATH, fake_api.stream(event), watch=True)
    waiting = None

    async def wait() -> bool:
        return await templates.wait("team", ["two", "late"], 5)

    start(templates.run())
    await eventually(lambda: templates.template("team", "two"))
    waiting = start(wait())
    assert await asyncio.wait_for(waiting, 5)


async def test_waiting_ends(
    fake_api: Any, templates: ClaimTemplates, start: Start, eventually: Eventually
) -> None:
    """A template that never comes is not known, and nothing of the wait is left."""
    fake_api.on("GET", TEMPLATES_PATH, fake_api.json(listing(template("two"))))
    fake_api.on("GET", TEMPLATES_PATH, fake_api.stream(), watch=True)
    start(templates.run())
    await eventually(lambda: templates.template("team", "two"))
    assert not await templates.wait("team", ["never"], 0.01)
    assert templates._waiting == {}


async def test_an_api_server_without_claims(fake_api: Any, templates: ClaimTemplates, start: Start) -> None:
    """Nobody waits for what is not served."""
    asked = asyncio.Event()

    async def missing(*args: Any) -> Any:
        asked.set()
        return await fake_api.json({"kind": "Status", "code": 404}, status=404)(*args)

    fake_api.on("GET", TEMPLATES_PATH, missing)
    start(templates.run())
    await asyncio.wait_for(asked.wait(), 5)
    assert not await templates.wait("team", ["two"], 60)
