"""A cache of one collection, kept true by list and watch. Knows nothing of what the objects mean.

Only what `decode` returns is kept. A reader never sees half of a list: changes are applied without a pause.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from policy.revisions import revision
from runtime import metrics
from runtime.answers import ApiError, ApiUnreachable, api_error
from runtime.backoff import Backoff
from runtime.clock import Clock, Sleep
from runtime.kube import IDLE_STREAM_SECONDS, KubePort, Query
from runtime.listing import Entry, Key, Listing, Reader, Sieve, read_list, read_version

T = TypeVar("T")
PAGE_OBJECTS = 500
WATCH_SECONDS = (300, 600)
STEADY_SECONDS = 30.0
FAILURES_BEFORE_LIST = 3
log = structlog.get_logger(__name__)


class Change(StrEnum):
    """What happened to a kept object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a cache reads.

    Objects per page; seconds without a byte after which a connection is dead (bookmarks come every minute);
    the longest pause between attempts, in seconds; whom to tell of each failure, and once of the success
    after it (None); how to wait, and what jitter is drawn from.
    """

    page_size: int = PAGE_OBJECTS
    idle_timeout: float = IDLE_STREAM_SECONDS
    longest_pause: float = 60.0
    on_problem: Callable[[ApiError | ApiUnreachable | None], None] | None = None
    sleep: Sleep = asyncio.sleep
    draw: Callable[[], float] = random.random


class WatchCache(Generic[T]):
    """Holds the kept objects of the collection at `path`, by (namespace, name).

    `decode` turns one raw object into what is kept, or None; it may raise msgspec.DecodeError or ValueError,
    then the object is not kept and is found in `unreadable`. `query` holds label and field selectors, and
    `sieve` spares reading what is not wanted. `run` never ends by itself; its failures are in `problem` until
    the next success.
    """

    def __init__(
        self,
        client: KubePort,
        path: str,
        decode: Callable[[msgspec.Raw], T | None],
        *,
        clock: Clock,
        query: Query | None = None,
        sieve: Sieve[Any] | None = None,
        options: WatchOptions | None = None,
    ) -> None:
        self.resource = path.rsplit("/", 1)[-1]
        self.problem: ApiError | ApiUnreachable | None = None
        self._client = client
        self._reader = Reader(path, decode, sieve)
        self._clock = clock
        self._query = dict(query or {})
        self._options = options or WatchOptions()
        self._backoff = Backoff(limit=self._options.longest_pause, draw=self._options.draw)
        self._entries: dict[Key, Entry[T]] = {}
        self._version: str | None = None
        self._contact = -math.inf
        self._synced = asyncio.Event()
        self._callbacks: list[Callable[[Change, T | None, T | None], None]] = []

    @property
    def synced(self) -> bool:
        """Whether a first complete list has been read."""
        return self._synced.is_set()

    async def wait_synced(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - a limit is the point
        """Waits for the first complete list, at most `timeout` seconds; returns whether it is there."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    @property
    def resource_version(self) -> str | None:
        """How far the cache has read; None before the first list or when it must list again."""
        return self._version

    @property
    def unreadable(self) -> Mapping[Key, str]:
        """Objects that `decode` refused, with its error."""
        return self._reader.unreadable

    def age(self) -> float:
        """Returns the seconds since the API server was last heard (list, event, bookmark); inf before."""
        return self._clock.monotonic() - self._contact

    def get(self, namespace: str, name: str) -> T | None:
        """Returns the kept object; `namespace` is empty for objects without one."""
        entry = self._entries.get((namespace, name))
        return entry.value if entry else None

    def values(self) -> Collection[T]:
        """Returns everything that is kept now, as a copy."""
        return [entry.value for entry in self._entries.values()]

    def __len__(self) -> int:
        return len(self._entries)

    def subscribe(self, callback: Callable[[Change, T | None, T | None], None]) -> None:
        """Calls `callback(change, old, new)` after every change, at once and in order; it must not raise."""
        self._callbacks.append(callback)

    async def fresh_list(self) -> Listing[T]:
        """Reads a consistent list from the API server, past the cache and without changing it.

        Raises ApiError or ApiUnreachable.
        """
        version, entries = await self._list(self._reader.another())
        return Listing(version, {key: entry.value for key, entry in entries.items()})

    async def run(self) -> None:
        """Lists, then watches, for ever; every failure is followed by a growing, jittered pause."""
        while True:
            try:
                if self._version is not None:
                    await self._find_restore()
                if self._version is None:
                    await self._relist()
                await self._follow()
            except (ApiError, ApiUnreachable) as error:
                await self._options.sleep(self._recover(error))

    def _recover(self, error: ApiError | ApiUnreachable) -> float:
        """Decides whether to list again, and returns the seconds to wait before."""
        status = error.status if isinstance(error, ApiError) else 0
        metrics.WATCH_FAILURES.labels(self.resource, str(status)).inc()
        pause = self._backoff.next_pause()
        # Failures in a row lead to a new list: it heals a bad version, and polls where no watch works.
        if status == 410 or self._backoff.failures % FAILURES_BEFORE_LIST == 0:
            self._version = None
        if status != 410 and str(error) != str(self.problem):
            log.warning(
                "watch failed",
                resource=self.resource,
                error=str(error),
                pause_seconds=round(pause, 1),
            )
        self._note(error)
        return pause

    async def _list(self, reader: Reader[T]) -> tuple[str, dict[Key, Entry[T]]]:
        return await read_list(self._client, reader, self._query, self._options.page_size)

    async def _relist(self) -> None:
        begun = self._clock.monotonic()
        self._reader.unreadable.clear()
        version, entries = await self._list(self._reader)
        for key in [key for key in self._entries if key not in entries]:
            self._apply(key, None)
        for key, entry in entries.items():
            self._apply(key, entry)
        self._version = version
        self._contact = begun
        self._synced.set()
        self._note(None)
        metrics.WATCH_LISTS.labels(self.resource).inc()
        metrics.WATCH_SYNCED.labels(self.resource).set(1)

    async def _find_restore(self) -> None:
        """Asks for a new list if the API server is older than this cache: its data were put back.

        It would accept a watch from a version that it has not reached yet, and not tell what happens until
        then. One object is read for the version, past every selector. Raises ApiError or ApiUnreachable.
        """
        version = await read_version(self._client, self._reader.path)
        if not 0 < revision(version) < revision(self._version or ""):
            return
        log.warning("data restored", resource=self.resource, seen=self._version, found=version)
        self._version = None
        # An object may have the version that it had in the lost data, and be another all the same.
        for key, entry in self._entries.items():
            self._entries[key] = replace(entry, version="")

    async def _follow(self) -> None:
        """Reads one watch to its end; raises ApiError or ApiUnreachable."""
        begun = self._clock.monotonic()
        heard = False
        lines = self._client.stream(self._reader.path, self._watch_query(), self._options.idle_timeout)
        async with aclosing(lines):
            async for line in lines:
                self._take(line)
                self._progressed()
                heard = True
        if not heard and self._clock.monotonic() - begun < STEADY_SECONDS:
            msg = f"{self._reader.path}: the watch ended at once"
            raise ApiUnreachable(msg)

    def _watch_query(self) -> Query:
        low, high = WATCH_SECONDS
        return {
            **self._query,
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": self._version or "",
            "timeoutSeconds": int(low + (high - low) * self._options.draw()),
        }

    def _take(self, line: bytes) -> None:
        try:
            event = _EVENTS.decode(line)
        except msgspec.DecodeError as error:
            msg = f"{self._reader.path}: an event cannot be read: {error}"
            raise ApiUnreachable(msg) from error
        if event.type == "ERROR":
            raise api_error(0, bytes(event.object))
        if event.type in _KEPT:
            head, entry = self._reader.read(event.object)
            self._apply(head.key, entry)
        else:
            head = self._reader.head(event.object)
        if event.type == "DELETED":
            self._reader.unreadable.pop(head.key, None)
            self._apply(head.key, None)
        self._version = head.resource_version

    def _progressed(self) -> None:
        self._contact = self._clock.monotonic()
        self._backoff.reset()
        if self.problem is not None:
            self._note(None)

    def _note(self, problem: ApiError | ApiUnreachable | None) -> None:
        self.problem = problem
        if self._options.on_problem is not None:
            self._options.on_problem(problem)

    def _apply(self, key: Key, entry: Entry[T] | None) -> None:
        old = self._entries.pop(key, None)
        if entry is not None:
            self._entries[key] = entry
        if old is not None and entry is not None and old.uid == entry.uid:
            if old.version != entry.version:
                self._tell(Change.MODIFIED, old.value, entry.value)
            return
        if old is not None:
            self._tell(Change.DELETED, old.value, None)
        if entry is not None:
            self._tell(Change.ADDED, None, entry.value)

    def _tell(self, change: Change, old: T | None, new: T | None) -> None:
        if change is not Change.MODIFIED:
            metrics.WATCH_OBJECTS.labels(self.resource).set(len(self._entries))
        for callback in self._callbacks:
            callback(change, old, new)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_EVENTS = msgspec.json.Decoder(_Event)
_KEPT = frozenset({"ADDED", "MODIFIED"})
