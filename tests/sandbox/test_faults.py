"""The proxy goes wrong exactly as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from sandbox.deadline import monotonic
from sandbox.faults import Fault, FaultProxy
from sandbox.ports import LOOPBACK

BODY = json.dumps({"status": "success", "data": list(range(100))}).encode()


class Upstream(BaseHTTPRequestHandler):
    """Answers GET with a body and POST with what it got."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answers with a fixed body."""
        self._send(BODY)

    def do_POST(self) -> None:
        """Answers with the request's own body."""
        self._send(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Seen-Authorization", self.headers.get("Authorization", ""))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    """A proxy in front of a server that works."""
    server = ThreadingHTTPServer((LOOPBACK, 0), Upstream)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    with FaultProxy(f"http://{LOOPBACK}:{server.server_address[1]}") as started:
        yield started
    server.shutdown()
    server.server_close()
    thread.join()


def get(proxy: FaultProxy, path: str = "/x", timeout: float = 5.0) -> requests.Response:
    """One request on a connection of its own."""
    return requests.get(proxy.url + path, timeout=timeout, headers={"Connection": "close"})


def test_everything_passes_without_a_fault(proxy: FaultProxy) -> None:
    """Method, body and headers arrive, and the answer comes back."""
    answer = requests.post(proxy.url + "/x", data=b"hello", headers={"Authorization": "Bearer t"}, timeout=5)
    assert (answer.status_code, answer.content, answer.headers["X-Seen-Authorization"]) == (
        200,
        b"hello",
        "Bearer t",
    )
    assert get(proxy).content == BODY
    assert proxy.requests == 2


def test_a_hanging_server_never_answers(proxy: FaultProxy) -> None:
    """The client's own time-out is all that ends it."""
    proxy.fault = Fault("hang")
    with pytest.raises(requests.ReadTimeout):
        get(proxy, timeout=0.3)


def test_a_reset_is_a_connection_error(proxy: FaultProxy) -> None:
    """Nothing comes back."""
    proxy.fault = Fault("reset")
    with pytest.raises(requests.ConnectionError):
        get(proxy)


def test_a_truncated_answer_is_shorter_than_it_says(proxy: FaultProxy) -> None:
    """The connection ends in the middle of the body."""
    proxy.fault = Fault("truncate")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        get(proxy)


def test_a_delayed_answer_is_late_and_whole(proxy: FaultProxy) -> None:
    """It takes at least as long as was asked for."""
    proxy.fault = Fault("delay", seconds=0.3)
    before = monotonic()
    assert get(proxy).content == BODY
    assert monotonic() - before >= 0.3


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        pytest.param(Fault("status", status=503, headers={"Retry-After": "1"}), 503, None, id="an empty 503"),
        pytest.param(Fault("html"), 502, "text/html", id="a 502 page of a proxy"),
    ],
)
def test_errors_have_their_status(proxy: FaultProxy, fault: Fault, status: int, kind: str | None) -> None:
    """As gateways answer."""
    proxy.fault = fault
    answer = get(proxy)
    assert (answer.status_code, answer.headers.get("Content-Type")) == (status, kind)
    assert all(answer.headers[key] == value for key, value in fault.headers.items())


def test_an_answer_can_be_rewritten(proxy: FaultProxy) -> None:
    """A 200 that says `isPartial` is the worst of all faults."""
    proxy.fault = Fault(
        "rewrite", rewrite=lambda body: json.dumps({**json.loads(body), "isPartial": True}).encode()
    )
    assert get(proxy).json()["isPartial"] is True


def test_a_fault_can_be_limited_to_some_paths(proxy: FaultProxy) -> None:
    """Readiness can stay fine while queries fail."""
    proxy.fault = Fault("status", status=500, only="/api")
    assert get(proxy, "/api/v1/query").status_code == 500
    assert get(proxy, "/-/ready").status_code == 200


def test_the_end_of_a_fault_frees_who_hangs(proxy: FaultProxy) -> None:
    """A hung request is cut, and the next one passes."""
    proxy.fault = Fault("hang")
    failed: list[Exception] = []

    def hang() -> None:
        try:
            get(proxy, timeout=20)
        except requests.ConnectionError as error:
            failed.append(error)

    waiting = threading.Thread(target=hang)
    waiting.start()
    while proxy.requests == 0:
        waiting.join(0.01)
    proxy.fault = Fault()
    waiting.join(10)
    assert len(failed) == 1
    assert get(proxy).content == BODY
