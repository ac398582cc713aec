"""What is read of Pods and Services."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.balancer import Backend
from sandbox.commands import Command
from sandbox.kubelet.network import backends
from sandbox.kubelet.pods import Probe, ServicePort, read_service, with_addresses, with_files
from tests.sandbox.kubelet.objects import pod


def test_a_pod_is_read_as_far_as_it_is_run() -> None:
    """Its command, account, ports, probe, and the Secrets that its container mounts."""
    found = pod()
    env = {"CERT": "/tls/tls.crt", "NAME": "w-1", "URL": "http://prometheus.svc:9090/x"}
    assert found.command == Command(("webhook", "--extra=/tls/extra"), env)
    assert found.ports == {"https": 8443, "ops": 9443}
    assert found.probe == Probe("ops", "/readyz")
    assert found.secrets == {"/tls": "pair"}
    assert (found.account, found.grace_seconds, found.restarts) == ("gpu-tenure-webhook", 45, "Always")
    assert found.scheduled
    assert not found.deleting


def test_files_of_volumes_are_found_where_they_are_here() -> None:
    """Only values that begin with the path of a mount are changed."""
    given = Command(("/tls/a", "x/tls/a"), {"A": "/tls/a", "B": "/tlsx/a", "C": "/tls"})
    expected = Command(("/here/a", "x/tls/a"), {"A": "/here/a", "B": "/tlsx/a", "C": "/tls"})
    assert with_files(given, {"/tls": "/here"}) == expected
    assert with_files(given, {"/tls/": "/here"}) == expected


def test_names_of_the_cluster_are_addresses_here() -> None:
    """As the cluster's DNS would have it."""
    found = with_addresses(pod().command, {"prometheus.svc:9090": "127.0.0.1:5"})
    assert found.env["URL"] == "http://127.0.0.1:5/x"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {
                "clusterIP": "10.0.0.9",
                "selector": {"app": "w"},
                "ports": [{"port": 443, "targetPort": "https"}],
            },
            [ServicePort("s", "10.0.0.9", 443, {"app": "w"}, "https")],
            id="a port is reached at the cluster IP",
        ),
        pytest.param(
            {"clusterIP": "10.0.0.9", "selector": {"app": "w"}, "ports": [{"port": 9443}]},
            [ServicePort("s", "10.0.0.9", 9443, {"app": "w"}, "9443")],
            id="without a target it is the same port",
        ),
        pytest.param(
            {"clusterIP": "None", "selector": {"app": "w"}, "ports": [{"port": 443}]},
            [],
            id="a headless Service has no address",
        ),
        pytest.param(
            {"clusterIP": "10.0.0.9", "ports": [{"port": 443}]}, [], id="one without a selector is not ours"
        ),
    ],
)
def test_services_are_read(spec: dict[str, Any], expected: list[ServicePort]) -> None:
    """Port by port."""
    assert read_service({"metadata": {"name": "s"}, "spec": spec}) == expected


@pytest.mark.parametrize(
    ("service", "changes", "port"),
    [
        pytest.param(
            ServicePort("s", "a", 443, {"app": "w"}, "https"), {}, "https", id="by the name of a port"
        ),
        pytest.param(ServicePort("s", "a", 443, {"app": "w"}, "8443"), {}, "https", id="by its number"),
        pytest.param(ServicePort("s", "a", 443, {"app": "w"}, "other"), {}, None, id="no such port"),
        pytest.param(ServicePort("s", "a", 443, {"app": "x"}, "https"), {}, None, id="other labels"),
        pytest.param(
            ServicePort("s", "a", 443, {"app": "w"}, "https"),
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            None,
            id="a pod on its way out is no backend",
        ),
    ],
)
def test_a_service_reaches_the_pods_that_it_selects(
    service: ServicePort, changes: dict[str, Any], port: str | None
) -> None:
    """Where they listen on this machine."""
    here = {"https": Backend("127.0.0.1", 1), "ops": Backend("127.0.0.1", 2)}
    assert backends(service, [(pod(**changes), here)]) == ((here[port],) if port else ())
