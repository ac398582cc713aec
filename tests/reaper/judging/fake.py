"""A fake Prometheus that gives any answer, or behaves badly."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

GOOD = {
    "status": "success",
    "data": {"resultType": "vector", "result": [{"metric": {"pod": "a"}, "value": [1.0, "2.5"]}]},
}


@dataclass
class Fake:
    """A server that gives one answer to everything, and remembers what it was asked."""

    status: int = 200
    body: bytes = json.dumps(GOOD).encode()
    headers: dict[str, str] = field(default_factory=dict)
    act: Callable[[BaseHTTPRequestHandler, threading.Event], None] | None = None
    requests: list[tuple[str, dict[str, str], dict[str, list[str]]]] = field(default_factory=list)
    ports: set[int] = field(default_factory=set)
    ended: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def says(self, body: object, status: int = 200) -> None:
        """Sets the answer."""
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def serving() -> Iterator[Fake]:
    """A fake Prometheus on a free port."""
    state = Fake()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            form = parse_qs(self.rfile.read(length).decode())
            state.requests.append((self.path, dict(self.headers), form))
            state.ports.add(self.client_address[1])
            if state.act is not None:
                state.act(self, state.ended)
                return
            self.send_response(state.status)
            for name, value in {"Content-Length": str(len(state.body)), **state.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(state.body)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield state
    state.ended.set()
    server.shutdown()
    thread.join()
    server.server_close()


def hang(_: BaseHTTPRequestHandler, ended: threading.Event) -> None:
    """Accepts and never answers."""
    ended.wait(30)


def trickle(handler: BaseHTTPRequestHandler, ended: threading.Event) -> None:
    """Sends a byte now and then, so that no single read takes long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        if ended.wait(0.05):
            return


def truncate(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
    """Promises more than it sends; what it sends is valid by itself."""
    body = json.dumps(GOOD).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body) + 10))
    handler.end_headers()
    handler.wfile.write(body)


def vanish(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
    """Closes without an answer."""
    handler.connection.shutdown(socket.SHUT_RDWR)


def reset(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
    """Resets the connection."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
