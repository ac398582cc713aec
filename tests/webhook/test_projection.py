"""Projections of single values, wherever they lie."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.patch import make_patch
from webhook.projection import project, value_at

KEYS = st.sampled_from(["a", "b", "0", "1", "x/y", "~z"])
TREES = st.recursive(
    st.one_of(st.none(), st.integers(0, 9), st.text("ab", max_size=2)),
    lambda inner: st.one_of(st.dictionaries(KEYS, inner, max_size=3), st.lists(inner, max_size=2)),
    max_leaves=12,
).filter(lambda tree: isinstance(tree, dict))
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("tree", "before", "after"),
    [
        pytest.param({}, {}, {"m": {"k": "v"}}, id="nothing there"),
        pytest.param({"m": None}, {}, {"m": {"k": "v"}}, id="a null parent"),
        pytest.param({"m": {"o": 1}}, {"m": {}}, {"m": {"k": "v"}}, id="other keys are left out"),
        pytest.param({"m": {"k": "w"}}, {"m": {"k": "w"}}, {"m": {"k": "v"}}, id="another value"),
        pytest.param({"m": "text"}, {}, {}, id="something of another form"),
        pytest.param({"m": ["k"]}, {}, {}, id="a list that would have to have keys"),
    ],
)
def test_a_value_to_be_found(tree: Any, before: Any, after: Any) -> None:
    """Only what leads to it is there."""
    assert project(tree, {("m", "k"): "v"}) == (before, after)


def test_a_value_that_shall_not_be_found() -> None:
    """Goes, and makes no parents."""
    assert project({"m": {"k": "v"}}, {("m", "k"): None}) == ({"m": {"k": "v"}}, {"m": {}})
    assert project({}, {("m", "k"): None}) == ({}, {})


def test_items_of_lists_are_reached_by_their_index() -> None:
    """No item is added or removed."""
    tree = {"l": [{"k": 1}, {}]}
    before, after = project(tree, {("l", "0", "k"): 2, ("l", "1", "k"): 3, ("l", "9", "k"): 4})
    assert before == {"l": {"0": {"k": 1}, "1": {}}}
    assert after == {"l": {"0": {"k": 2}, "1": {"k": 3}}}


@given(tree=TREES, path=PATHS, value=st.one_of(st.none(), st.just("v")))
def test_the_patch_between_projections_applies_to_the_whole(tree: Any, path: Any, value: str | None) -> None:
    """The value is where it shall be, or could not be put there, and nothing else has changed."""
    before, after = project(tree, {path: value})
    patched = jsonpatch.apply_patch(copy.deepcopy(tree), list(make_patch(before, after)))
    reachable = before != after or value_at(tree, path) == value
    assert value_at(patched, path) == (value if reachable else value_at(tree, path))
    again = project(patched, {path: value})
    assert again[0] == again[1]
