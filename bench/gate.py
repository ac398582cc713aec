"""Checks that all servers decide alike before anything is measured: a faster wrong answer is no answer."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonpatch
import msgspec

from bench.pods import UID, Object
from bench.reviews import Review
from policy.keys import PREFIX

Post = Callable[[bytes], bytes]
"""Sends the body of a review to a server and gives the body of its answer."""


class DisagreementError(RuntimeError):
    """Servers gave different pods, or a wrong answer; the message says which and where."""


def check(servers: Mapping[str, Post], reviews: Sequence[Review]) -> None:
    """Sends every review to every server and compares what becomes of the pod.

    Raises:
        DisagreementError: the first difference.
    """
    for review in reviews:
        outcomes = {name: outcome(review, post(review.body), name) for name, post in servers.items()}
        (first, expected), *others = outcomes.items()
        for name, found in others:
            if found != expected:
                msg = f"{review.name}: {first} and {name} differ: {difference(expected, found)}"
                raise DisagreementError(msg)


def outcome(review: Review, answer: bytes, server: str) -> dict[str, Any]:
    """Applies the patch of an answer to the pod and gives the fields in question.

    Raises:
        DisagreementError: the pod is not admitted with a patch, or the patch breaks something else.
    """
    response = msgspec.json.decode(answer)["response"]
    if response["uid"] != UID or response["allowed"] is not True or response.get("patchType") != "JSONPatch":
        msg = f"{review.name}: {server} answered {response}"
        raise DisagreementError(msg)
    before = msgspec.json.decode(review.body)["request"]["object"]
    operations = msgspec.json.decode(base64.b64decode(response["patch"]))
    after = jsonpatch.apply_patch(before, operations)
    if foreign(after) != foreign(before):
        msg = f"{review.name}: {server} changes more than it should"
        raise DisagreementError(msg)
    return fields(after)


def fields(pod: Object) -> dict[str, Any]:
    """Gives what admission writes on a pod: our labels and annotations, and the deadline."""
    metadata = pod["metadata"]
    written: dict[str, Any] = {"spec.activeDeadlineSeconds": pod["spec"].get("activeDeadlineSeconds")}
    for part in ("labels", "annotations"):
        pairs = metadata.get(part) or {}
        written |= {f"{part}[{key}]": value for key, value in pairs.items() if key.startswith(PREFIX)}
    return written


def foreign(pod: Object) -> Object:
    """Gives the labels, annotations and specification that admission must leave alone."""
    metadata = pod["metadata"]
    spec = {key: value for key, value in pod["spec"].items() if key != "activeDeadlineSeconds"}
    kept: Object = {"spec": spec}
    for part in ("labels", "annotations"):
        pairs = metadata.get(part) or {}
        kept[part] = {key: value for key, value in pairs.items() if not key.startswith(PREFIX)}
    return kept


def difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Names the fields that differ, with both values."""
    keys = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    return "; ".join(f"{key} is {expected.get(key)!r} and {found.get(key)!r}" for key in keys)
