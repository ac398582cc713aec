"""Lists of a watch cache against a fake API server: pages, versions, and what is told of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.kube import ApiError
from runtime.watch import WatchCache
from tests.runtime.things import PODS, Thing, event, obj, page

Start = Callable[[Any], asyncio.Task[Any]]
Eventually = Callable[[Callable[[], object]], Awaitable[None]]


async def test_a_list_is_read_page_by_page_and_then_watched_from_its_version(
    fake_api: Any, cache: WatchCache[Thing], start: Start, eventually: Eventually
) -> None:
    """Every page is asked with the same selector; the watch begins where the list ended."""
    fake_api.on(
        "GET",
        PODS,
        fake_api.json(page("5", obj("a", "1"), obj("b", "2"), more="m")),
        fake_api.json(page("5", obj("c", "3"))),
    )
    fake_api.on("GET", PODS, fake_api.stream(event("ADDED", obj("d", "6"))), watch=True)
    assert cache.age() == math.inf
    start(cache.run())
    await eventually(lambda: cache.get("n", "d"))
    assert cache.synced
    assert len(cache) == 4
    first, second = fake_api.seen("GET", PODS)
    assert first == {"limit": "2", "labelSelector": "a=b"}
    assert second == {"limit": "2", "labelSelector": "a=b", "continue": "m"}
    (watch,) = fake_api.seen("GET", PODS, watch=True)
    assert watch == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "300",
        "labelSelector": "a=b",
    }
    assert cache.resource_version == "6"


async def test_a_list_that_expires_between_pages_begins_again(
    fake_api: Any, cache: WatchCache[Thing]
) -> None:
    """Pages of two versions are never mixed: what was only in the old one is not there."""
    expired = fake_api.json({"code": 410, "reason": "Expired"}, 410)
    fake_api.on(
        "GET",
        PODS,
        fake_api.json(page("5", obj("old", "1"), more="m")),
        expired,
        fake_api.json(page("9", obj("new", "8"))),
    )
    listing = await cache.fresh_list()
    assert listing.resource_version == "9"
    assert list(listing.objects) == [("n", "new")]
    assert [query.get("continue") for query in fake_api.seen("GET", PODS)] == [None, "m", None]


async def test_data_put_back_are_listed_anew_and_told_whatever_their_versions(
    fake_api: Any, cache: WatchCache[Thing], told: list[Any], start: Start, eventually: Eventually
) -> None:
    """An object of the same version may be another one than the lost one; a lost one is told as deleted."""
    fake_api.version = "5"
    before = page("8", obj("same", "5", 1), obj("lost", "8", 2))
    fake_api.on("GET", PODS, fake_api.json(before), fake_api.json(page("5", obj("same", "5", 3))))
    fake_api.on("GET", PODS, fake_api.stream(), fake_api.hang(), watch=True)
    start(cache.run())
    await eventually(lambda: len(fake_api.seen("GET", PODS, watch=True)) > 1)
    assert told == [("ADDED", None, 1), ("ADDED", None, 2), ("DELETED", 2, None), ("MODIFIED", 1, 3)]
    assert [query["resourceVersion"] for query in fake_api.seen("GET", PODS, watch=True)][:2] == ["8", "5"]


async def test_a_list_that_always_expires_is_an_error(fake_api: Any, cache: WatchCache[Thing]) -> None:
    """It is not tried for ever."""
    fake_api.on("GET", PODS, fake_api.json({"code": 410, "reason": "Expired"}, 410))
    with pytest.raises(ApiError, match="410"):
        await cache.fresh_list()
    assert len(fake_api.seen("GET", PODS)) == 3


async def test_a_fresh_list_leaves_the_cache_alone(fake_api: Any, cache: WatchCache[Thing]) -> None:
    """Who wants certainty reads past the cache."""
    fake_api.on("GET", PODS, fake_api.json(page("5", obj("a", "1"))))
    assert (await cache.fresh_list()).objects[("n", "a")].size == 1
    assert len(cache) == 0
    assert not cache.synced
