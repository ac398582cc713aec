"""Connections against the general server: the same answers, whatever comes and however it is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from webhook import parser, server
from webhook.connection import HELD_BYTES, Connection
from webhook.reception import Limits, MalformedError, Reception, Reviewer
from webhook.server import ReviewServer, general_server

LIMITS = Limits(body_bytes=1000, lingering_seconds=0.01)
LAST = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast"


class Failures:
    """Forgets what failed."""

    def failed(self, status: HTTPStatus) -> None:
        """Forgets it."""


def echo(body: bytes) -> bytes:
    """Answers the body at once."""
    return b'{"body":"%b"}' % body


async def late(body: bytes) -> bytes:
    """Answers it after some turns of the loop."""
    for _ in range(3):
        await asyncio.sleep(0)
    return echo(body)


def malformed(body: bytes) -> bytes:
    """Refuses it."""
    msg = f"not a review: {len(body)} bytes"
    raise MalformedError(msg)


def broken(_: bytes) -> bytes:
    """Fails as a bug would."""
    raise RuntimeError


def reception_of(limits: Limits = LIMITS) -> Reception:
    """A reception with reviewers of all sorts."""
    routes: dict[str, Reviewer] = {"/echo": echo, "/late": late, "/malformed": malformed, "/broken": broken}
    return Reception(routes, limits, Failures())


class Wire(asyncio.Transport):
    """A transport that keeps what is written, and says when it is closed."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = asyncio.Event()
        self.reading = True
        self.protocol: asyncio.Protocol = asyncio.Protocol()
        self._full = full

    def connect(self, protocol: asyncio.Protocol) -> None:
        """Begins a connection."""
        self.set_protocol(protocol)
        protocol.connection_made(self)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Has somebody else served from now on."""
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keeps it; a full wire takes no more then."""
        self.written.append(bytes(data))
        if self._full:
            self.protocol.pause_writing()

    def pause_reading(self) -> None:
        """Reads no more."""
        self.reading = False

    def resume_reading(self) -> None:
        """Reads again."""
        self.reading = True

    def is_closing(self) -> bool:
        """Whether it is closed."""
        return self.closed.is_set()

    def close(self) -> None:
        """Ends the connection."""
        if not self.closed.is_set():
            self.closed.set()
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close


async def turns(count: int = 10) -> None:
    """Lets everything happen that can."""
    for _ in range(count):
        await asyncio.sleep(0)


