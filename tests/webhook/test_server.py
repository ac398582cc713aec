"""The server over real sockets: status codes, limits, slow bodies, keep-alive, overload, drain."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

import pytest

from webhook.reception import Limits, MalformedError
from webhook.server import ReviewServer

HOST = "127.0.0.1"


class Failures:
    """Counts what the server reports."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    def failed(self, status: HTTPStatus) -> None:
        """Counts one answer with an error status."""
        self.seen[status.value] += 1


class Reviewers:
    """Reviewers that tests steer."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.entered = asyncio.Event()

    async def echo(self, body: bytes) -> bytes:
        """Answers the length of the body."""
        return b'{"length":%d}' % len(body)

    async def malformed(self, body: bytes) -> bytes:
        """Refuses every body."""
        msg = f"not a review: {len(body)} bytes"
        raise MalformedError(msg)

    async def broken(self, body: bytes) -> bytes:  # noqa: ARG002
        """Fails as a bug would; a time-out of its own is a bug too."""
        raise TimeoutError

    async def waiting(self, body: bytes) -> bytes:
        """Answers when the test says so."""
        self.entered.set()
        await self.release.wait()
        return body


class Running:
    """A server with what a test looks at."""

    def __init__(self, server: ReviewServer, port: int, failures: Failures, reviewers: Reviewers) -> None:
        self.server, self.port, self.failures, self.reviewers = server, port, failures, reviewers
        self.connections: list[Connection] = []

    async def connect(self) -> Connection:
        """Opens a connection that ends with the test."""
        connection = Connection(*await asyncio.open_connection(HOST, self.port))
        self.connections.append(connection)
        return connection


@contextlib.asynccontextmanager
async def running(limits: Limits | None = None) -> AsyncIterator[Running]:
    """Runs a server on a free port."""
    failures, reviewers = Failures(), Reviewers()
    routes = {f"/{name}": getattr(reviewers, name) for name in ("echo", "malformed", "broken", "waiting")}
    server = ReviewServer(routes, limits or Limits(), failures)
    port = await server.start(HOST, 0, None)
    up = Running(server, port, failures, reviewers)
    try:
        yield up
    finally:
        reviewers.release.set()
        await server.stop(5)
        for connection in up.connections:
            await connection.close()


class Answer:
    """A response as it came over the wire."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


