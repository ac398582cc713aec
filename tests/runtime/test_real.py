from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from policy.objects import Pod
from runtime.catalog import POLICIES_PATH, Catalog
from runtime.clock import SystemClock
from runtime.events import EventRecorder, Regarding
from runtime.kube import ApiError, ApiUnreachable, KubeClient
from runtime.lease import Elector
from runtime.watch import Change, WatchCache, WatchOptions
from sandbox.cluster import Sandbox

Start = Callable[[Any], asyncio.Task[Any]]
Eventually = Callable[[Callable[[], object]], Awaitable[None]]
CLOCK = SystemClock()


@pytest.fixture
async def admin(sandbox: Sandbox) -> AsyncIterator[KubeClient]:
    """A client of the administrator."""
    async with await KubeClient.connect(sandbox.kubeconfig("admin")) as client:
        yield client


def pod(name: str, **labels: str) -> dict[str, Any]:
    """A pod that is never scheduled, so that only the test changes it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "nodeSelector": {"no": "node"},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none.invalid/image"}],
        },
    }


def keep_pod(raw: msgspec.Raw) -> Pod:
    """Keeps every pod."""
    return msgspec.json.decode(raw, type=Pod)


async def test_refusals_of_the_api_server_are_read_with_their_reasons(
    admin: KubeClient, sandbox: Sandbox
) -> None:
    """Not found, conflict, invalid and forbidden each come as the API server says them."""
    with pytest.raises(ApiError) as caught:
        await admin.request("GET", "/api/v1/namespaces/default/pods/missing")
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    with pytest.raises(ApiError) as caught:
        await admin.request(
            "POST", "/api/v1/namespaces/default/pods", body={"metadata": {"name": "NOT VALID"}}
        )
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")
    assert any(cause.field == "metadata.name" for cause in caught.value.causes)
    async with await KubeClient.connect(sandbox.kubeconfig("dev-a")) as developer:
        with pytest.raises(ApiError) as caught:
            await developer.request("GET", "/api/v1/pods")
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")


async def test_a_cache_follows_pods_through_pages_changes_and_deletion(
    admin: KubeClient, namespace: str, start: Start, eventually: Eventually
) -> None:
    """Against the real server, with pages smaller than the list."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(5):
        await admin.request("POST", path, body=pod(f"p{number}"))
    cache: WatchCache[Pod] = WatchCache(admin, path, keep_pod, clock=CLOCK, options=WatchOptions(page_size=2))
    told: list[Change] = []
    cache.subscribe(lambda change, _, __: told.append(change))
    start(cache.run())
    assert await cache.wait_synced(10)
    assert sorted(one.metadata.name or "" for one in cache.values()) == ["p0", "p1", "p2", "p3", "p4"]
    await admin.request(
        "PATCH",
        f"{path}/p0",
        body={"metadata": {"labels": {"a": "b"}}},
        content_type="application/merge-patch+json",
    )
    await eventually(lambda: (found := cache.get(namespace, "p0")) and found.metadata.labels == {"a": "b"})
    await admin.request("DELETE", f"{path}/p1", body={"gracePeriodSeconds": 0})
    await eventually(lambda: cache.get(namespace, "p1") is None)
    assert set(told) == {Change.ADDED, Change.MODIFIED, Change.DELETED}
    fresh = await cache.fresh_list()
    assert len(fresh.objects) == 4
    assert cache.age() < 60


