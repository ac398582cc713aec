"""Names of the certificate that are none are refused before anything is made of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from certs.bundle import read_certificates
from certs.issue import issue_ca, issue_leaf
from certs.settings import ENV_PREFIX, CertsSettings
from policy.errors import InvalidError
from runtime.settings import load

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def settings_with(names: str) -> CertsSettings:
    """As the command reads them."""
    return load(CertsSettings, {"names": names}, None, ENV_PREFIX, {})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("webhook.exämple.com", id="not ASCII"),
        pytest.param("a b", id="a blank"),
        pytest.param("https://webhook.example.com", id="a URL"),
        pytest.param("webhook.example.com:443", id="with a port"),
        pytest.param("webhook..example.com", id="an empty label"),
        pytest.param(f"{'x' * 64}.example.com", id="a label that is too long"),
        pytest.param(".".join(["x" * 60] * 5), id="too long"),
        pytest.param("10.0.0.300", id="no address of IPv4"),
        pytest.param("fe80::1%eth0", id="an address with a zone"),
        pytest.param("-webhook", id="begins with a hyphen"),
    ],
)
def test_a_name_that_no_certificate_may_have_is_refused(name: str) -> None:
    """With the flag, what it must be, and an example."""
    with pytest.raises(InvalidError) as found:
        settings_with(f"webhook.example.com,{name}")
    (error,) = found.value.errors
    assert error.path == "--names"
    assert "must be host names and IP addresses such as webhook.example.com,10.0.0.7" in str(error)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        pytest.param("localhost", "localhost", id="one label"),
        pytest.param("Webhook.Example.com", "webhook.example.com", id="capital letters"),
        pytest.param("my_host.local", "my_host.local", id="an underscore"),
        pytest.param("*.example.com", "*.example.com", id="a wildcard"),
        pytest.param("10.0.0.7", "10.0.0.7", id="an address"),
        pytest.param("fd00:0:0::7", "fd00::7", id="an address of IPv6, not as certificates write it"),
    ],
)
def test_a_name_is_written_as_the_certificate_has_it(name: str, written: str) -> None:
    """Otherwise it would be missed in each round, and the certificate made anew for ever."""
    plan = settings_with(name).plan
    ca = issue_ca("CA", NOW, timedelta(days=2))
    leaf = issue_leaf(ca, plan.dns_names, plan.ip_addresses, NOW, timedelta(days=1))
    (read,) = read_certificates(leaf.cert_pem)
    assert written in plan.names
    assert set(plan.names) == set(read.names)
