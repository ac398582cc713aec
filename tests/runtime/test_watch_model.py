"""A watch cache against a model of an API server in which everything goes wrong, in any order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.kube import ApiError, ApiUnreachable, Query, Response
from runtime.watch import Change, WatchCache, WatchOptions
from tests.runtime.fakes import FakeTime
from tests.runtime.things import PODS, event, obj, page

NAMES = ("a", "b", "c", "d", "e")
GONE = {"kind": "Status", "code": 410, "reason": "Expired"}
CHANGES = st.tuples(
    st.sampled_from(["put", "put", "delete", "replace"]), st.sampled_from(NAMES), st.integers(-1, 3)
)
TROUBLES = st.tuples(
    st.sampled_from(
        [
            "410 as an event",
            "410 as an answer",
            "compact",
            "cut",
            "half a line",
            "garbage",
            "HTML",
            "silence",
            "401",
            "500",
            "end",
            "again",
            "bookmark",
            "restore",
        ]
    ),
    st.just(""),
    st.just(0),
)
STEPS = st.lists(CHANGES | TROUBLES, max_size=40)
Step = tuple[str, str, int]


class Model:
    """An API server with one collection, whose future is a list of steps; each request takes some of them."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = list(steps)
        self.version = 1
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.snapshots: dict[int, list[dict[str, Any]]] = {}
        self.compacted = 0
        self.world = 0

    def change(self, kind: str, name: str, size: int) -> None:
        """Changes the collection as clients do."""
        before = self.objects.get(name)
        if kind in {"delete", "replace"} and before is not None:
            self._tell("DELETED", {**before, "metadata": {**before["metadata"]}})
            del self.objects[name]
            before = None
        if kind != "delete":
            uid = before["metadata"]["uid"] if before else f"uid-{self.world}-{self.version}"
            self._tell("MODIFIED" if before else "ADDED", obj(name, "", size, uid))
            self.objects[name] = self.history[-1][2]

    def _tell(self, kind: str, item: dict[str, Any]) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, kind, item))

    def next(self) -> str:
        """Takes the next step; gives what goes wrong, or an empty text if it was a change or none is left."""
        if not self.steps:
            return ""
        kind, name, size = self.steps.pop(0)
        if kind in {"put", "delete", "replace"}:
            self.change(kind, name, size)
            return ""
        if kind == "compact":
            self.compacted = self.version
        if kind == "restore":
            self.put_back()
        return kind

    def put_back(self) -> None:
        """Forgets the younger half of what happened; what happens next takes its versions again."""
        self.history = self.history[: len(self.history) // 2]
        self.version = self.history[-1][0] if self.history else 1
        self.objects = {}
        for _, kind, item in self.history:
            self.objects[item["metadata"]["name"]] = item
            if kind == "DELETED":
                del self.objects[item["metadata"]["name"]]
        self.snapshots = {}
        self.compacted = min(self.compacted, self.version)
        self.world += 1

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,  # noqa: ARG002 - a list has none
        content_type: str = "",  # noqa: ARG002 - as above
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - the port's signature
    ) -> Response:
        """Answers one page of a list."""
        assert (method, path) == ("GET", PODS)
        asked = dict(query or {})
        token = str(asked.get("continue", ""))
        version, begin = map(int, token.split(":")) if token else (self.version, 0)
        if not token:
            self.snapshots[version] = list(self.objects.values())
        await asyncio.sleep(0)
        refuse(self.next())
        if token and (version < self.compacted or version not in self.snapshots):
            raise ApiError(410, "Expired")
        items, limit = self.snapshots[version], int(asked["limit"])
        more = f"{version}:{begin + limit}" if begin + limit < len(items) else ""
        return Response(
            200, {}, json.dumps(page(str(version), *items[begin : begin + limit], more=more)).encode()
        )

    async def get(self, path: str, kind: type[Any], *, query: Query | None = None) -> Any:
        """Answers one page of a list, read as a kind."""
        return (await self.request("GET", path, query=query)).decode(kind)

    async def stream(
        self,
        path: str,
        query: Query | None = None,
        idle_timeout: float = 0,  # noqa: ARG002 - the port's signature
    ) -> AsyncGenerator[bytes, None]:
        """Tells the changes after a version, and takes steps meanwhile."""
        assert path == PODS
        at = int((query or {})["resourceVersion"])
        if at < self.compacted:
            yield line(event("ERROR", GONE))
            return
        while True:
            last = b""
            for version, kind, item in self.history:
                if version > at:
                    last = line(event(kind, item))
                    yield last
                    at = version
            if not self.steps:
                yield line(event("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))
                await asyncio.get_running_loop().create_future()
            wrong = self.next()
            for said in spoken(wrong, last, at):
                yield said
            if wrong in {"410 as an event", "end"}:
                return
            refuse(wrong)


def spoken(wrong: str, last: bytes, at: int) -> list[bytes]:
    """What a stream says because of a trouble before it goes on or breaks."""
    return {
        "410 as an event": [line(event("ERROR", GONE))],
        "garbage": [b"garbage"],
        "again": [last] if last else [],
        "bookmark": [line(event("BOOKMARK", {"metadata": {"resourceVersion": str(at)}}))],
    }.get(wrong, [])


def refuse(wrong: str) -> None:
    """Raises what the client makes of a trouble."""
    if wrong in {"410 as an answer", "410 as an event"}:
        raise ApiError(410, "Expired")
    if wrong in {"401", "500"}:
        raise ApiError(int(wrong))
    if wrong in {"cut", "half a line", "HTML", "silence", "garbage", "restore"}:
        raise ApiUnreachable(wrong)


def line(content: dict[str, Any]) -> bytes:
    """A line of a watch."""
    return json.dumps(content).encode()


class Kept(msgspec.Struct, frozen=True):
    """What the cache keeps of an object: enough to tell every version from every other."""

    name: str
    uid: str
    version: str
    size: int


def keep(raw: msgspec.Raw) -> Kept | None:
    """Keeps objects of a positive size."""
    found = msgspec.json.decode(raw)
    meta = found["metadata"]
    kept = Kept(meta["name"], meta["uid"], meta["resourceVersion"], found["size"])
    return kept if kept.size > 0 else None


class Follower:
    """A consumer that keeps its own copy from what it is told, and takes no contradiction."""

    def __init__(self, model: Model) -> None:
        self.kept: dict[str, Kept] = {}
        self.heard: list[tuple[Change, Kept, int]] = []
        self._model = model
        self._worlds: dict[str, int] = {}

    def hear(self, change: Change, old: Kept | None, new: Kept | None) -> None:
        """Applies one change."""
        assert (old is None) == (change is Change.ADDED)
        assert (new is None) == (change is Change.DELETED)
        if old is not None:
            assert self.kept.pop(old.name) == old
        if new is not None:
            assert new.name not in self.kept
            assert old is None or self._follows(old, new)
            self.kept[new.name] = new
            self._worlds[new.name] = self._model.world
        said = (change, new or old, self._model.world)
        assert said not in self.heard
        self.heard.append(said)  # type: ignore[arg-type]

    def _follows(self, old: Kept, new: Kept) -> bool:
        """Whether one is a later version of the other; data put back begin again with older versions."""
        same = self._worlds[old.name] == self._model.world
        return old.uid == new.uid and (int(old.version) < int(new.version) or not same)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_in_the_end_the_cache_is_what_the_server_has(steps: list[Step]) -> None:
    """Whatever broke in between, nothing is lost, nothing is told twice, and consumers can keep a copy."""
    on_server, in_cache, at_consumer = asyncio.run(follow(steps))
    assert in_cache == on_server
    assert at_consumer == on_server


async def follow(steps: list[Step]) -> tuple[dict[str, Kept], dict[str, Kept], dict[str, Kept]]:
    """Lets a cache and a consumer follow a model to the end of its steps; gives what all three hold then."""
    model, time = Model(steps), FakeTime(auto=True)
    follower = Follower(model)
    options = WatchOptions(page_size=2, sleep=time.sleep, draw=lambda: 0.0)
    cache: WatchCache[Kept] = WatchCache(model, PODS, keep, clock=time, options=options)
    cache.subscribe(follower.hear)
    running = asyncio.create_task(cache.run())
    async with asyncio.timeout(20):
        while cache.resource_version != str(model.version) or model.steps:
            if running.done():
                running.result()
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    expected = {
        name: Kept(name, item["metadata"]["uid"], item["metadata"]["resourceVersion"], item["size"])
        for name, item in model.objects.items()
        if item["size"] > 0
    }
    return expected, {one.name: one for one in cache.values()}, follower.kept
