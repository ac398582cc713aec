"""The way of the API server to Services, over real sockets."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sandbox.egress import Egress, egress_config, short
from sandbox.ports import LOOPBACK

SECONDS = 10


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that says everything back, in capitals; gives its port."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    while data := connection.recv(1024):
                        connection.sendall(data.upper())

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def egress(echo: int) -> Iterator[Path]:
    """A proxy that knows one Service, which leads to the echo; gives its socket file, deep down."""
    routes = {("10.0.0.9", 443): echo, ("10.0.0.9", 1): 1}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("deep-" * 40) / "egress.sock"
        path.parent.mkdir()
        with Egress(path, lambda host, port: routes.get((host, port))):
            yield path


def dial(path: Path, request: str) -> tuple[str, socket.socket]:
    """Sends a request as the API server does; gives the status line's rest, and the connection."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(SECONDS)
    with short(path) as name:
        client.connect(name)
    client.sendall(f"{request} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        piece = client.recv(1)
        if not piece:
            break
        said += piece
    return said.decode().split("\r\n")[0].removeprefix("HTTP/1.1 "), client


def test_a_service_is_reached_by_its_address(egress: Path) -> None:
    """Bytes go both ways, and an end on one side is an end on the other."""
    status, client = dial(egress, "CONNECT 10.0.0.9:443")
    with client:
        assert status == "200 Connection Established"
        client.sendall(b"hello")
        assert client.recv(5) == b"HELLO"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


def test_loopback_addresses_are_what_they_are(egress: Path, echo: int) -> None:
    """Webhooks at a loopback URL work as before."""
    status, client = dial(egress, f"CONNECT {LOOPBACK}:{echo}")
    with client:
        assert status.startswith("200")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        pytest.param("CONNECT 10.0.0.8:443", "502 Bad Gateway", id="an address that is no Service"),
        pytest.param("CONNECT example.com:443", "502 Bad Gateway", id="the outside is never dialled"),
        pytest.param("CONNECT 10.0.0.9:1", "504 Gateway Timeout", id="nobody listens behind it"),
        pytest.param("CONNECT 10.0.0.9", "400 Bad Request", id="no port"),
        pytest.param("GET http://10.0.0.9:443/", "400 Bad Request", id="another method"),
    ],
)
def test_everything_else_is_refused(egress: Path, request_line: str, status: str) -> None:
    """With a status that the API server shows."""
    said, client = dial(egress, request_line)
    with client:
        assert said == status
        assert client.recv(1) == b""


def test_the_api_server_is_told_of_the_socket_file() -> None:
    """Only for what is meant for the cluster: etcd is reached without it."""
    (selection,) = yaml.safe_load(egress_config("s.sock"))["egressSelections"]
    assert selection["name"] == "cluster"
    assert selection["connection"]["transport"] == {"uds": {"udsName": "s.sock"}}
