"""HTTP as values: what a head says, what is refused, and bodies in chunks."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.http import BadRequestError, Chunks, Counted, Head, document, failure, parse_head

START = b"POST /mutate?timeout=2s HTTP/1.1\r\nHost: x"


@pytest.mark.parametrize(
    ("head", "meant"),
    [
        pytest.param(
            START + b"\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: 10\r\nAccept: */*",
            Head(b"POST", "/mutate", 10, keep_alive=True),
            id="an API server's, whose query is left out",
        ),
        pytest.param(START, Head(b"POST", "/mutate", 0, keep_alive=True), id="no length is no body"),
        pytest.param(
            START + b"\r\ncontent-LENGTH:7 ",
            Head(b"POST", "/mutate", 7, keep_alive=True),
            id="names in any case",
        ),
        pytest.param(
            START + b"\r\nTransfer-Encoding: Chunked",
            Head(b"POST", "/mutate", None, keep_alive=True),
            id="a body in chunks",
        ),
        pytest.param(
            START + b"\r\nConnection: close\r\nExpect: 100-continue",
            Head(b"POST", "/mutate", 0, keep_alive=False, waits=True),
            id="a last request whose body waits",
        ),
        pytest.param(
            b"GET / HTTP/1.0", Head(b"GET", "/", 0, keep_alive=False), id="an old client sends one request"
        ),
        pytest.param(
            START + b"\r\nX-Content-Length: 9",
            Head(b"POST", "/mutate", 0, keep_alive=True),
            id="another name",
        ),
    ],
)
def test_heads(head: bytes, meant: Head) -> None:
    """Only what decides how to read and answer is read."""
    assert parse_head(head) == meant


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"POST /mutate", id="no version"),
        pytest.param(b"POST /mutate HTTP/2.0", id="another version"),
        pytest.param(b"POST /a b HTTP/1.1", id="a blank in the target"),
        pytest.param(START + b"\r\n folded: 1", id="a line that goes on in the next"),
        pytest.param(START + b"\r\nContent-Length : 5", id="a blank before the colon"),
        pytest.param(START + b"\r\nno colon", id="a line without a colon"),
        pytest.param(START + b"\r\nx: a\nContent-Length: 5", id="a bare line feed"),
        pytest.param(START + b"\r\nx: \0", id="a zero byte"),
        pytest.param(START + b"\r\nContent-Length: +5", id="a sign before the length"),
        pytest.param(START + b"\r\nContent-Length: 5, 5", id="two lengths in one"),
        pytest.param(START + b"\r\nContent-Length: 5\r\nContent-Length: 5", id="two lengths"),
        pytest.param(START + b"\r\nContent-Length:", id="an empty length"),
        pytest.param(
            START + b"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", id="a length, and chunks"
        ),
        pytest.param(START + b"\r\nTransfer-Encoding: gzip, chunked", id="an encoding that we do not undo"),
        pytest.param(
            START + b"\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity", id="two encodings"
        ),
    ],
)
def test_what_could_be_understood_in_two_ways_is_refused(head: bytes) -> None:
    """Whoever stands between an API server and us cannot smuggle a second request in."""
    with pytest.raises(BadRequestError):
        parse_head(head)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.binary(max_size=20), st.data())
def test_a_body_in_chunks_is_the_same_however_it_comes(
    chunks: list[bytes], after: bytes, data: st.DataObject
) -> None:
    """What follows the body is left for the next request."""
    sent = b"".join(b"%x;note=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    sent += b"0\r\nTrailer: ignored\r\n\r\n"
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sent) - 1), max_size=8)))
    body = Chunks()
    parts = [sent[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    done = [body.feed(part) for part in [*parts[:-1], parts[-1] + after]]
    assert done == [False] * (len(parts) - 1) + [True]
    assert (bytes(body.content), body.size, body.rest) == (b"".join(chunks), len(b"".join(chunks)), after)


@given(st.binary(max_size=60), st.binary(max_size=20), st.data())
def test_a_body_with_a_length_is_the_same_however_it_comes(
    content: bytes, after: bytes, data: st.DataObject
) -> None:
    """No byte of the next request is taken for the body, nor the other way round."""
    cut = data.draw(st.integers(0, max(len(content) - 1, 0)))
    body = Counted(len(content))
    assert body.feed(content[:cut]) is (not content)
    if content:
        assert body.feed(content[cut:] + after)
        assert (bytes(body.content), body.rest) == (content, after)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"x\r\n", id="no hexadecimal number"),
        pytest.param(b"-1\r\n", id="a negative length"),
        pytest.param(b"\r\n", id="no length"),
        pytest.param(b"123456789\r\n", id="a length beyond all bounds"),
        pytest.param(b"2\r\nabc\r\n", id="more bytes than the chunk says"),
        pytest.param(b"1" * 2000, id="a line without end"),
    ],
)
def test_malformed_chunks_are_refused(sent: bytes) -> None:
    """A body whose end is not known is none."""
    with pytest.raises(BadRequestError):
        Chunks().feed(sent)


def test_answers() -> None:
    """Each says how long it is, and whether the connection goes on."""
    assert document(b"{}", close=False).split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: application/json",
        b"Content-Length: 2",
        b"",
        b"{}",
    ]
    assert b"Connection: close" in document(b"{}", close=True)
    lines = failure(HTTPStatus.SERVICE_UNAVAILABLE, "later", close=True, retry_after="1").split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert {b"Retry-After: 1", b"Connection: close", b"Content-Length: 6"} <= set(lines)
    assert lines[-1] == b"later\n"
