"""A watch cache over data that were put back to an older state; on a real etcd and a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.clock import SystemClock
from runtime.kube import KubeClient
from runtime.watch import WatchCache
from sandbox.cluster import Sandbox, SandboxOptions
from tests.restore import EtcdCopy
from tests.runtime.test_watch_faults import Copy, change, read, same, versions

Start = Callable[[Any], asyncio.Task[Any]]


@pytest.fixture
def own_sandbox(kubernetes: str) -> Iterator[Sandbox]:
    """A cluster whose data may go."""
    options = SandboxOptions(prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes)
    with Sandbox.start(options) as sandbox:
        yield sandbox


@pytest.mark.real
async def test_a_cache_follows_data_that_were_put_back(own_sandbox: Sandbox, start: Start) -> None:
    """It is the server's soon: what is lost goes, and what changes next is told at versions used before."""
    own_sandbox.api().create_namespace("team")
    path = "/api/v1/namespaces/team/pods"
    copied = EtcdCopy(own_sandbox)
    async with await KubeClient.connect(own_sandbox.kubeconfig("admin")) as client:
        for number in range(3):
            await change(client, path, number)
        copied.take()
        cache, copy = WatchCache(client, path, read, clock=SystemClock()), Copy()
        cache.subscribe(copy.hear)
        start(cache.run())
        assert await cache.wait_synced(10)
        for number in range(3, 8):
            await change(client, path, number)
        await same(cache, client, path, "before")
        assert set(copy.pods) == {"p6", "p7"}
        # Nothing else runs in this process meanwhile, so the cache sees a server that is away for a moment.
        copied.put_back()
        await same(cache, client, path, "put back")
        assert set(copy.pods) == {"p1", "p2"}
        await change(client, path, 3)
        await same(cache, client, path, "afterwards")
        assert versions(list(copy.pods.values())) == versions(list(cache.values()))