class Connection:
    """One keep-alive connection that speaks HTTP/1.1 by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, path: str, body: bytes = b"{}", method: str = "POST", length: int | None = None) -> None:
        """Sends a request; `length` may promise more than the body holds."""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length or len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)

    async def answer(self) -> Answer:
        """Reads one response."""
        async with asyncio.timeout(10):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)
            }
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Answer(int(lines[0].split()[1]), headers, body)

    async def ask(self, path: str, body: bytes = b"{}", method: str = "POST") -> Answer:
        """Sends a request and reads its answer."""
        self.send(path, body, method)
        return await self.answer()

    async def at_end(self) -> bool:
        """Waits until the server has closed the connection."""
        async with asyncio.timeout(10):
            return await self.reader.read() == b""

    async def close(self) -> None:
        """Closes this end."""
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition with a deadline."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for is inside the server, without an event
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("path", "method", "status", "text"),
    [
        pytest.param("/echo", "POST", 200, b'{"length":2}', id="a review is answered with 200"),
        pytest.param("/echo?timeout=2s", "POST", 200, b'{"length":2}', id="the query changes nothing"),
        pytest.param("/malformed", "POST", 400, b"not a review: 2 bytes\n", id="no review is a 400"),
        pytest.param("/broken", "POST", 500, b"the review failed\n", id="our own failure is a 500"),
        pytest.param("/other", "POST", 404, b"no such path", id="another path is a 404"),
        pytest.param("/echo", "PUT", 405, b"reviews are sent by POST\n", id="another method is a 405"),
    ],
)
async def test_status_codes(path: str, method: str, status: int, text: bytes) -> None:
    """Each outcome has its status, and all but 200 are counted."""
    async with running() as up:
        connection = await up.connect()
        answer = await connection.ask(path, method=method)
        assert answer.status == status
        assert answer.body.startswith(text)
        assert up.failures.seen == ({} if status == 200 else {status: 1})


async def test_a_failed_review_does_not_cost_the_connection() -> None:
    """After a 400 and a 500 the same connection still works."""
    async with running() as up:
        connection = await up.connect()
        statuses = [(await connection.ask(path)).status for path in ("/malformed", "/broken", "/echo")]
        assert statuses == [400, 500, 200]


@pytest.mark.parametrize(
    ("size", "status"),
    [
        pytest.param(7 * 1024 * 1024, 200, id="seven mebibytes are taken"),
        pytest.param(7 * 1024 * 1024 + 1, 413, id="one byte more is too large"),
    ],
)
async def test_the_limit_of_a_body(size: int, status: int) -> None:
    """An object and an old object of 3 MiB each must fit; more is refused, and the sender sees why."""
    async with running() as up:
        connection = await up.connect()
        answer = await connection.ask("/echo", b" " * size)
        assert answer.status == status
        if status == 413:
            assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        pytest.param(2, 200, id="800 of 1000 bytes fit"),
        pytest.param(3, 413, id="1200 of 1000 bytes do not"),
        pytest.param(1000, 413, id="nor do 400 kB, which are not kept"),
    ],
)
async def test_a_chunked_body_is_measured_as_it_comes(parts: int, status: int) -> None:
    """Without a Content-Length the limit holds all the same."""
    async with running(Limits(body_bytes=1000)) as up:
        connection = await up.connect()
        connection.writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.writer.write((b"190\r\n" + b"x" * 400 + b"\r\n") * parts + b"0\r\n\r\n")
        assert (await connection.answer()).status == status


async def test_a_body_in_many_parts_is_put_together() -> None:
    """A body that comes in parts is one review."""
    async with running() as up:
        connection = await up.connect()
        connection.send("/echo", b"x" * 1000, length=3000)
        await until(lambda: up.server.in_flight == 1)
        connection.writer.write(b"y" * 1000)
        connection.writer.write(b"z" * 1000)
        assert (await connection.answer()).body == b'{"length":3000}'


async def test_a_withheld_body_is_given_up() -> None:
    """A body that never comes is answered with 408 after the time-out, and the connection ends."""
    async with running(Limits(body_seconds=0.05, lingering_seconds=0.05)) as up:
        connection = await up.connect()
        connection.send("/echo", b"{", length=1000)
        answer = await connection.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert up.server.in_flight == 0
        assert await connection.at_end()


async def test_overload_is_shed_with_a_retry_after_and_then_passes() -> None:
    """Beyond the limit of requests in flight the answer is 503 with Retry-After; later ones are served."""
    async with running(Limits(in_flight=2)) as up:
        connections = [await up.connect() for _ in range(3)]
        for connection in connections[:2]:
            connection.send("/waiting", b"{}")
        await until(lambda: up.server.in_flight == 2)
        shed = await connections[2].ask("/echo")
        assert (shed.status, shed.headers["retry-after"]) == (503, "1")
        assert shed.headers.get("connection") != "close"
        up.reviewers.release.set()
        assert [(await connection.answer()).status for connection in connections[:2]] == [200, 200]
        assert (await connections[2].ask("/echo")).status == 200


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("Content-Length: 9", id="of a promised length"),
        pytest.param("Transfer-Encoding: chunked", id="in chunks"),
    ],
)
async def test_withheld_bodies_keep_nobody_out(head: str) -> None:
    """Any pod that reaches the port can begin reviews without end; those that are complete are answered."""
    async with running(Limits(in_flight=2)) as up:
        for _ in range(6):
            connection = await up.connect()
            connection.writer.write(f"POST /echo HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode())
        await until(lambda: up.server.in_flight == 6)
        assert (await (await up.connect()).ask("/echo")).status == 200
        connection = await up.connect()
        connection.writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.writer.write(b"2\r\n{}\r\n0\r\n\r\n")
        assert (await connection.answer()).status == 200


async def test_bodies_in_flight_are_bounded_in_bytes() -> None:
    """Many large bodies at once cannot fill the memory."""
    async with running(Limits(in_flight_bytes=3000, lingering_seconds=0.05)) as up:
        first, second = await up.connect(), await up.connect()
        first.send("/echo", b"x" * 2000, length=2001)
        await until(lambda: up.server.in_flight == 1)
        second.send("/echo", b"x" * 2000, length=2001)
        assert (await second.answer()).status == 503
        first.writer.write(b"x")
        assert (await first.answer()).status == 200


async def test_an_idle_connection_outlives_the_api_servers_pool() -> None:
    """The API server keeps idle connections for 90 s; ours stay longer and serve many reviews."""
    assert Limits().keep_alive_seconds >= 120
    async with running() as up:
        connection = await up.connect()
        for _ in range(20):
            answer = await connection.ask("/echo")
            assert answer.status == 200
            assert answer.headers.get("connection") != "close"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Le", id="half a head"),
        pytest.param(
            b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}POST", id="then half a head"
        ),
    ],
)
async def test_a_connection_that_sends_no_request_ends(sent: bytes) -> None:
    """After the keep-alive, not sooner: API servers open connections in advance and keep them for 90 s."""
    async with running(Limits(keep_alive_seconds=0.2)) as up:
        connection = await up.connect()
        connection.writer.write(sent)
        if sent.endswith(b"{}POST"):
            assert (await connection.answer()).status == 200
        assert await connection.at_end()


async def test_a_compressed_body_is_not_unpacked() -> None:
    """A body that says it is compressed is reviewed as the bytes that came."""
    async with running() as up:
        connection = await up.connect()
        head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n12345"
        connection.writer.write(head)
        assert (await connection.answer()).body == b'{"length":5}'


@pytest.mark.parametrize(
    "noise_bytes",
    [
        pytest.param(b"\x16\x03\x01\x02\x00 hello\r\n\r\n", id="a TLS greeting"),
        pytest.param(b"POST /echo HTTP/1.1\r\nContent-Length: many\r\n\r\n", id="an odd length"),
        pytest.param(b"POST /echo HTTP/1.1\r\nx: " + b"y" * 20_000 + b"\r\n\r\n", id="a huge header"),
    ],
)
async def test_what_is_not_http_is_a_400_and_the_server_lives(
    caplog: pytest.LogCaptureFixture, noise_bytes: bytes
) -> None:
    """Noise on the port costs its own connection alone, and fills no log."""
    async with running() as up:
        noise = await up.connect()
        noise.writer.write(noise_bytes)
        assert (await noise.answer()).status == 400
        connection = await up.connect()
        assert (await connection.ask("/echo")).status == 200
    assert caplog.records == []


async def test_requests_that_come_together_are_answered_in_order() -> None:
    """Several requests in one write, the first of them waiting, are answered one after the other."""
    async with running() as up:
        connection = await up.connect()
        connection.send("/waiting", b"first")
        for size in range(3, 53):
            connection.send("/echo", b"x" * size)
        await up.reviewers.entered.wait()
        assert up.server.in_flight == 1
        up.reviewers.release.set()
        answers = [(await connection.answer()).body for _ in range(51)]
        assert answers == [b"first", *(b'{"length":%d}' % size for size in range(3, 53))]


async def test_a_body_that_waits_is_asked_for() -> None:
    """A client that expects to be told gets the word, and sends the body then."""
    async with running() as up:
        connection = await up.connect()
        connection.writer.write(
            b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        )
        async with asyncio.timeout(10):
            assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.writer.write(b"12345")
        assert (await connection.answer()).body == b'{"length":5}'


async def test_a_review_that_is_decided_late_outlives_the_time_out_of_bodies() -> None:
    """The limit is for what the client has to send, not for us."""
    async with running(Limits(body_seconds=0.01)) as up:
        connection = await up.connect()
        connection.send("/waiting", b"slow")
        await up.reviewers.entered.wait()
        late = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, late.set)  # several times the limit
        await late.wait()
        up.reviewers.release.set()
        assert (await connection.answer()).body == b"slow"


async def test_a_stop_gives_up_what_does_not_end_within_the_grace() -> None:
    """A client that withholds its body, or a review that never ends, does not hold up a rollout."""
    async with running() as up:
        silent, busy = await up.connect(), await up.connect()
        silent.send("/echo", b"x", length=1000)
        busy.send("/waiting", b"{}")
        await up.reviewers.entered.wait()
        await until(lambda: up.server.in_flight == 2)
        await up.server.stop(0.05)
        assert await silent.at_end()
        assert await busy.at_end()
        await until(lambda: up.server.in_flight == 0)


async def test_a_client_that_leaves_in_the_middle_is_forgotten() -> None:
    """A connection lost during its body leaves nothing in flight."""
    async with running() as up:
        connection = await up.connect()
        connection.send("/echo", b"x", length=1000)
        await until(lambda: up.server.in_flight == 1)
        await connection.close()
        await until(lambda: up.server.in_flight == 0)
        assert up.failures.seen == {}


async def test_draining_answers_on_old_and_new_connections_and_closes_each() -> None:
    """While it drains every request is answered, and told to go elsewhere next time."""
    async with running() as up:
        old = await up.connect()
        assert (await old.ask("/echo")).headers.get("connection") != "close"
        up.server.begin_drain()
        assert up.server.draining
        new = await up.connect()
        for connection in (old, new):
            answer = await connection.ask("/echo")
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await connection.at_end()


async def test_a_stop_lets_a_running_review_end_and_closes_idle_connections() -> None:
    """A stop loses no request that has begun; idle connections end, new ones are not accepted."""
    async with running() as up:
        busy, idle = await up.connect(), await up.connect()
        assert (await idle.ask("/echo")).status == 200
        busy.send("/waiting", b"{}")
        await up.reviewers.entered.wait()
        stopping = asyncio.create_task(up.server.stop(5))
        assert await idle.at_end()
        with pytest.raises(ConnectionRefusedError):
            await up.connect()
        up.reviewers.release.set()
        answer = await busy.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        await stopping
