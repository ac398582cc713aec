from __future__ import annotations

import json

import pytest

from runtime.answers import ApiUnreachable, Response, api_error


def test_a_refusal_by_a_disruption_budget_can_be_told_by_its_cause() -> None:
    """429 of a PDB and 429 of an overloaded server ask for different patience."""
    body = {
        "kind": "Status",
        "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "code": 429,
        "details": {
            "causes": [{"reason": "DisruptionBudget", "message": "needs 1"}],
            "retryAfterSeconds": 10,
        },
    }
    error = api_error(429, json.dumps(body).encode())
    assert (error.status, error.reason, error.retry_after) == (429, "TooManyRequests", 10)
    assert error.has_cause("DisruptionBudget")
    assert not error.has_cause("NamespaceTerminating")


@pytest.mark.parametrize(
    ("body", "header", "seconds"),
    [
        pytest.param(b"Too many requests", "1", 1, id="a plain text answer has only the header"),
        pytest.param(b'{"details":{"retryAfterSeconds":5}}', "7", 7, id="the header wins over the details"),
        pytest.param(
            b'{"details":{"retryAfterSeconds":5}}', None, 5, id="the details are taken without a header"
        ),
        pytest.param(
            b"{}", "Wed, 21 Oct 2015 07:28:00 GMT", None, id="a date is not understood and not guessed"
        ),
        pytest.param(b'{"details":null}', None, None, id="null details are absent details"),
    ],
)
def test_retry_after_is_read_where_it_is_written(
    body: bytes, header: str | None, seconds: float | None
) -> None:
    """The API server tells in either place how long to wait."""
    assert api_error(429, body, header).retry_after == seconds


@pytest.mark.parametrize(
    "body",
    [b"", b"404 page not found", b"\xff\xfe", b"[1]", b'{"details": 3}'],
    ids=["empty", "text", "not text", "a list", "details of a wrong shape"],
)
def test_a_refusal_without_a_status_object_keeps_its_status(body: bytes) -> None:
    """Whatever the body is, the status counts."""
    assert api_error(404, body).status == 404


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        pytest.param(b"404 page not found\n", "404: page not found", id="plain text that repeats the status"),
        pytest.param(b"", "404", id="nothing at all"),
        pytest.param(
            b'{"reason":"NotFound","message":"pods \\"p\\" not found"}',
            '404 NotFound: pods "p" not found',
            id="a Status",
        ),
    ],
)
def test_an_error_reads_as_a_sentence(body: bytes, sentence: str) -> None:
    """It is shown to people, who need each part once."""
    assert str(api_error(404, body)) == sentence


def test_an_event_of_kind_error_carries_its_own_code() -> None:
    """A watch has no HTTP status left for what goes wrong later."""
    assert api_error(0, b'{"code": 410, "reason": "Expired"}').status == 410
    assert api_error(0, b"{}").status == 500


def test_an_answer_of_another_shape_counts_as_none() -> None:
    """A body that cannot be read must not look like an empty object."""
    with pytest.raises(ApiUnreachable, match="cannot be read"):
        Response(200, {}, b"<html>").decode(dict)
