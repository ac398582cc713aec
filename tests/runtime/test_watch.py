"""Watches of a cache against a fake API server that streams and breaks in every way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.kube import ApiUnreachable
from runtime.watch import WatchCache
from tests.runtime.things import PODS, Thing, event, obj, page

FAULTS = ["cut", "within a line", "html", "silent", "garbage", "event without metadata", "reset"]
Start = Callable[[Any], asyncio.Task[Any]]
Eventually = Callable[[Callable[[], object]], Awaitable[None]]


async def test_changes_reach_cache_and_subscribers(
    fake_api: Any, cache: WatchCache[Thing], told: list[Any], start: Start, eventually: Eventually
) -> None:
    """Added, changed, no longer kept, kept again, replaced under the same name, deleted."""
    fake_api.on("GET", PODS, fake_api.json(page("1", obj("zero", "1", 0))))
    events = [
        event("ADDED", obj("a", "2", 1)),
        event("MODIFIED", obj("a", "3", 2)),
        event("MODIFIED", obj("a", "4", 0)),
        event("MODIFIED", obj("a", "5", 3)),
        event("ADDED", obj("a", "6", 4, uid="successor")),
        event("MODIFIED", obj("b", "7", 0)),
        event("DELETED", obj("a", "8", 4, uid="successor")),
        event("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
    ]
    fake_api.on("GET", PODS, fake_api.stream(*events), watch=True)
    start(cache.run())
    await eventually(lambda: cache.resource_version == "9")
    assert told == [
        ("ADDED", None, 1),
        ("MODIFIED", 1, 2),
        ("DELETED", 2, None),
        ("ADDED", None, 3),
        ("DELETED", 3, None),
        ("ADDED", None, 4),
        ("DELETED", 4, None),
    ]
    assert list(cache.values()) == []


@pytest.mark.parametrize("how", ["an event of kind ERROR", "the answer to the watch"])
async def test_an_expired_watch_lists_again_and_tells_only_what_changed(
    how: str, fake_api: Any, cache: WatchCache[Thing], told: list[Any], start: Start, eventually: Eventually
) -> None:
    """The new list is compared with what was kept: gone, changed, new; nothing else is told."""
    fake_api.on(
        "GET",
        PODS,
        fake_api.json(page("1", obj("gone", "1"), obj("same", "1"), more="m")),
        fake_api.json(page("1", obj("changed", "1", 1))),
        fake_api.json(page("20", obj("same", "1"), obj("changed", "11", 5), more="m")),
        fake_api.json(page("20", obj("new", "12", 7))),
    )
    status = {"kind": "Status", "code": 410, "reason": "Expired"}
    expired = (
        fake_api.stream(event("ERROR", status), then="end") if "ERROR" in how else fake_api.json(status, 410)
    )
    fake_api.on("GET", PODS, expired, fake_api.stream(then="stay"), watch=True)
    start(cache.run())
    await eventually(lambda: cache.get("n", "new"))
    assert told[3:] == [("DELETED", 1, None), ("MODIFIED", 1, 5), ("ADDED", None, 7)]
    await eventually(lambda: len(fake_api.seen("GET", PODS, watch=True)) == 2)
    assert [query["resourceVersion"] for query in fake_api.seen("GET", PODS, watch=True)] == ["1", "20"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_broken_watch_goes_on_where_it_stood(
    fault: str, fake_api: Any, cache: WatchCache[Thing], fake_time: Any, start: Start, eventually: Eventually
) -> None:
    """No list is read and no event is lost: the next watch asks from the last version that was applied."""
    fake_api.on("GET", PODS, fake_api.json(page("1")))
    first = event("ADDED", obj("a", "2"))
    broken = {
        "cut": fake_api.stream(first, then="cut"),
        "within a line": fake_api.stream(first, json.dumps(event("ADDED", obj("b", "3")))[:40], then="end"),
        "html": fake_api.text("<html>proxy</html>"),
        "silent": fake_api.stream(first, then="stay"),
        "garbage": fake_api.stream(first, "garbage\n", then="end"),
        "event without metadata": fake_api.stream(
            first, '{"type":"ADDED","object":{"size":1}}\n', then="end"
        ),
        "reset": fake_api.reset(),
    }[fault]
    # A reset of a kept connection is tried once more by the HTTP client itself.
    faults = [broken] * (2 if fault == "reset" else 1)
    fake_api.on("GET", PODS, *faults, fake_api.stream(event("ADDED", obj("b", "4")), then="stay"), watch=True)
    start(cache.run())
    await eventually(lambda: cache.get("n", "b"))
    versions = [query["resourceVersion"] for query in fake_api.seen("GET", PODS, watch=True)]
    assert versions == {"reset": ["1", "1", "1"], "html": ["1", "1"]}.get(fault, ["1", "2"])
    assert len(fake_api.seen("GET", PODS)) == 1
    assert fake_time.slept == [0.25]


async def test_a_large_object_is_read_and_one_beyond_all_measure_is_got_by_the_list(
    fake_api: Any, cache: WatchCache[Thing], start: Start, eventually: Eventually
) -> None:
    """An object of some megabytes passes; a line that no API server sends ends the watch, not the cache."""
    large = obj("large", "2", 3) | {"data": "x" * 3_000_000}
    endless = obj("endless", "3", 4) | {"data": "x" * 17_000_000}
    listed = page("4", obj("large", "2", 3), obj("endless", "3", 4))
    fake_api.on("GET", PODS, fake_api.json(page("1")), fake_api.json(listed))
    broken = fake_api.stream(event("ADDED", large), event("ADDED", endless))
    fake_api.on("GET", PODS, broken, broken, broken, fake_api.stream(), watch=True)
    start(cache.run())
    await eventually(lambda: cache.get("n", "large"))
    await eventually(lambda: cache.get("n", "endless"))
    assert len(fake_api.seen("GET", PODS)) == 2


async def test_a_deletion_while_the_list_is_read_again_is_not_lost(
    fake_api: Any, cache: WatchCache[Thing], told: list[Any], start: Start, eventually: Eventually
) -> None:
    """The list is of one moment; what happens after it comes with the watch from there, once."""
    both = (obj("a", "1"), obj("b", "2", 2))
    fake_api.on("GET", PODS, fake_api.json(page("2", *both)), fake_api.json(page("5", *both)))
    expired = fake_api.json({"kind": "Status", "code": 410, "reason": "Expired"}, 410)
    after = [event("DELETED", obj("b", "6", 2)), event("DELETED", obj("b", "6", 2))]
    fake_api.on("GET", PODS, expired, fake_api.stream(*after), watch=True)
    start(cache.run())
    await eventually(lambda: cache.resource_version == "6")
    assert told == [("ADDED", None, 1), ("ADDED", None, 2), ("DELETED", 2, None)]


async def test_failures_in_a_row_grow_the_pause_and_read_the_list_again(
    fake_api: Any, cache: WatchCache[Thing], fake_time: Any, start: Start, eventually: Eventually
) -> None:
    """Where no watch ever works the cache polls, ever more slowly, and says what is wrong."""
    fake_api.on("GET", PODS, fake_api.json(page("1")))
    fake_api.on("GET", PODS, fake_api.text("<html>no watch here</html>"), watch=True)
    start(cache.run())
    await eventually(lambda: len(fake_time.slept) >= 9)
    assert fake_time.slept[:9] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    kinds = ["watch" if query.get("watch") else "list" for _, _, query, _, _ in fake_api.requests]
    assert kinds[:8] == ["list", "watch", "watch", "watch", "list", "watch", "watch", "watch"]
    # Between a list that is read and the watch that fails after it, nothing is wrong for a moment.
    await eventually(lambda: isinstance(cache.problem, ApiUnreachable))


async def test_a_watch_that_ends_at_once_is_a_failure(
    fake_api: Any, cache: WatchCache[Thing], fake_time: Any, start: Start, eventually: Eventually
) -> None:
    """A proxy that closes every watch must not cause a storm of requests."""
    fake_api.on("GET", PODS, fake_api.json(page("1")))
    fake_api.on("GET", PODS, fake_api.stream(then="end"), watch=True)
    start(cache.run())
    await eventually(lambda: len(fake_time.slept) >= 2)
    assert fake_time.slept[:2] == [0.25, 0.5]


async def test_a_watch_that_the_server_ends_after_events_begins_again_without_a_pause(
    fake_api: Any, cache: WatchCache[Thing], fake_time: Any, start: Start, eventually: Eventually
) -> None:
    """That is how every watch ends after some minutes."""
    fake_api.on("GET", PODS, fake_api.json(page("1")))
    fake_api.on(
        "GET",
        PODS,
        fake_api.stream(event("ADDED", obj("a", "2")), then="end"),
        fake_api.stream(event("ADDED", obj("b", "3"))),
        watch=True,
    )
    start(cache.run())
    await eventually(lambda: cache.get("n", "b"))
    assert fake_time.slept == []


async def test_the_age_counts_from_the_last_sign_of_life(
    fake_api: Any, cache: WatchCache[Thing], fake_time: Any, start: Start, eventually: Eventually
) -> None:
    """A bookmark proves that nothing was missed; silence makes the cache older."""
    fake_api.on("GET", PODS, fake_api.json(page("1")))
    go = asyncio.Event()

    async def bookmark(request: Any) -> Any:
        await go.wait()
        return await fake_api.stream(event("BOOKMARK", {"metadata": {"resourceVersion": "7"}}))(request)

    fake_api.on("GET", PODS, bookmark, watch=True)
    start(cache.run())
    await eventually(lambda: fake_api.seen("GET", PODS, watch=True))
    fake_time.seconds += 45
    assert cache.age() == 45
    go.set()
    await eventually(lambda: cache.resource_version == "7")
    assert cache.age() == 0


async def test_an_object_that_cannot_be_read_is_left_out_and_known(
    fake_api: Any, cache: WatchCache[Thing], told: list[Any], start: Start, eventually: Eventually
) -> None:
    """One bad object harms no other; when it is readable again it is kept again."""
    bad = obj("bad", "3") | {"size": "large"}
    fake_api.on("GET", PODS, fake_api.json(page("1", obj("bad", "1"), obj("good", "1"))))
    more = [event("MODIFIED", bad), event("MODIFIED", obj("good", "4", 2))]
    fake_api.on(
        "GET",
        PODS,
        fake_api.stream(*more),
        fake_api.stream(event("MODIFIED", obj("bad", "5", 9))),
        watch=True,
    )
    start(cache.run())
    await eventually(lambda: cache.resource_version == "4")
    assert cache.get("n", "bad") is None
    assert "size" in cache.unreadable["n", "bad"]
    fake_api.release()
    await eventually(lambda: cache.get("n", "bad"))
    assert dict(cache.unreadable) == {}
    assert told == [
        ("ADDED", None, 1),
        ("ADDED", None, 1),
        ("DELETED", 1, None),
        ("MODIFIED", 1, 2),
        ("ADDED", None, 9),
    ]


async def test_waiting_for_the_first_list_has_a_limit(
    fake_api: Any, cache: WatchCache[Thing], start: Start
) -> None:
    """A cache that never syncs is found out in time."""
    assert not await cache.wait_synced(0.01)
    fake_api.on("GET", PODS, fake_api.json(page("1")))
    fake_api.on("GET", PODS, fake_api.stream(), watch=True)
    start(cache.run())
    assert await cache.wait_synced(5)


async def test_a_forbidden_list_is_told_and_tried_again(
    fake_api: Any, cache: WatchCache[Thing], start: Start
) -> None:
    """Rights may be granted later; until then the reason is at hand."""
    forbidden = fake_api.json({"code": 403, "reason": "Forbidden", "message": "no list"}, 403)
    fake_api.on("GET", PODS, forbidden, fake_api.json(page("1")))
    fake_api.on("GET", PODS, fake_api.stream(), watch=True)
    start(cache.run())
    assert await cache.wait_synced(5)
    assert cache.problem is None
