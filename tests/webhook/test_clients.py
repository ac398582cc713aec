"""With a client CA only the API server may send reviews: by the handshake, and by its name."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from certs.issue import KeyPair, issue_ca, issue_leaf
from policy.errors import InvalidError
from runtime.settings import load
from tests.certs.clients import client_pair
from webhook.clients import Clients
from webhook.reception import Limits
from webhook.server import ReviewServer
from webhook.settings import ENV_PREFIX, WebhookSettings
from webhook.tls import ServingCertificate

NOW = datetime.now(UTC)


class Nobody:
    """Counts nothing."""

    def failed(self, status: HTTPStatus) -> None:
        """Ignores it."""


class Gate:
    """A server that wants client certificates, and clients with and without them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.ca, self.other_ca = (
            issue_ca("serving", NOW, timedelta(days=2)),
            issue_ca("clients", NOW, timedelta(days=2)),
        )
        leaf = issue_leaf(self.ca, ["localhost"], ["127.0.0.1"], NOW, timedelta(days=1))
        for name, content in (
            ("tls.crt", leaf.cert_pem),
            ("tls.key", leaf.key_pem),
            ("ca.crt", self.ca.cert_pem),
            ("clients.crt", self.other_ca.cert_pem),
        ):
            (folder / name).write_bytes(content)

    async def send(self, pair: KeyPair | None) -> int:
        """Sends a review; returns the status, or raises if the handshake fails."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        if pair is not None:
            (self.folder / "client.pem").write_bytes(pair.cert_pem + pair.key_pem)
            context.load_cert_chain(self.folder / "client.pem")
        connector = aiohttp.TCPConnector(ssl=context)
        url = f"https://127.0.0.1:{self.port}/validate"
        async with aiohttp.ClientSession(connector=connector) as session, session.post(url) as answer:
            return answer.status


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    """A server whose clients must be called kube-apiserver."""
    gate = Gate(tmp_path)

    async def review(_: bytes) -> bytes:
        return b"{}"

    certificate = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "clients.crt")
    server = ReviewServer({"/validate": review}, Limits(), Nobody(), Clients(("kube-apiserver",)))
    gate.port = await server.start("127.0.0.1", 0, certificate.context)
    yield gate
    await server.stop(1)


async def test_the_api_server_gets_in(gate: Gate) -> None:
    """Signed by the right CA, with the right name."""
    assert await gate.send(client_pair(gate.other_ca, "kube-apiserver", NOW)) == HTTPStatus.OK


async def test_another_client_of_the_same_ca_does_not(gate: Gate) -> None:
    """The cluster's CA signs many: kubelets, people."""
    assert await gate.send(client_pair(gate.other_ca, "system:node:a", NOW)) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("make", [lambda _: None, lambda gate: client_pair(gate.ca, "kube-apiserver", NOW)])
async def test_without_a_certificate_of_the_ca_there_is_no_handshake(
    gate: Gate, make: Callable[[Gate], KeyPair | None]
) -> None:
    """Neither nothing nor a name from elsewhere helps."""
    with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
        await gate.send(make(gate))


@pytest.mark.parametrize(
    ("certificate", "sends"),
    [
        pytest.param({"subject": ((("commonName", "a"),),)}, True, id="a common name"),
        pytest.param({"subjectAltName": (("DNS", "b"),)}, True, id="an alternative name"),
        pytest.param({"subject": ((("organizationName", "a"),),)}, False, id="an organisation"),
        pytest.param({"subjectAltName": (("IP Address", "a"),)}, False, id="an address"),
        pytest.param({}, False, id="no names"),
        pytest.param(None, False, id="no certificate"),
    ],
)
def test_names(certificate: dict[str, Any] | None, sends: bool) -> None:
    """Names are common names and DNS names, compared whole."""
    assert Clients(("a", "b")).may_send(certificate) is sends
    assert Clients().may_send(certificate)


def test_settings_that_would_check_nothing_are_refused() -> None:
    """A name without a CA, or a CA without TLS, is a mistake."""
    for flags in ({"client_names": "a"}, {"client_ca": "/x"}):
        with pytest.raises(InvalidError, match="--client-"):
            load(WebhookSettings, {"host": "127.0.0.1", **flags}, None, ENV_PREFIX, {})
