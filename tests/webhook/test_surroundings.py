"""ResourceQuotas and PriorityClasses, as the webhook sees them change."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from policy.resourcequota import NO_QUOTAS
from runtime.answers import Response
from runtime.clock import SystemClock
from webhook.surroundings import CLASSES_PATH, QUOTAS_PATH, Surroundings

Object = dict[str, Any]


class Cluster:
    """Answers lists from what it holds, and streams the changes that a test tells of."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Object]] = {}
        self.changes: dict[str, asyncio.Queue[bytes]] = {}
        self.version = 1

    async def request(self, method: str, path: str, **_: Any) -> Response:
        """Lists."""
        assert method == "GET"
        body = {"metadata": {"resourceVersion": str(self.version)}, "items": self.objects.get(path, [])}
        return Response(200, {}, json.dumps(body).encode())

    async def get(self, path: str, kind: type[Any], **_: Any) -> Any:
        """Lists, decoded."""
        return (await self.request("GET", path)).decode(kind)

    async def stream(self, path: str, *_: Any) -> AsyncGenerator[bytes, None]:
        """The changes of a collection, without an end."""
        queue = self.changes.setdefault(path, asyncio.Queue())
        while True:
            yield await queue.get()

    def tell(self, path: str, kind: str, obj: Object) -> None:
        """Tells of a change."""
        self.version += 1
        changed = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        line = json.dumps({"type": kind, "object": changed}).encode()
        self.changes.setdefault(path, asyncio.Queue()).put_nowait(line)


def quota(name: str, scopes: list[str] | None = None, used: int = 0) -> Object:
    """A ResourceQuota of eight devices."""
    counted = {"hard": {"requests.nvidia.com/gpu": "8"}, "used": {"requests.nvidia.com/gpu": str(used)}}
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"hard": counted["hard"], "scopes": scopes}, "status": counted}


def priority_class(name: str, value: int, *, default: bool = False) -> Object:
    """A PriorityClass."""
    metadata = {"name": name, "uid": name, "resourceVersion": "1"}
    return {"metadata": metadata, "value": value, "globalDefault": default}


@pytest.fixture
def cluster() -> Cluster:
    """A cluster with two quotas in a namespace, and two classes."""
    cluster = Cluster()
    cluster.objects[QUOTAS_PATH] = [quota("a"), quota("b", ["Terminating"])]
    cluster.objects[CLASSES_PATH] = [priority_class("gpu", 9), priority_class("std", 1, default=True)]
    return cluster


@pytest.fixture
async def around(cluster: Cluster) -> AsyncIterator[Surroundings]:
    """What surrounds, kept by a running watch."""
    surroundings = Surroundings(cluster, clock=SystemClock())
    assert surroundings.not_ready() == "resourcequotas are not read yet"
    task = asyncio.create_task(surroundings.run())
    await until(lambda: surroundings.not_ready() is None)
    yield surroundings
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def until(condition: Any) -> None:
    """Waits for a condition, which other tasks bring about."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - a condition, not an event
            await asyncio.sleep(0)  # lets the watch go on


async def test_quotas_come_and_go(cluster: Cluster, around: Surroundings) -> None:
    """The summary of a namespace is the same object until one of its quotas changes."""
    assert around.quotas("other") is NO_QUOTAS
    first = around.quotas("n")
    assert first.scoped
    assert [(room.name, room.left) for room in first.rooms] == [("a", 8)]
    assert around.quotas("n") is first
    cluster.tell(QUOTAS_PATH, "MODIFIED", quota("a", used=5))
    await until(lambda: around.quotas("n").rooms[0].left == 3)
    cluster.tell(QUOTAS_PATH, "DELETED", quota("b"))
    await until(lambda: not around.quotas("n").scoped)
    cluster.tell(QUOTAS_PATH, "DELETED", quota("a"))
    await until(lambda: around.quotas("n") is NO_QUOTAS)


async def test_classes_come_and_go(cluster: Cluster, around: Surroundings) -> None:
    """Of several default classes the one of the lowest value counts."""
    first = around.priority_classes
    assert (first.names, first.global_default) == ({"gpu", "std"}, "std")
    assert around.priority_classes is first
    cluster.tell(CLASSES_PATH, "ADDED", priority_class("low", 0, default=True))
    await until(lambda: around.priority_classes.global_default == "low")
    for name in ("low", "std"):
        cluster.tell(CLASSES_PATH, "DELETED", priority_class(name, 0))
    await until(lambda: around.priority_classes.names == {"gpu"})
    assert around.priority_classes.global_default is None
