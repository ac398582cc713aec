"""What the chart tells the component of the certificates, for many values; no cluster is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from certs.probe import Target, target_of
from certs.settings import ENV_PREFIX, CertsSettings
from runtime.settings import load
from tests.manifests.rendered import of_kind

Render = Callable[..., list[dict[str, Any]]]
SERVICE = "gpu-tenure-webhook.gpu-tenure-system.svc"


def settings_of(objects: list[dict[str, Any]]) -> CertsSettings:
    """What the process reads."""
    pod = of_kind(objects, "Deployment")["gpu-tenure-certs"]["spec"]["template"]["spec"]
    environment = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    return load(CertsSettings, {}, None, ENV_PREFIX, environment)


@pytest.mark.parametrize(
    ("url", "name", "port"),
    [
        pytest.param("https://host.example.com/gpu/", "host.example.com", 443, id="a name"),
        pytest.param("https://host.example.com:8443", "host.example.com", 8443, id="a name and a port"),
        pytest.param("https://10.0.0.7:8443/gpu", "10.0.0.7", 8443, id="an address and a port"),
        pytest.param("https://[fd00::7]", "fd00::7", 443, id="an address of IPv6"),
        pytest.param("https://[fd00::7]:8443", "fd00::7", 8443, id="an address of IPv6 and a port"),
    ],
)
def test_the_certificate_is_for_the_host_of_the_url(render: Render, url: str, name: str, port: int) -> None:
    """The API server dials that host and asks for its name; so does the probe."""
    settings = settings_of(render({"webhook": {"url": url}}))
    assert settings.names == (name,)
    assert target_of(settings.probe, settings.plan.names) == Target(name, port, name)


def test_without_a_url_the_certificate_is_for_the_service(render: Render) -> None:
    """And the Service is what is dialled."""
    settings = settings_of(render({}))
    assert settings.names == ()
    assert target_of(settings.probe, settings.plan.names) == Target(SERVICE, 443, SERVICE)


def test_what_is_told_by_hand_wins(render: Render) -> None:
    """`certs.env` takes the place of what comes of the URL."""
    env = {f"{ENV_PREFIX}NAMES": "host.example.com,other", f"{ENV_PREFIX}PROBE": "none"}
    settings = settings_of(render({"webhook": {"url": "https://host.example.com"}, "certs": {"env": env}}))
    assert settings.names == ("host.example.com", "other")
    assert settings.probe == "none"
