"""Where the probe dials, and that whatever it meets there is an answer."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta

import pytest

from certs.issue import issue_ca
from certs.probe import Target, dial, target_of

NAME = "gpu-tenure-webhook.gpu-tenure-system.svc"


@pytest.mark.parametrize(
    ("text", "target"),
    [
        pytest.param("", Target(NAME, 443, NAME), id="nothing is the Service"),
        pytest.param("none", None, id="none is no probe"),
        pytest.param("127.0.0.1:8443", Target("127.0.0.1", 8443, NAME), id="an address and its port"),
        pytest.param("[::1]:8443", Target("::1", 8443, NAME), id="an address of IPv6"),
        pytest.param(
            "host.example.com:443", Target("host.example.com", 443, "host.example.com"), id="a further name"
        ),
        pytest.param("10.0.0.7:443", Target("10.0.0.7", 443, "10.0.0.7"), id="a further address"),
        pytest.param("[::2]:443", Target("::2", 443, "::2"), id="a further address of IPv6"),
    ],
)
def test_what_is_dialled_follows_from_the_setting(text: str, target: Target | None) -> None:
    """The name in the certificate is that of the Service, or of the host where it is for that too."""
    assert target_of(text, (NAME, "host.example.com", "10.0.0.7", "::2")) == target


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("webhook", id="without a port"),
        pytest.param(":443", id="without a host"),
        pytest.param("webhook:0", id="with no port that there is"),
        pytest.param("webhook:65536", id="with a port that is too large"),
    ],
)
def test_an_address_that_cannot_be_dialled_is_refused(text: str) -> None:
    """With an example of one that can."""
    with pytest.raises(ValueError, match="such as 127"):
        target_of(text, (NAME,))


@pytest.mark.parametrize(
    ("host", "authorities", "said"),
    [
        pytest.param("127.0.0.1", b"no certificate", "holds no CA", id="a caBundle that holds nothing"),
        pytest.param("127.0.0.1", None, "", id="a port where nobody listens"),
        pytest.param(f"{'x' * 64}.svc", None, "", id="a name that can be none"),
    ],
)
async def test_what_cannot_be_dialled_is_said_and_not_raised(
    host: str, authorities: bytes | None, said: str
) -> None:
    """The round that probes goes on."""
    ca = issue_ca("CA", datetime(2026, 3, 1, tzinfo=UTC), timedelta(days=1)).cert_pem
    with socket.socket() as deaf:  # a port that is taken, and on which nobody listens
        deaf.bind(("127.0.0.1", 0))
        target = Target(host, deaf.getsockname()[1], NAME)
        probe = await dial(target, ca if authorities is None else authorities)
    assert probe.error
    assert said in probe.error
    assert probe.not_after is None
