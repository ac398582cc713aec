"""What is a review, and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from webhook.reception import MalformedError
from webhook.review import read_request

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

REQUEST = {"uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE"}


def review(**changes: Any) -> bytes:
    """A small review with changes to its envelope."""
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": REQUEST}
    return json.dumps({**envelope, **changes}).encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "not an AdmissionReview", id="nothing"),
        pytest.param(b"\x00\xff\xfe", "not an AdmissionReview", id="binary"),
        pytest.param(b"<html></html>", "not an AdmissionReview", id="HTML"),
        pytest.param(b"[]", "not an AdmissionReview", id="a list"),
        pytest.param(b"{}", "missing required field `request`", id="no request"),
        pytest.param(review()[:-5], "not an AdmissionReview", id="a body that was cut"),
        pytest.param(b"[" * 100_000, "not an AdmissionReview", id="endless nesting"),
        pytest.param(review(kind="Pod"), "expected AdmissionReview", id="another kind"),
        pytest.param(review(apiVersion="admission.k8s.io/v1beta1"), "v1beta1", id="an old version"),
        pytest.param(review(request={**REQUEST, "uid": ""}), "request.uid", id="an empty uid"),
        pytest.param(review(request={**REQUEST, "uid": 5}), "uid", id="a uid that is no text"),
        pytest.param(
            review(request={**REQUEST, "object": {"metadata": {"labels": {"a": 1}}}}),
            "labels",
            id="a number as label",
        ),
        pytest.param(
            review(request={**REQUEST, "object": {"spec": {"containers": {}}}}),
            "containers",
            id="no list",
        ),
    ],
)
def test_what_is_not_a_review(body: bytes, message: str) -> None:
    """Each is malformed, with a sentence that says where."""
    with pytest.raises(MalformedError, match=message):
        read_request(body)


def test_fields_that_nobody_reads_may_be_anything(door: Door, pod: Callable[..., dict[str, Any]]) -> None:
    """New fields of newer Kubernetes versions do not matter."""
    odd = pod(volumes=[{"x": [1, {"y": None}]}], tolerations=7)
    odd["metadata"]["managedFields"] = "odd"
    assert door.request(odd).object is not None


def test_absent_and_null_parts_are_the_same(door: Door) -> None:
    """An object without spec, or with a null one, is read."""
    for spec in ({}, {"spec": None}):
        request = door.request({"apiVersion": "v1", "kind": "Pod", "metadata": None, **spec})
        assert request.object is not None
        assert request.object.metadata is request.object.spec is None


def test_the_creator_and_the_dry_run_are_read(door: Door, pod: Callable[..., dict[str, Any]]) -> None:
    """Who sent the request decides what references count."""
    door.user, door.dry_run = "dev-b", True
    request = door.request(pod())
    assert request.user_info.creator().username == "dev-b"
    assert request.user_info.creator().groups == ("system:authenticated",)
    assert request.dry_run is True
