"""The settings of the webhook: defaults, and what is refused at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy.errors import InvalidError
from policy.profile import Profile
from runtime.settings import describe, load
from webhook.settings import ENV_PREFIX, WebhookSettings

TLS = {"tls_cert": Path("tls.crt"), "tls_key": Path("tls.key")}


def read(flags: dict[str, Any], environ: dict[str, str] | None = None) -> WebhookSettings:
    """Loads settings from flags and environment alone."""
    return load(WebhookSettings, flags, None, ENV_PREFIX, environ or {})


def test_defaults_are_safe() -> None:
    """Observe only, all system namespaces excluded, connections that outlive the API server's pool."""
    settings = read(TLS)
    assert settings.profile is Profile.OBSERVE
    assert {"kube-system", "gpu-tenure-system"} <= settings.admission().excluded_namespaces
    limits = settings.limits()
    assert limits.keep_alive_seconds >= 120
    assert limits.body_bytes >= 7 * 1024 * 1024


def test_only_what_is_listed_is_excluded() -> None:
    """Installed elsewhere, a namespace with our usual name is anybody's: the chart lists where we are."""
    settings = read({**TLS, "excluded_namespaces": "a,b"})
    assert settings.admission().excluded_namespaces == {"a", "b"}


def test_the_environment_of_the_chart_is_read() -> None:
    """As the Deployment sets it, beside what the kubelet adds for the Service."""
    settings = read(
        {},
        {
            f"{ENV_PREFIX}PROFILE": "enforce",
            f"{ENV_PREFIX}TLS_CERT": "/tls/tls.crt",
            f"{ENV_PREFIX}TLS_KEY": "/tls/tls.key",
            f"{ENV_PREFIX}TRUSTED_CONTROLLERS": "system:kube-controller-manager,system:serviceaccount:a:b",
            f"{ENV_PREFIX}SERVICE_HOST": "10.0.0.1",
            f"{ENV_PREFIX}PORT": "tcp://10.0.0.1:443",
        },
    )
    assert settings.profile is Profile.ENFORCE
    assert settings.port == 8443
    assert settings.admission().trusted_controllers[1] == "system:serviceaccount:a:b"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param({}, "--tls-cert, --tls-key: are required unless", id="no certificate"),
        pytest.param({"tls_cert": "x"}, "given together", id="a certificate without its key"),
        pytest.param({**TLS, "profile": "strict"}, "profile", id="an unknown profile"),
        pytest.param({**TLS, "port": 70000}, "port", id="an impossible port"),
        pytest.param({**TLS, "keep_alive": "75s"}, "keep-alive", id="connections that the API server loses"),
        pytest.param({**TLS, "drain": "soon"}, "drain", id="a drain that is no duration"),
    ],
)
def test_what_is_refused(flags: dict[str, Any], message: str) -> None:
    """A sentence that names the setting."""
    with pytest.raises(InvalidError, match=message):
        read(flags)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_plain_http_is_for_this_machine_only(host: str) -> None:
    """Measurements and tests may leave TLS out."""
    assert read({"host": host}).tls_cert is None


def test_every_setting_is_described() -> None:
    """The documentation has a sentence for each."""
    assert all(row.description for row in describe(WebhookSettings, ENV_PREFIX))
