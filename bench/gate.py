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


OURS = ("activeDeadlineSeconds", "template")
"""What `foreign` leaves out of a specification: the deadline, and the template, which it looks at apart."""


class DisagreementError(RuntimeError):
    """Servers gave different pods, or a wrong answer; the message says which and where."""


def check(servers: Mapping[str, Post], reviews: Sequence[Review]) -> None:
    """Sends every review to every server and compares what becomes of the pod or Job.

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
    """Applies the patch of an answer to the object and gives the fields in question.

    Raises:
        DisagreementError: the object is not admitted with a patch, or the patch breaks something else.
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


def fields(obj: Object) -> dict[str, Any]:
    """Gives what admission writes on an object and its template: our labels, annotations, deadlines."""
    written: dict[str, Any] = {}
    for place, one in _places(obj).items():
        written[f"{place}spec.activeDeadlineSeconds"] = one["spec"].get("activeDeadlineSeconds")
        for part, pairs in _maps(one).items():
            ours = {key: value for key, value in pairs.items() if key.startswith(PREFIX)}
            written |= {f"{place}{part}[{key}]": value for key, value in ours.items()}
    return written


def foreign(obj: Object) -> Object:
    """Gives the labels, annotations and specifications that admission must leave alone."""
    kept: Object = {}
    for place, one in _places(obj).items():
        spec = {key: value for key, value in one["spec"].items() if key not in OURS}
        theirs = {
            part: {key: value for key, value in pairs.items() if not key.startswith(PREFIX)}
            for part, pairs in _maps(one).items()
        }
        kept[place] = {"spec": spec, **theirs}
    return kept


def _places(obj: Object) -> dict[str, Object]:
    """Gives the object and, by its name, the template of its pods."""
    template = obj["spec"].get("template")
    return {"": obj} if template is None else {"": obj, "template.": template}


def _maps(obj: Object) -> dict[str, Object]:
    metadata = obj.get("metadata") or {}
    return {part: metadata.get(part) or {} for part in ("labels", "annotations")}


def difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Names the fields that differ, with both values."""
    keys = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    return "; ".join(f"{key} is {expected.get(key)!r} and {found.get(key)!r}" for key in keys)
