from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime.catalog import NAMESPACES_PATH, POLICIES_PATH, Catalog
from runtime.kube import KubeClient
from runtime.watch import WatchOptions

Start = Callable[[Any], asyncio.Task[Any]]
Eventually = Callable[[Callable[[], object]], Awaitable[None]]


def listing(*items: dict[str, Any]) -> dict[str, Any]:
    """A list of one page."""
    return {"metadata": {"resourceVersion": "1"}, "items": list(items)}


def namespace(name: str, version: str = "1", **labels: str) -> dict[str, Any]:
    """A Namespace object."""
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version, "labels": labels}}


def policy(name: str, spec: dict[str, Any], generation: int = 1, version: str = "1") -> dict[str, Any]:
    """A GPUPolicy object."""
    meta = {"name": name, "uid": f"u-{name}", "generation": generation, "resourceVersion": version}
    return {"apiVersion": "gpu-tenure.io/v1alpha1", "kind": "GPUPolicy", "metadata": meta, "spec": spec}


GOOD = {"priority": 1, "idle": {"action": "warn"}}
BAD = {"priority": 5, "idle": {"action": "explode"}}


@pytest.fixture
def catalog(client: KubeClient, fake_time: Any) -> Catalog:
    """A catalog of the fake API server."""
    return Catalog(client, clock=fake_time, options=WatchOptions(sleep=fake_time.sleep, draw=lambda: 0.0))


@pytest.fixture
def quiet(fake_api: Any) -> Any:
    """The fake API server with one namespace, no policy and watches that bring nothing."""
    fake_api.on("GET", NAMESPACES_PATH, fake_api.json(listing(namespace("team-a", colour="red"))))
    fake_api.on("GET", POLICIES_PATH, fake_api.json(listing()))
    fake_api.on("GET", NAMESPACES_PATH, fake_api.stream(), watch=True)
    fake_api.on("GET", POLICIES_PATH, fake_api.stream(), watch=True)
    return fake_api


@pytest.mark.usefixtures("quiet")
async def test_it_is_ready_when_both_lists_are_read(catalog: Catalog, start: Start) -> None:
    """Until then the check says what is missing."""
    assert catalog.not_ready() == "namespaces are not read yet"
    assert not await catalog.wait_synced(0.01)
    start(catalog.run())
    assert await catalog.wait_synced(5)
    assert catalog.not_ready() is None
    known = catalog.namespace("team-a")
    assert known is not None
    assert known.metadata.labels == {"colour": "red"}
    assert catalog.policies.valid == ()
    assert not catalog.crd_missing


async def test_policies_follow_the_watch(
    quiet: Any, catalog: Catalog, start: Start, eventually: Eventually
) -> None:
    """Added, broken, repaired, deleted; the set is one object until something changes."""
    quiet.on("GET", POLICIES_PATH, quiet.json(listing(policy("p", GOOD))))
    gates = [asyncio.Event() for _ in range(3)]

    async def later(number: int, item: dict[str, Any], request: Any) -> Any:
        await gates[number].wait()
        return await quiet.stream(item, then="end")(request)

    quiet.on(
        "GET",
        POLICIES_PATH,
        lambda request: later(0, {"type": "MODIFIED", "object": policy("p", BAD, 2, "2")}, request),
        lambda request: later(1, {"type": "MODIFIED", "object": policy("p", GOOD, 3, "3")}, request),
        lambda request: later(2, {"type": "DELETED", "object": policy("p", GOOD, 3, "4")}, request),
        quiet.stream(),
        watch=True,
    )
    start(catalog.run())
    assert await catalog.wait_synced(5)
    assert [one.name for one in catalog.policies.valid] == ["p"]
    assert catalog.policies is catalog.policies
    gates[0].set()
    await eventually(lambda: "p" in catalog.policies.invalid)
    assert catalog.policies.valid == ()
    gates[1].set()
    await eventually(lambda: catalog.policies.valid)
    assert catalog.policies.invalid == {}
    gates[2].set()
    await eventually(lambda: not catalog.policies.valid)


async def test_an_invalid_policy_is_logged_once_per_generation(
    quiet: Any, catalog: Catalog, start: Start, eventually: Eventually
) -> None:
    """A changed status is no news; a changed and still invalid specification is."""
    quiet.on("GET", POLICIES_PATH, quiet.json(listing(policy("p", BAD))))
    events = [
        {"type": "MODIFIED", "object": policy("p", BAD, 1, "2")},
        {"type": "MODIFIED", "object": policy("p", BAD, 2, "3")},
        {"type": "ADDED", "object": policy("q", GOOD, 1, "4")},
    ]
    quiet.on("GET", POLICIES_PATH, quiet.stream(*events), watch=True)
    with capture_logs() as logs:
        start(catalog.run())
        await eventually(lambda: catalog.policies.valid)
    told = [entry for entry in logs if entry["event"] == "policy is invalid"]
    assert len(told) == 2
    assert "spec.idle.action" in told[0]["errors"][0]


async def test_without_the_crd_it_is_ready_alarmed_and_keeps_asking(
    quiet: Any, catalog: Catalog, fake_time: Any, start: Start, eventually: Eventually
) -> None:
    """Pods are not held up by a missing CRD, and policies count as soon as there are any."""
    missing = quiet.text("404 page not found", 404, "text/plain")
    quiet.on("GET", POLICIES_PATH, *[missing] * 8, quiet.json(listing(policy("p", GOOD))))
    with capture_logs() as logs:
        task = start(catalog.run())
        assert await catalog.wait_synced(5)
        assert catalog.crd_missing
        assert catalog.not_ready() is None
        await eventually(lambda: catalog.policies.valid)
    assert not task.done()
    assert not catalog.crd_missing
    assert [entry["event"] for entry in logs].count("GPUPolicy is not installed") == 1
    assert max(fake_time.slept) <= 10


@pytest.mark.parametrize("fault", ["html 404", "forbidden"])
async def test_other_failures_are_no_missing_crd(
    fault: str, quiet: Any, catalog: Catalog, start: Start, eventually: Eventually
) -> None:
    """While it is not known whether there are policies, it is not ready, and says why."""
    answers = {
        "html 404": quiet.text("<html>404</html>", 404),
        "forbidden": quiet.json({"code": 403, "reason": "Forbidden"}, 403),
    }
    quiet.on("GET", POLICIES_PATH, answers[fault])
    start(catalog.run())
    await eventually(lambda: len(quiet.seen("GET", POLICIES_PATH)) >= 4)
    assert not catalog.crd_missing
    assert not catalog.synced
    assert (catalog.not_ready() or "").startswith("gpupolicies are not read yet: ")


async def test_a_namespace_that_is_on_its_way_is_waited_for(
    quiet: Any, catalog: Catalog, start: Start
) -> None:
    """A pod may come right after its namespace, ahead of the watch; an unknown one ends the wait in time."""
    go = asyncio.Event()

    async def bring(request: Any) -> Any:
        await go.wait()
        return await quiet.stream({"type": "ADDED", "object": namespace("fresh", "2")})(request)

    quiet.on("GET", NAMESPACES_PATH, bring, watch=True)
    start(catalog.run())
    assert await catalog.wait_synced(5)
    assert await catalog.wait_namespace("fresh", 0.01) is None
    waits = [start(catalog.wait_namespace("fresh", 5)) for _ in range(2)]
    await asyncio.sleep(0)
    go.set()
    found = await asyncio.gather(*waits)
    assert [one.metadata.name for one in found if one] == ["fresh", "fresh"]
    assert await catalog.wait_namespace("team-a", 0) is not None
