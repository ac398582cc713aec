"""A patch is proven before it is sent: it applies, leads to what was decided, and is valid."""

from __future__ import annotations

import pytest

from webhook.patch import UnfitPatchError, annotations_bytes, apply, encode_patch, make_patch


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        pytest.param({}, {}, [], id="nothing changes"),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"labels": {"a/b": "x"}}},
            ["/metadata/labels"],
            id="a map that is absent is added whole",
        ),
        pytest.param(
            {"metadata": {"labels": {}}},
            {"metadata": {"labels": {"a/b": "x", "c~d": "y"}}},
            ["/metadata/labels/a~1b", "/metadata/labels/c~0d"],
            id="a map that is there is added to, with escapes",
        ),
        pytest.param(
            {"metadata": {"annotations": {"old": "x"}}},
            {"metadata": {"annotations": {"new": "x"}}},
            ["/metadata/annotations/old", "/metadata/annotations/new"],
            id="a value that goes and one that comes are no move",
        ),
        pytest.param({"spec": {"n": 5}}, {"spec": {"n": 3}}, ["/spec/n"], id="a number is replaced"),
    ],
)
def test_operations(before: dict[str, object], after: dict[str, object], paths: list[str]) -> None:
    """Removals come first, parents before children, and applying leads to the goal."""
    operations = make_patch(before, after)
    assert [operation["path"] for operation in operations] == paths
    assert {operation["op"] for operation in operations} <= {"add", "remove", "replace"}
    assert apply(before, operations) == after


def test_a_whole_map_replaces_null() -> None:
    """An `add` of a whole map applies where the map is absent and where it is null."""
    operations = make_patch({"metadata": {}}, {"metadata": {"labels": {"a": "b"}}})
    assert apply({"metadata": {"labels": None}}, operations) == {"metadata": {"labels": {"a": "b"}}}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * 64, id="64 characters"),
        pytest.param("10%", id="a percent sign"),
        pytest.param("-a", id="a dash in front"),
        pytest.param("a b", id="a space"),
        pytest.param("ä", id="a letter that is not ASCII"),
        pytest.param("a\n", id="a line feed at the end"),
    ],
)
def test_an_invalid_label_value_is_never_sent(value: str) -> None:
    """The API server would refuse the pod, even under Ignore."""
    with pytest.raises(UnfitPatchError, match="no valid label value"):
        make_patch({"metadata": {"labels": {}}}, {"metadata": {"labels": {"a": value}}})


def test_annotations_beyond_the_limit_are_never_sent() -> None:
    """The API server counts keys and values in bytes."""
    fitting = {"metadata": {"annotations": {"k": "x" * (256 * 1024 - 1)}}}
    assert make_patch({"metadata": {}}, fitting)
    with pytest.raises(UnfitPatchError, match="262144 bytes"):
        make_patch({"metadata": {}}, {"metadata": {"annotations": {"k": "x" * 256 * 1024}}})


def test_bytes_of_annotations_are_bytes() -> None:
    """Keys and values both count, in UTF-8."""
    assert annotations_bytes({"kä": "ö"}) == 5
    assert annotations_bytes(None) == annotations_bytes({}) == 0


def test_the_encoded_patch_is_a_list() -> None:
    """Also of no operations."""
    assert encode_patch(()) == b"[]"
