"""Whole reviews, as API servers send them, changed at random: all are answered, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.profile import Profile
from tests.webhook.reviews import (
    BUILT_IN,
    FAST,
    POLICY,
    SPECS,
    USERS,
    Path,
    change,
    changes,
    doors,
    lost,
    make_door,
    make_request,
    patched,
    send,
)
from webhook.app import MUTATE, VALIDATE, Admission
from webhook.reception import MalformedError
from webhook.rights import Right


@FAST
@given(door=doors, kind=st.sampled_from(BUILT_IN), changed=changes, user=st.sampled_from(USERS))
async def test_what_an_api_server_may_send_is_answered_and_kept(
    door: Admission, kind: tuple[str, str], changed: list[Any], user: str
) -> None:
    """The patch applies to what was sent, deciding again changes nothing, and no field is lost."""
    request = make_request(kind, user, update=False)
    change(request["object"], changed, keeps_types=True)
    response = await send(door, MUTATE, request)
    assert response["allowed"]
    admitted = patched(request["object"], response)
    assert [*lost(request["object"], admitted)] == []
    again = await send(door, MUTATE, {**request, "object": admitted})
    assert "patch" not in again
    checked = await send(door, VALIDATE, {**request, "object": admitted})
    assert "patch" not in checked


@FAST
@given(
    door=doors,
    kind=st.sampled_from(sorted(SPECS)),
    changed=changes,
    user=st.sampled_from(USERS),
    path=st.sampled_from([MUTATE, VALIDATE]),
    update=st.booleans(),
)
async def test_whatever_is_sent_is_answered_or_malformed(
    door: Admission, kind: tuple[str, str], changed: list[Any], user: str, path: str, update: bool
) -> None:
    """No change anywhere in the request makes us fail; a patch applies to whatever was sent, and lasts."""
    request = make_request(kind, user, update=update)
    change(request, changed, keeps_types=False)
    try:
        response = await send(door, path, request)
    except MalformedError:
        return
    if "patch" in response:
        admitted = patched(request["object"], response)
        assert [*lost(request["object"], admitted)] == []
        assert "patch" not in await send(door, path, {**request, "object": admitted})


@FAST
@given(door=doors, changed=changes, place=st.sampled_from(["", "ephemeralcontainers", "status", "resize"]))
async def test_updates_are_never_patched_nor_failed(door: Admission, changed: list[Any], place: str) -> None:
    """Images may be refused; nothing else of an update is."""
    request = {**make_request(("v1", "Pod"), "dev-a", update=True), "subResource": place}
    change(request["object"], changed, keeps_types=True)
    response = await send(door, VALIDATE, request)
    if not response["allowed"]:
        assert response["status"]["code"] == 403
        assert "does not allow the image" in response["status"]["message"]
    assert await send(door, MUTATE, request) == {"uid": "0001", "allowed": True}


@pytest.mark.parametrize("kind", sorted(SPECS), ids=lambda kind: kind[1])
async def test_the_reviews_that_are_changed_are_patched_unchanged(kind: tuple[str, str]) -> None:
    """Were they left alone, nothing would be tested above."""
    door = make_door({}, Profile.ENFORCE, Right.ALLOWED, frozenset(POLICY))
    response = await send(door, MUTATE, make_request(kind, "dev-a", update=False))
    assert "patch" in response
    refused = await send(door, VALIDATE, make_request(kind, "dev-a", update=False))
    assert refused["allowed"] is (kind != ("v1", "Pod"))
    assert refused["allowed"] is False or "does not allow" in refused["warnings"][0]


@pytest.mark.parametrize(
    ("before", "after", "missing"),
    [
        ({"a": {"b": 1}}, {"a": {}}, [("a", "b")]),
        ({"a": [1, 2]}, {"a": [1]}, [("a",)]),
        ({"a": [1]}, {"a": [1, 2]}, []),
        ({"a": 1}, {"a": 2}, [("a",)]),
        ({"a": None}, {"a": {"b": 1}}, []),
    ],
    ids=["a field", "an item", "a list that grew", "a value", "a map where there was null"],
)
def test_what_is_lost_is_found(before: Any, after: Any, missing: list[Path]) -> None:
    """The yardstick itself."""
    assert [*lost(before, after)] == missing
