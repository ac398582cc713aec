"""An HTTP proxy that goes wrong in the ways of real servers; knows neither Prometheus nor Kubernetes."""

from __future__ import annotations

import http.client
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal, Self
from urllib.parse import SplitResult, urlsplit

from sandbox.ports import LOOPBACK

Kind = Literal["pass", "hang", "reset", "truncate", "delay", "status", "html", "rewrite"]
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "upgrade"}
UPSTREAM_SECONDS = 600.0
HTML = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(frozen=True)
class Fault:
    """What goes wrong with each request.

    Attributes:
        kind: pass; hang (accepted, never answered); reset (connection reset); truncate (half of the body,
            then closed); delay (`seconds` late); status (an empty answer with `status`); html (a 502 page);
            rewrite (the body as changed by `rewrite`).
        seconds: For delay.
        status: For status.
        headers: Further headers for status, such as Retry-After.
        rewrite: For rewrite.
        only: Applies to paths that begin so, or with one of these; all others pass.
    """

    kind: Kind = "pass"
    seconds: float = 0.0
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    rewrite: Callable[[bytes], bytes] = bytes
    only: str | tuple[str, ...] = "/"


class FaultProxy:
    """Listens on a loopback port and passes all on to `upstream`, watches included, but for its `fault`.

    With `certificate` and `key` it speaks TLS to its clients, with `clients` (a CA) only to those that show a
    certificate; an https upstream is not checked.
    """

    def __init__(
        self,
        upstream: str,
        certificate: Path | None = None,
        key: Path | None = None,
        port: int = 0,
        clients: Path | None = None,
    ) -> None:
        self.upstream = urlsplit(upstream)
        self.requests = 0
        self._fault = Fault()
        self._changed = threading.Event()
        self._server = _Server((LOOPBACK, port), self)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            if clients is not None:
                context.load_verify_locations(clients)
                context.verify_mode = ssl.CERT_REQUIRED
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._scheme = "http" if certificate is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address of the proxy."""
        return f"{self._scheme}://{LOOPBACK}:{self._server.server_address[1]}"

    @property
    def fault(self) -> Fault:
        """What goes wrong now."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        """Takes effect for new requests, and frees those that hang or wait (their connections are closed)."""
        before, self._changed = self._changed, threading.Event()
        self._fault = fault
        before.set()
        if fault.kind != "pass":
            # Watches that were passed on would go on as if nothing were wrong.
            self._server.cut()

    def close(self) -> None:
        """Cuts all connections and frees the port."""
        self._changed.set()
        self._server.shutdown()
        self._server.cut()
        self._server.server_close()
        self._thread.join()

    def current(self, path: str) -> tuple[Fault, threading.Event]:
        """Gives the fault for a path, and the event that ends it."""
        changed, fault = self._changed, self._fault
        self.requests += 1
        return (fault if path.startswith(fault.only) else Fault()), changed


class _Server(ThreadingHTTPServer):
    """Remembers its open connections, so that they can be cut."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.open_sockets: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def cut(self) -> None:
        """Closes all open connections."""
        for one in tuple(self.open_sockets):
            reset(one)

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing: broken connections are what this server is for."""


def reset(connection: socket.socket) -> None:
    """Closes a connection so that the other end sees a reset."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It is closed already.
        return


class _Handler(BaseHTTPRequestHandler):
    """Passes requests on, or does what the fault says."""

    protocol_version = "HTTP/1.1"

    server: _Server

    def setup(self) -> None:
        """Remembers the connection."""
        super().setup()
        self.server.open_sockets.add(self.connection)

    def finish(self) -> None:
        """Forgets the connection."""
        self.server.open_sockets.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Says nothing about requests."""

    def handle_one_request(self) -> None:
        """Takes every method alike; a broken connection ends the request."""
        try:
            self.raw_requestline = self.rfile.readline(1 << 16)
            self.close_connection = not self.raw_requestline
            if self.raw_requestline and self.parse_request():
                self._any()
                self.wfile.flush()
        except OSError:
            self.close_connection = True

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault, changed = self.server.proxy.current(self.path)
        wait_seconds = {"hang": None, "delay": fault.seconds}.get(fault.kind, 0.0)
        if fault.kind in ("hang", "delay") and changed.wait(wait_seconds):
            self.close_connection = True
        elif fault.kind == "reset":
            reset(self.connection)
            self.close_connection = True
        elif fault.kind == "status":
            self._answer(fault.status, dict(fault.headers), b"")
        elif fault.kind == "html":
            self._answer(502, {"Content-Type": "text/html"}, HTML.encode())
        else:
            self._forward(body, fault)

    def _forward(self, body: bytes, fault: Fault) -> None:
        upstream = _connect(self.server.proxy.upstream)
        try:
            headers = {key: value for key, value in self.headers.items() if key.lower() not in HOP_HEADERS}
            if fault.kind in ("rewrite", "truncate"):
                headers["Accept-Encoding"] = "identity"
            upstream.request(self.command, self.path, body or None, headers)
            answer = upstream.getresponse()
            kept = _end_to_end(answer.getheaders())
            if fault.kind == "rewrite":
                self._answer(answer.status, kept, fault.rewrite(answer.read()))
            elif fault.kind == "truncate":
                whole = answer.read()
                self._answer(answer.status, kept, whole, whole[: len(whole) // 2])
                self.close_connection = True
            else:
                self._stream(answer, kept)
        except http.client.HTTPException:
            self.close_connection = True
        finally:
            upstream.close()

    def _stream(self, answer: http.client.HTTPResponse, headers: Mapping[str, str]) -> None:
        self.send_response_only(answer.status)
        for key, value in headers.items():
            self.send_header(key, value)
        if answer.status in (204, 304) or self.command == "HEAD":
            self.end_headers()
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while data := answer.read1(1 << 16):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _answer(
        self, status: int, headers: Mapping[str, str], body: bytes, sent: bytes | None = None
    ) -> None:
        self.send_response_only(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if sent is None else sent)


def _end_to_end(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {key: value for key, value in headers if key.lower() not in HOP_HEADERS}


def _connect(upstream: SplitResult) -> http.client.HTTPConnection:
    host, port = upstream.hostname or LOOPBACK, upstream.port
    if upstream.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=UPSTREAM_SECONDS, context=context)
    return http.client.HTTPConnection(host, port, timeout=UPSTREAM_SECONDS)
