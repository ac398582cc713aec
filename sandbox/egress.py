"""The way of the API server to Services: an HTTP CONNECT proxy on a socket file; knows no Service itself.

The API server sends here whatever is meant for the cluster, because its egress selector says so. That is how
clusters work whose control plane cannot reach the pods' network; here there is no such network at all.
"""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import yaml

from sandbox.ports import LOOPBACK

CHUNK = 1 << 16
CONNECT_SECONDS = 5.0
HEADER_LINES = 64
# Which loopback port a host and its port lead to; None for those that are not known.
Route = Callable[[str, int], int | None]


def egress_config(socket_name: str) -> str:
    """Writes the API server's configuration: what is meant for the cluster goes to this socket file.

    A name without a folder is looked for where the API server was started.
    """
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": socket_name}}}
    config = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    return yaml.safe_dump(config, sort_keys=False)


class Egress(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The proxy. Loopback addresses are let through as they are; everything else needs a route."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, path: Path, route: Route) -> None:
        self.route = route
        with short(path) as name:
            super().__init__(name, _Tunnel)
        self._thread = threading.Thread(target=self.serve_forever, name="egress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join(timeout=10)

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing: whoever is at the other end sees the connection break."""


@contextlib.contextmanager
def short(path: Path) -> Iterator[str]:
    """Gives a name for a socket file that is never too long, however deep its folder lies."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class _Tunnel(socketserver.StreamRequestHandler):
    """One connection: the request to connect, then bytes both ways."""

    server: Egress

    def handle(self) -> None:
        """Answers the request, and copies until both sides have ended."""
        target = self._target()
        if target is None:
            self._say("400 Bad Request")
            return
        host, port = target
        here = port if host in {LOOPBACK, "localhost"} else self.server.route(host, port)
        if here is None:
            self._say("502 Bad Gateway")
            return
        try:
            far = socket.create_connection((LOOPBACK, here), CONNECT_SECONDS)
        except OSError:
            self._say("504 Gateway Timeout")
            return
        with far:
            far.settimeout(None)
            self._say("200 Connection Established")
            back = threading.Thread(target=_copy, args=(far, self.connection), daemon=True)
            back.start()
            _copy(self.connection, far)
            back.join()

    def _target(self) -> tuple[str, int] | None:
        method, _, rest = self.rfile.readline(CHUNK).decode("latin-1").partition(" ")
        for _ in range(HEADER_LINES):
            if self.rfile.readline(CHUNK) in {b"\r\n", b"\n", b""}:
                break
        host, _, port = rest.partition(" ")[0].rpartition(":")
        return (host.strip("[]"), int(port)) if method == "CONNECT" and host and port.isdigit() else None

    def _say(self, status: str) -> None:
        self.wfile.write(f"HTTP/1.1 {status}\r\n\r\n".encode())


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
