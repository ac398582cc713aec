"""Reads one collection as a consistent list, page by page. Knows nothing of what the objects mean."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from runtime import metrics
from runtime.answers import ApiError, ApiUnreachable
from runtime.kube import KubePort, Query

T = TypeVar("T")
Key = tuple[str, str]
LIST_SECONDS = 30.0
LIST_ATTEMPTS = 3
log = structlog.get_logger(__name__)


class Meta(msgspec.Struct, rename="camel"):
    """The metadata by which objects are told apart."""

    resource_version: str = ""
    name: str = ""
    namespace: str | None = None
    uid: str = ""

    @property
    def key(self) -> Key:
        """The namespace (empty if there is none) and the name."""
        return (self.namespace or "", self.name)


class Head(msgspec.Struct):
    """The part of any object that is always read."""

    metadata: Meta


_HEADS = msgspec.json.Decoder(Head)


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A kept object with its identity and version."""

    uid: str
    version: str
    value: T


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A consistent list: everything kept, by (namespace, name), as of `resource_version`."""

    resource_version: str
    objects: dict[Key, T]


H = TypeVar("H", bound=Head)


@dataclass(frozen=True, slots=True)
class Sieve(Generic[H]):
    """Holds back what is not worth reading whole.

    `shape` is what is read of each object at first, and `passes` says from that whether to read on. An object
    that is not of that shape is read whole, so that it is found unreadable by the same words as ever.
    """

    shape: type[H]
    passes: Callable[[H], bool]


class Reader(Generic[T]):
    """Turns raw objects of the collection at `path` into entries; `unreadable` holds what it could not."""

    def __init__(
        self, path: str, decode: Callable[[msgspec.Raw], T | None], sieve: Sieve[Any] | None = None
    ) -> None:
        self.path = path
        self.resource = path.rsplit("/", 1)[-1]
        self.unreadable: dict[Key, str] = {}
        self.decode = decode
        self.sieve = sieve
        self._sketches = msgspec.json.Decoder(sieve.shape) if sieve else _HEADS

    def another(self) -> Reader[T]:
        """Gives a reader that does the same, and has found nothing unreadable yet."""
        return Reader(self.path, self.decode, self.sieve)

    def read(self, raw: msgspec.Raw) -> tuple[Meta, Entry[T] | None]:
        """Returns the object's metadata and what is kept of it, if anything; raises ApiUnreachable."""
        sketch = self._sketch(raw)
        head = sketch.metadata
        if self.sieve and isinstance(sketch, self.sieve.shape) and not self.sieve.passes(sketch):
            value = None
        else:
            try:
                value = self.decode(raw)
            except (msgspec.DecodeError, ValueError) as error:
                self._note_unreadable(head, str(error))
                return head, None
        if self.unreadable:
            self.unreadable.pop(head.key, None)
        return head, None if value is None else Entry(head.uid, head.resource_version, value)

    def head(self, raw: msgspec.Raw) -> Meta:
        """Returns the object's metadata; raises ApiUnreachable if there is none."""
        try:
            return _HEADS.decode(raw).metadata
        except msgspec.DecodeError as error:
            msg = f"{self.path}: an object without metadata: {error}"
            raise ApiUnreachable(msg) from error

    def _sketch(self, raw: msgspec.Raw) -> Head:
        try:
            return self._sketches.decode(raw)
        except msgspec.DecodeError:
            return Head(self.head(raw))

    def _note_unreadable(self, head: Meta, error: str) -> None:
        metrics.WATCH_UNREADABLE.labels(self.resource).inc()
        if self.unreadable.get(head.key) != error:
            namespace, name = head.key
            log.warning(
                "object not read", resource=self.resource, namespace=namespace, name=name, error=error
            )
        self.unreadable[head.key] = error


async def read_list(
    client: KubePort, reader: Reader[T], query: Query, page_size: int
) -> tuple[str, dict[Key, Entry[T]]]:
    """Reads all pages of one resource version and returns it with what is kept.

    If the API server forgets the version between two pages (410), the list begins again: a mixed one would
    not be consistent. Raises ApiError or ApiUnreachable.
    """
    for attempt in range(1, LIST_ATTEMPTS + 1):
        try:
            return await _read_once(client, reader, query, page_size)
        except ApiError as error:
            if error.status != 410 or attempt == LIST_ATTEMPTS:
                raise
    raise AssertionError


async def _read_once(
    client: KubePort, reader: Reader[T], query: Query, page_size: int
) -> tuple[str, dict[Key, Entry[T]]]:
    entries: dict[Key, Entry[T]] = {}
    version = ""
    async for page in _pages(client, reader.path, {**query, "limit": page_size}):
        version = page.metadata.resource_version
        for raw in page.items or ():
            head, entry = reader.read(raw)
            if entry is not None:
                entries[head.key] = entry
    return version, entries


async def read_version(client: KubePort, path: str, seconds: float = LIST_SECONDS) -> str:
    """Returns the version that the API server is at now, told by a list past every cache.

    Raises ApiError or ApiUnreachable.
    """
    response = await client.request("GET", path, query={"limit": 1}, timeout=seconds)
    return response.decode(_Page).metadata.resource_version


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    resource_version: str
    continue_: str | None = None


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


async def _pages(client: KubePort, path: str, query: dict[str, str | int | bool]) -> AsyncIterator[_Page]:
    while True:
        response = await client.request("GET", path, query=query, timeout=LIST_SECONDS)
        page = response.decode(_Page)
        yield page
        if not page.metadata.continue_:
            return
        query = {**query, "continue": page.metadata.continue_}
