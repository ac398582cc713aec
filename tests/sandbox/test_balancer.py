"""The balancer does what a Service does, and what a broken one does."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from sandbox.balancer import Backend, Balancer, Mode
from sandbox.deadline import wait
from sandbox.ports import LOOPBACK


class Replica:
    """A server that says its name, and whether it is ready."""

    def __init__(self, name: str) -> None:
        self.ready = True
        replica = self

        class Handler(BaseHTTPRequestHandler):
            """Answers GET."""

            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                """Says the name or the readiness."""
                body = name.encode()
                self.send_response(200 if replica.ready or self.path != "/readyz" else 503)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def backend(self) -> Backend:
        """Where the balancer finds it."""
        port = self.server.server_address[1]
        return Backend(LOOPBACK, port, f"http://{LOOPBACK}:{port}/readyz")

    def close(self) -> None:
        """Ends it."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    """Two running replicas."""
    started = [Replica("one"), Replica("two")]
    yield started
    for replica in started:
        replica.close()


@pytest.fixture
def balancer(replicas: list[Replica]) -> Iterator[Balancer]:
    """A balancer before both replicas."""
    with Balancer() as started:
        started.set_backends(replica.backend for replica in replicas)
        yield started


def ask(balancer: Balancer, timeout: float = 5.0) -> str:
    """One request on a new connection."""
    url = balancer.url("/x", "http")
    return requests.get(url, timeout=timeout, headers={"Connection": "close"}).text


def test_new_connections_go_to_all_in_turn(balancer: Balancer) -> None:
    """No replica is left out."""
    assert {ask(balancer) for _ in range(4)} == {"one", "two"}


def test_a_replica_that_is_not_ready_gets_no_new_connections(
    balancer: Balancer, replicas: list[Replica]
) -> None:
    """Existing connections stay where they are, as with a real Service."""
    kept = {}
    while len(kept) < 2:
        connection = http.client.HTTPConnection(LOOPBACK, balancer.port, timeout=5)
        connection.request("GET", "/x")
        kept[connection.getresponse().read().decode()] = connection
    replicas[0].ready = False
    wait(lambda: len(balancer.ready_backends) == 1, 5, "one replica is out")
    assert {ask(balancer) for _ in range(4)} == {"two"}
    for name, connection in kept.items():
        connection.request("GET", "/x")
        assert connection.getresponse().read().decode() == name
        connection.close()


def test_a_dead_replica_is_passed_over_before_readiness_tells(replicas: list[Replica]) -> None:
    """A refused connection is tried elsewhere."""
    dead = Replica("dead")
    address = dead.backend
    dead.close()
    with Balancer() as balancer:
        balancer.set_backends([Backend(address.host, address.port), replicas[1].backend])
        assert {ask(balancer) for _ in range(4)} == {"two"}


def test_a_black_hole_accepts_and_never_answers(balancer: Balancer) -> None:
    """The hanging webhook."""
    balancer.mode = Mode.BLACK_HOLE
    with pytest.raises(requests.ReadTimeout):
        ask(balancer, 0.3)
    balancer.mode = Mode.PASS
    assert ask(balancer) in ("one", "two")


def test_a_refusing_service_keeps_its_port(balancer: Balancer) -> None:
    """The webhook that is down, and back again at the same address."""
    port = balancer.port
    balancer.mode = Mode.REFUSE
    with pytest.raises(requests.ConnectionError):
        ask(balancer)
    balancer.mode = Mode.PASS
    assert balancer.port == port
    assert ask(balancer) in ("one", "two")


def test_a_change_of_mode_cuts_open_connections(balancer: Balancer) -> None:
    """A kept-alive connection must not go on as if nothing had happened."""
    connection = http.client.HTTPConnection(LOOPBACK, balancer.port, timeout=5)
    connection.request("GET", "/x")
    connection.getresponse().read()
    balancer.mode = Mode.REFUSE

    def ask_again() -> None:
        connection.request("GET", "/x")
        connection.getresponse()

    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        ask_again()
    connection.close()


def test_without_backends_connections_are_closed() -> None:
    """No endpoint, no answer."""
    with Balancer() as balancer, pytest.raises(requests.ConnectionError):
        ask(balancer)
