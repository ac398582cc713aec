"""A watch cache behind a fault proxy on the real API server, while others change the objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from policy.objects import Pod
from runtime.clock import SystemClock
from runtime.kube import KubeClient
from runtime.watch import Change, WatchCache, WatchOptions
from sandbox.cluster import Sandbox
from sandbox.faults import Fault

Start = Callable[[Any], asyncio.Task[Any]]
FAULTS = {
    "hang": Fault("hang"),
    "reset": Fault("reset"),
    "502 page": Fault("html"),
    "500": Fault("status", status=500),
    "401 without end": Fault("status", status=401),
    "410 for everything": Fault("status", status=410),
    "half of each answer": Fault("truncate", only="/api/v1/namespaces"),
    "late": Fault("delay", seconds=0.4),
}
FAULT_SECONDS = 1.2


class Copy:
    """What a consumer keeps from what it is told; contradictions fail at once."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.told: list[tuple[str, str, str]] = []

    def hear(self, change: Change, old: Pod | None, new: Pod | None) -> None:
        """Applies one change."""
        if old is not None:
            known = self.pods.pop(old.metadata.name or "")
            assert known.metadata.resource_version == old.metadata.resource_version
        said = new or old
        assert said is not None
        if new is not None:
            assert new.metadata.name not in self.pods
            self.pods[new.metadata.name or ""] = new
        meta = said.metadata
        self.told.append((change.value, meta.uid or "", meta.resource_version or ""))


def read(raw: msgspec.Raw) -> Pod:
    """Keeps every pod."""
    return msgspec.json.decode(raw, type=Pod)


async def change(client: KubeClient, path: str, number: int) -> None:
    """Makes a pod, changes another, and removes the one before them."""
    container = {"name": "main", "image": "none.invalid/image"}
    spec = {
        "nodeSelector": {"no": "node"},
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    await client.request("POST", path, body={"metadata": {"name": f"p{number}"}, "spec": spec})
    if number >= 2:
        label = {"metadata": {"labels": {"changed": str(number)}}}
        merge = "application/merge-patch+json"
        await client.request("PATCH", f"{path}/p{number - 1}", body=label, content_type=merge)
        await client.request("DELETE", f"{path}/p{number - 2}", body={"gracePeriodSeconds": 0})


def versions(pods: list[Pod]) -> dict[str, str]:
    """The versions of pods by name."""
    return {pod.metadata.name or "": pod.metadata.resource_version or "" for pod in pods}


async def test_after_every_fault_the_cache_is_what_the_server_has(
    sandbox: Sandbox, namespace: str, start: Start
) -> None:
    """One fault after the other, with changes in and after it; consumers are told each change once."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    with sandbox.api_proxy() as proxy:
        behind = await KubeClient.connect(sandbox.kubeconfig("admin", proxy.url), timeout=1.0)
        beside = await KubeClient.connect(sandbox.kubeconfig("admin"))
        async with behind, beside:
            options = WatchOptions(page_size=2, idle_timeout=1.0, longest_pause=0.5)
            cache = WatchCache(behind, path, read, clock=SystemClock(), options=options)
            copy = Copy()
            cache.subscribe(copy.hear)
            start(cache.run())
            assert await cache.wait_synced(10)
            number = 0
            for name, fault in FAULTS.items():
                proxy.fault = fault
                for _ in range(3):
                    await change(beside, path, number)
                    number += 1
                    await asyncio.sleep(FAULT_SECONDS / 3)
                proxy.fault = Fault()
                await change(beside, path, number)
                number += 1
                await same(cache, beside, path, name)
            assert versions(list(copy.pods.values())) == versions(list(cache.values()))
            assert len(copy.told) == len(set(copy.told))


async def same(cache: WatchCache[Pod], client: KubeClient, path: str, name: str) -> None:
    """Waits until the cache holds exactly what the API server has."""
    expected: dict[str, str] = {}
    try:
        async with asyncio.timeout(20):
            while True:
                found = (await client.get(path, dict[str, Any]))["items"]
                expected = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found}
                if versions(list(cache.values())) == expected:
                    return
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"{name}: {versions(list(cache.values()))} instead of {expected}; {cache.problem}")
