"""Answers on the wire, and the wording of warnings."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.answers import Allowed, Answer, Denied, Patched, RefusedBy, encode_answer
from webhook.warnings import MAX_CHARACTERS, MAX_WARNINGS, fit_warning, fit_warnings


@pytest.mark.parametrize(
    ("answer", "response"),
    [
        pytest.param(Allowed(), {"allowed": True}, id="allowed"),
        pytest.param(Allowed(("w",)), {"allowed": True, "warnings": ["w"]}, id="allowed with a warning"),
        pytest.param(
            Patched(b"[]"),
            {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(b"[]").decode()},
            id="patched",
        ),
        pytest.param(
            Denied("too much", RefusedBy.QUOTA),
            {
                "allowed": False,
                "status": {"code": 403, "message": "too much", "reason": "Forbidden", "status": "Failure"},
            },
            id="refused",
        ),
        pytest.param(
            Denied(
                "later",
                RefusedBy.LATER,
                code=429,
                reason="TooManyRequests",
                retry_after_seconds=1,
                warnings=("w",),
            ),
            {
                "allowed": False,
                "status": {
                    "code": 429,
                    "message": "later",
                    "reason": "TooManyRequests",
                    "details": {"retryAfterSeconds": 1},
                    "status": "Failure",
                },
                "warnings": ["w"],
            },
            id="refused for now",
        ),
    ],
)
def test_the_wire_form(answer: Answer, response: dict[str, Any]) -> None:
    """The uid of the request comes back, and nothing is there that the API server does not know."""
    assert json.loads(encode_answer("the-uid", answer)) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "the-uid", **response},
    }


@pytest.mark.parametrize(
    ("text", "fitted"),
    [
        pytest.param("short", "short", id="a short text stays"),
        pytest.param("x" * 120, "x" * 120, id="120 characters stay"),
        pytest.param("x" * 121, "x" * 119 + "…", id="more are cut visibly"),
        pytest.param("a\r\nb\x1b[31m", "a  b [31m", id="control characters become spaces"),
        pytest.param("a\u2028b\u202ec", "a b c", id="so do characters that turn or break lines"),
    ],
)
def test_one_warning(text: str, fitted: str) -> None:
    """A warning is one printable line."""
    assert fit_warning(text) == fitted


@pytest.mark.parametrize(
    ("texts", "fitted"),
    [
        pytest.param([], (), id="none"),
        pytest.param(["a", "a", "b"], ("a", "b"), id="equal ones count once"),
        pytest.param(["a", "b", "c", "d"], ("a", "b (and 2 more)"), id="the second tells of the rest"),
        pytest.param(
            ["a", "b" * 120, "c"], ("a", "b" * 106 + "… (and 1 more)"), id="a long one makes room for that"
        ),
    ],
)
def test_several_warnings(texts: list[str], fitted: tuple[str, ...]) -> None:
    """At most two reach the user."""
    assert fit_warnings(texts) == fitted


@given(st.lists(st.text(max_size=300), max_size=6))
def test_whatever_the_texts_warnings_are_few_short_and_printable(texts: list[str]) -> None:
    """Names that users choose end up in warnings."""
    warnings = fit_warnings(texts)
    assert len(warnings) <= MAX_WARNINGS
    assert all(len(warning) <= MAX_CHARACTERS and warning.isprintable() for warning in warnings)