async def test_without_the_crd_the_catalog_is_ready_and_knows_the_namespaces(
    admin: KubeClient, namespace: str, start: Start, eventually: Eventually
) -> None:
    """A namespace that appears later is known within the wait of an admission."""
    try:
        await admin.request("GET", POLICIES_PATH)
    except ApiError as error:
        missing = error.status == 404
    else:
        missing = False
    catalog = Catalog(admin, clock=CLOCK)
    start(catalog.run())
    assert await catalog.wait_synced(10)
    assert catalog.crd_missing == missing
    found = catalog.namespace(namespace)
    assert found is not None
    assert (found.metadata.labels or {})["kubernetes.io/metadata.name"] == namespace
    waiting = start(catalog.wait_namespace(f"{namespace}-x", 5))
    await admin.request("POST", "/api/v1/namespaces", body={"metadata": {"name": f"{namespace}-x"}})
    assert await waiting is not None
    await admin.request("DELETE", f"/api/v1/namespaces/{namespace}-x")
    await eventually(
        lambda: (one := catalog.namespace(f"{namespace}-x")) is None or one.metadata.deletion_timestamp
    )


async def test_an_event_is_seen_by_kubectl_describe_and_counts_its_repeats(
    admin: KubeClient, sandbox: Sandbox, namespace: str
) -> None:
    """The longest note, with characters of several bytes, is accepted by the real validation."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    made = (await admin.request("POST", path, body=pod("trainer"))).decode(Pod)
    recorder = EventRecorder(admin, clock=CLOCK, controller="gpu-tenure.io/reaper", instance="reaper-0")
    about = Regarding("Pod", "trainer", made.metadata.uid or "", namespace)
    for _ in range(3):
        assert await recorder.record(about, "GPUIdle", "Warn", "2 GPUs idle since 09:12Z", "Warning")
    assert await recorder.record(about, "R" * 300, "A" * 300, "ü" * 2000)
    described = sandbox.kubectl("describe", "pod", "trainer", "-n", namespace).stdout
    assert "GPUIdle" in described
    assert "2 GPUs idle since 09:12Z" in described
    events = await admin.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", dict[str, Any])
    counts = [one["series"]["count"] for one in events["items"] if one["reason"] == "GPUIdle"]
    assert counts == [3]


async def test_two_candidates_hand_the_lease_over(
    sandbox: Sandbox, admin: KubeClient, namespace: str, start: Start, eventually: Eventually
) -> None:
    """One leads at a time; when it stops, the other leads within seconds, and kubectl shows who."""
    leading: list[str] = []

    async def work(name: str) -> None:
        leading.append(name)
        await asyncio.get_running_loop().create_future()

    one = Elector(admin, namespace, "gpu-tenure-reaper", "one", clock=CLOCK)
    two = Elector(admin, namespace, "gpu-tenure-reaper", "two", clock=CLOCK)
    first = start(one.run(lambda: work("one")))
    await eventually(one.is_leader)
    start(two.run(lambda: work("two")))
    await eventually(lambda: two.leader == "one")
    assert not two.is_leader()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert not one.is_leader()
    await eventually(two.is_leader)
    await eventually(lambda: leading == ["one", "two"])
    query = ("-n", namespace, "-o", "jsonpath={.spec.holderIdentity}")
    assert sandbox.kubectl("get", "lease", "gpu-tenure-reaper", *query).stdout == "two"


async def test_a_frozen_api_server_is_noticed_in_time(
    sandbox: Sandbox, namespace: str, start: Start, eventually: Eventually
) -> None:
    """Calls end by their own limit, the cache knows of it, and after the thaw everything goes on."""
    async with await KubeClient.connect(sandbox.kubeconfig("admin"), timeout=0.5) as client:
        path = f"/api/v1/namespaces/{namespace}/pods"
        options = WatchOptions(idle_timeout=1.0, longest_pause=0.5)
        cache: WatchCache[Pod] = WatchCache(client, path, keep_pod, clock=CLOCK, options=options)
        start(cache.run())
        assert await cache.wait_synced(10)
        sandbox.suspend("apiserver")
        try:
            with pytest.raises(ApiUnreachable):
                await client.request("GET", path)
            await eventually(lambda: cache.problem)
        finally:
            sandbox.resume("apiserver")
        await client.request("POST", path, body=pod("after"), timeout=10)
        await eventually(lambda: cache.get(namespace, "after"))