def answers(written: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """The answers on a wire: status, whether it closes, when to come again, and body."""
    while written:
        head, _, rest = written.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        fields = {name.lower(): text for name, _, text in (line.partition(b": ") for line in lines[1:])}
        size = int(fields.get(b"content-length", b"0"))
        status, closes = lines[0].split(b" ", 2)[1], fields.get(b"connection", b"")
        # The library's words for what is not HTTP depend on where its reading stood.
        ours = status != b"400" or rest.startswith(b"not a review")
        text = rest[:size] if ours else b""
        yield status, closes, fields.get(b"retry-after", b""), text
        written = rest[size:]


async def served(protocol: asyncio.Protocol, parts: list[tuple[bytes, bool]]) -> list[tuple[bytes, ...]]:
    """What comes back when these parts are sent, with time between some; the last one ends the connection."""
    wire = Wire()
    wire.connect(protocol)
    for part, pauses in parts:
        if not wire.closed.is_set():
            wire.protocol.data_received(part)
        if pauses:
            await turns()
    async with asyncio.timeout(10):
        await wire.closed.wait()
    await turns()
    return list(answers(b"".join(wire.written)))


def request(target: bytes, body: bytes, fields: bytes = b"", line: bytes = b"POST %b HTTP/1.1") -> bytes:
    """A request with a length."""
    return line % target + b"\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n%b" % (fields, len(body), body)


CHUNKED = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
bodies = st.sampled_from([b"", b"{}", b"\r\n\r\n", b"POST /echo HTTP/1.1\r\n\r\n", b"x" * 300, b"y" * 1000])
usual = st.builds(request, st.sampled_from([b"/echo", b"/late", b"/echo?timeout=2s"]), bodies)
odd = st.one_of(
    st.builds(
        request, st.sampled_from([b"/malformed", b"/broken", b"/other", b"/%65cho", b"/echo#x"]), bodies
    ),
    st.builds(
        request,
        st.just(b"/echo"),
        bodies,
        st.sampled_from(
            [
                b"Content-Encoding: gzip\r\n",
                b"Connection: keep-alive\r\n",
                b"Connection: close\r\n",
                b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
                b"X: " + b"z" * 9000 + b"\r\n",
            ]
        ),
    ),
    st.builds(
        request,
        st.just(b"/echo"),
        bodies,
        st.just(b""),
        st.sampled_from(
            [b"PUT %b HTTP/1.1", b"POST %b HTTP/1.0", b"\r\nPOST %b HTTP/1.1", b"POST http://x%b HTTP/1.1"]
        ),
    ),
    st.sampled_from(
        [
            CHUNKED,
            b"POST /echo HTTP/1.1\r\nHost: x\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
            b"POST /echo HTTP/1.1\nHost: x\nContent-Length: 2\n\n{}",
            b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n{}",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00 hello\r\n\r\n",
            request(b"/echo", b"z" * 1001),
        ]
    ),
)
streams = st.lists(st.one_of(usual, usual, odd), max_size=4).map(b"".join)


@settings(deadline=None, max_examples=200)
@given(streams, st.lists(st.tuples(st.integers(0, 3000), st.booleans()), max_size=6))
async def test_a_connection_answers_as_the_general_server_does(
    stream: bytes, cuts: list[tuple[int, bool]]
) -> None:
    """Requests of any form, one by one or together, cut anywhere: the same answers in the same order."""
    whole, parts, begin = stream + LAST, [], 0
    for cut, pauses in sorted(cuts):
        end = min(cut, len(whole))
        parts += [(whole[begin:end], pauses)] if end > begin else []
        begin = max(begin, end)
    parts.append((whole[begin:], True))
    reception, other = reception_of(), reception_of()
    with capture_logs():
        found = await served(Connection(reception, general_server(reception)), parts)
        assert found == await served(general_server(other)(), parts)
    assert (
        (reception.in_flight, reception.in_flight_bytes) == (other.in_flight, other.in_flight_bytes) == (0, 0)
    )
    assert all(status in b"200 400 404 405 413 500".split() for status, *_ in found)


async def test_a_usual_request_never_reaches_the_general_server() -> None:
    """Whole, in parts, closing or late: what API servers send is answered by the connection itself."""
    wire, reception = Wire(), reception_of()
    wire.connect(Connection(reception, _nobody))
    for target in (b"/echo?timeout=2s", b"/late", b"/malformed"):
        sent = request(target, b"x" * 100)
        for cut in (len(sent), len(sent) - 100, 20):
            wire.protocol.data_received(sent[:cut])
            if sent[cut:]:
                wire.protocol.data_received(sent[cut:])
            await turns()
    wire.protocol.data_received(LAST)
    found = [status for status, *_ in answers(b"".join(wire.written))]
    assert found == [b"200"] * 6 + [b"400"] * 3 + [b"200"]
    assert wire.closed.is_set()


def _nobody() -> asyncio.Protocol:
    raise AssertionError("a usual request was handed over")


async def test_an_answer_is_written_before_the_call_that_brings_the_last_byte_returns() -> None:
    """No task, no turn of the loop; what waits has a turn."""
    wire = Wire()
    wire.connect(Connection(reception_of(), _nobody))
    wire.protocol.data_received(request(b"/echo", b"{}"))
    assert len(wire.written) == 1
    wire.protocol.data_received(request(b"/late", b"{}"))
    assert len(wire.written) == 1
    await turns()
    assert len(wire.written) == 2
    wire.close()


async def test_line_ends_without_end_are_not_kept() -> None:
    """The parser skips them before a request, however many there are; so nobody may keep them for later."""
    wire, reception = Wire(), reception_of()
    connection = Connection(reception, general_server(reception))
    wire.connect(connection)
    for _ in range(100):
        wire.protocol.data_received(b"\r\n" * 1000)
        assert len(connection._head) <= HELD_BYTES
    wire.protocol.data_received(LAST)
    await wire.closed.wait()
    assert [status for status, *_ in answers(b"".join(wire.written))] == [b"200"]


async def test_a_client_that_reads_no_answers_gets_no_more_of_them() -> None:
    """What is written to it stays bounded, and it misses none once it reads."""
    wire, reception = Wire(full=True), reception_of()
    wire.connect(Connection(reception, general_server(reception)))
    wire.protocol.data_received(request(b"/echo", b"first"))
    assert not wire.reading
    wire.protocol.data_received(request(b"/echo", b"next"))
    await turns()
    assert len(wire.written) == 1
    wire.protocol.resume_writing()
    assert wire.reading
    await turns()
    assert [text for *_, text in answers(b"".join(wire.written))] == [b'{"body":"first"}', b'{"body":"next"}']
    wire.close()
    await turns()


@pytest.mark.parametrize("size", [pytest.param(1, id="a little"), pytest.param(70_000, id="much")])
async def test_what_comes_while_a_review_waits_is_answered_after_it(size: int) -> None:
    """In order, and not kept without end: much of it is left in the socket."""
    wire, reception = Wire(), reception_of(Limits())
    wire.connect(Connection(reception, general_server(reception)))
    wire.protocol.data_received(request(b"/late", b"first"))
    wire.protocol.data_received(request(b"/echo", b"x" * size))
    assert wire.reading == (size < 65_536)
    await turns()
    assert wire.reading
    wire.protocol.data_received(LAST)
    await turns(30)
    assert [len(text) for *_, text in answers(b"".join(wire.written))] == [16, 11 + size, 15]
    assert reception.in_flight == 0


async def test_reading_goes_on_after_a_wait_in_which_it_was_paused() -> None:
    """Also if the client had read everything before the review was decided."""
    wire = Wire()
    wire.connect(Connection(reception_of(), _nobody))
    wire.protocol.data_received(request(b"/late", b"first"))
    wire.protocol.pause_writing()
    wire.protocol.resume_writing()
    await turns()
    assert wire.reading
    wire.close()


async def test_a_body_whose_end_the_parser_sees_elsewhere_ends_the_connection() -> None:
    """Two readers that disagree are a way to smuggle requests; nothing that follows is read."""
    wire, reception = Wire(), reception_of()
    connection = Connection(reception, _nobody)
    wire.connect(connection)
    wire.protocol.data_received(request(b"/echo", b"x" * 100)[:-50])
    assert connection._request is not None
    connection._request.whole -= 10
    wire.protocol.data_received(b"x" * 45)
    assert [status for status, *_ in answers(b"".join(wire.written))] == [b"400"]
    assert wire.closed.is_set()
    assert (reception.in_flight, reception.in_flight_bytes) == (0, 0)


async def test_the_parser_reads_as_connections_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """This release of aiohttp does; one that does not is noticed before anything is served."""
    loop = asyncio.get_running_loop()
    assert parser.parses_as_expected(loop)
    for other in (_deaf, _other_signature, _other_result):
        monkeypatch.setattr(parser, "HttpRequestParser", other)
        assert not parser.parses_as_expected(loop)


def _other_signature() -> None:
    """A parser that is made otherwise."""


def _deaf(*_: object, **__: object) -> web.Server:
    """A parser without the method that feeds it."""
    return general_server(reception_of())


class _other_result:  # noqa: N801 -- stands for a function
    """A parser that gives something else."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def feed_data(self, _: bytes) -> tuple[list[object], bool]:
        """Gives no message ever."""
        return [], False


async def test_with_another_parser_the_general_server_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slower, not different."""
    monkeypatch.setattr(server, "parses_as_expected", lambda _: False)
    monkeypatch.setattr(server, "Connection", _nobody)
    up = ReviewServer({"/echo": echo}, LIMITS, Failures())
    with capture_logs() as logs:
        port = await up.start("127.0.0.1", 0, None)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(LAST)
    async with asyncio.timeout(10):
        received = await reader.read()
    writer.close()
    await writer.wait_closed()
    await up.stop(1)
    assert [text for *_, text in answers(received)] == [b'{"body":"last"}']
    assert [entry["log_level"] for entry in logs] == ["warning"]
