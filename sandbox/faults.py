"""An HTTP proxy that can go wrong in the ways that real servers do; knows neither Prometheus nor Kubernetes."""

from __future__ import annotations

import http.client
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Literal
from urllib.parse import urlsplit

from sandbox.ports import LOOPBACK

Kind = Literal["pass", "hang", "reset", "truncate", "delay", "status", "html", "rewrite"]
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "upgrade"}
UPSTREAM_SECONDS = 600.0
HTML = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>"


@dataclass(frozen=True)
class Fault:
    """What goes wrong with each request.

    Attributes:
        kind: pass; hang (accepted, never answered); reset (connection reset); truncate (half of the body, then closed); delay
            (`seconds` late); status (an empty answer with `status`); html (a 502 page); rewrite (the body as changed by
            `rewrite`).
        seconds: For delay.
        status: For status.
        headers: Further headers for status, such as Retry-After.
        rewrite: For rewrite.
        only: Applies to paths that begin so; all others pass.
    """

    kind: Kind = "pass"
    seconds: float = 0.0
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    rewrite: Callable[[bytes], bytes] = bytes
    only: str = "/"


class FaultProxy:
    """Listens on a loopback port and passes everything on to `upstream`, watches included, but for its `fault`.

    With `certificate` and `key` it speaks TLS to its clients; towards an https upstream it does not check certificates.
    """

    def __init__(
        self, upstream: str, certificate: Path | None = None, key: Path | None = None, port: int = 0
    ) -> None:
        self.upstream = urlsplit(upstream)
        self.requests = 0
        self._fault = Fault()
        self._changed = threading.Event()
        self._server = _Server((LOOPBACK, port), _handler(self))
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._scheme = "http" if certificate is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.open_sockets: set[socket.socket] = set()
        super().__init__(address, handler)

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


def _handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Passes requests on, or does what the fault says."""

        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            """Remembers the connection."""
            super().setup()
            self._open().add(self.connection)

        def finish(self) -> None:
            """Forgets the connection."""
            self._open().discard(self.connection)
            super().finish()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
            """Says nothing about requests."""

        def _open(self) -> set[socket.socket]:
            server = self.server
            return server.open_sockets if isinstance(server, _Server) else set()

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault, changed = proxy.current(self.path)
            if fault.kind == "hang" or (fault.kind == "delay" and changed.wait(fault.seconds)):
                changed.wait()
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

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _any

        def _forward(self, body: bytes, fault: Fault) -> None:
            upstream = _connect(proxy)
            try:
                headers = {
                    key: value for key, value in self.headers.items() if key.lower() not in HOP_HEADERS
                }
                if fault.kind in ("rewrite", "truncate"):
                    headers["Accept-Encoding"] = "identity"
                upstream.request(self.command, self.path, body or None, headers)
                answer = upstream.getresponse()
                kept = {key: value for key, value in answer.getheaders() if key.lower() not in HOP_HEADERS}
                if fault.kind == "rewrite":
                    self._answer(answer.status, kept, fault.rewrite(answer.read()))
                elif fault.kind == "truncate":
                    whole = answer.read()
                    self._answer(answer.status, kept, whole, whole[: len(whole) // 2])
                    self.close_connection = True
                else:
                    self._stream(answer, kept)
            except (OSError, http.client.HTTPException):
                self.close_connection = True
            finally:
                upstream.close()

        def _stream(self, answer: http.client.HTTPResponse, headers: Mapping[str, str]) -> None:
            self.send_response_only(answer.status)
            for key, value in headers.items():
                self.send_header(key, value)
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

    return Handler


def _connect(proxy: FaultProxy) -> http.client.HTTPConnection:
    host, port = proxy.upstream.hostname or LOOPBACK, proxy.upstream.port
    if proxy.upstream.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=UPSTREAM_SECONDS, context=context)
    return http.client.HTTPConnection(host, port, timeout=UPSTREAM_SECONDS)
