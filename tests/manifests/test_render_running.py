"""What the chart renders to run the components: replicas, sizes, networks, metrics, first installations."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from certs.settings import ENV_PREFIX as CERTS_PREFIX
from certs.settings import CertsSettings
from reaper.settings import ENV_PREFIX as REAPER_PREFIX
from reaper.settings import ReaperSettings
from runtime.settings import load
from tests.manifests.rendered import environment, of_kind

Render = Callable[..., list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("choice", "upgrade", "policy"),
    [
        pytest.param("auto", False, "Ignore", id="a first installation never stands in the way"),
        pytest.param("auto", True, "Fail", id="an upgrade does what the profile says"),
        pytest.param(True, False, "Fail", id="at once, for tools that only render"),
        pytest.param(False, True, "Ignore", id="never"),
    ],
)
def test_pods_wait_only_for_a_webhook_that_is_there(
    render: Render, choice: object, upgrade: bool, policy: str
) -> None:
    """Under enforce; the other profiles never make a pod wait."""
    values: dict[str, Any] = {"profile": "enforce", "webhook": {"failClosed": choice}}
    configuration = of_kind(render(values, upgrade=upgrade), "ValidatingWebhookConfiguration")["gpu-tenure"]
    pods = next(one for one in configuration["webhooks"] if one["name"] == "validate.gpu-tenure.io")
    assert pods["failurePolicy"] == policy
    for profile in ("observe", "warn"):
        text = json.dumps(of_kind(render(values | {"profile": profile}), "ValidatingWebhookConfiguration"))
        assert '"Fail"' not in text


def test_a_cronjob_takes_the_place_of_the_deployment(render: Render) -> None:
    """One cycle a run, with the same settings; a run that is late is left out, never doubled."""
    objects = render({"reaper": {"mode": "CronJob", "schedule": "*/7 * * * *"}})
    assert "gpu-tenure-reaper" not in of_kind(objects, "Deployment")
    spec = of_kind(objects, "CronJob")["gpu-tenure-reaper"]["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("*/7 * * * *", "Forbid")
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (pod["restartPolicy"], container["args"]) == ("Never", ["reaper", "--once"])
    assert "readinessProbe" not in container
    looped = of_kind(render(), "Deployment")["gpu-tenure-reaper"]["spec"]["template"]["spec"]
    assert container["env"] == looped["containers"][0]["env"]


def test_what_belongs_to_the_release_lies_in_its_namespace(render: Render) -> None:
    """The Lease and the pause switch too, wherever it is installed."""
    environ = environment(render(namespace="elsewhere"), "reaper")
    settings = load(ReaperSettings, {}, None, REAPER_PREFIX, environ)
    assert settings.lease_namespace == "elsewhere"


def test_certificates_read_their_environment(render: Render) -> None:
    """Every variable is a setting, and says what the values say."""
    values = {"certs": {"leafLife": "10d", "leafRenew": "5d"}, "tls": {"secretName": "serving"}}
    deployment = of_kind(render(values, "elsewhere"), "Deployment")["gpu-tenure-certs"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["certs", "watch"]
    environ = {entry["name"]: entry["value"] for entry in container["env"]}
    settings = load(CertsSettings, {}, None, CERTS_PREFIX, environ)
    assert (settings.namespace, settings.serving_secret) == ("elsewhere", "serving")
    assert settings.plan.lives.leaf == timedelta(days=10)
    assert settings.plan.names[0] == "gpu-tenure-webhook.elsewhere.svc"


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_every_size_gives_every_component_its_limits(render: Render, size: str) -> None:
    """A larger one never less; what an administrator writes goes before it."""
    objects = render({"size": size, "quota": {"enabled": True}})
    for deployment in of_kind(objects, "Deployment").values():
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["requests"]["cpu"]
        assert container["resources"]["limits"]["memory"].endswith("i")
    own = {"limits": {"memory": "5Gi"}}
    objects = render({"size": size, "reaper": {"resources": own}})
    (container,) = of_kind(objects, "Deployment")["gpu-tenure-reaper"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["resources"] == own


def test_the_network_lets_reviews_and_metrics_in(render: Render) -> None:
    """And nothing else; each component is selected by exactly one policy."""
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    values = {"networkPolicies": {"metricsFrom": peers, "egress": True}, "quota": {"enabled": True}}
    objects = render(values)
    policies = of_kind(objects, "NetworkPolicy")
    assert set(policies) == set(of_kind(objects, "Deployment"))
    for name, policy in policies.items():
        rules = policy["spec"]["ingress"]
        open_to_all = [rule["ports"] for rule in rules if "from" not in rule]
        assert open_to_all == ([[{"port": "https"}]] if name == "gpu-tenure-webhook" else [])
        assert [rule["from"] for rule in rules if "from" in rule] == [peers]
        pod = of_kind(objects, "Deployment")[name]["spec"]["template"]["metadata"]["labels"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod.items()


def test_prometheus_finds_every_component(render: Render) -> None:
    """One Service selects the pods of all of them, the monitor selects that Service and names the jobs."""
    monitor = {"enabled": True, "labels": {"release": "x"}, "endpoint": {"scheme": "http"}}
    objects = render({"metrics": {"serviceMonitor": monitor}, "quota": {"enabled": True}})
    service = of_kind(objects, "Service")["gpu-tenure-metrics"]
    for deployment in of_kind(objects, "Deployment").values():
        template = deployment["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert service["spec"]["ports"][0]["targetPort"] in ports
    found = of_kind(objects, "ServiceMonitor")["gpu-tenure"]
    wanted = found["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert found["metadata"]["labels"]["release"] == "x"
    (endpoint,) = found["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == ("ops", "http")


def test_protected_metrics_come_with_the_rights_to_ask(render: Render) -> None:
    """Only then, and for every component that runs."""
    assert "gpu-tenure-metrics-auth" not in of_kind(render(), "ClusterRole")
    objects = render({"metrics": {"protected": True}, "quota": {"enabled": True}})
    binding = of_kind(objects, "ClusterRoleBinding")["gpu-tenure-metrics-auth"]
    names = {subject["name"] for subject in binding["subjects"]}
    assert names == set(of_kind(objects, "Deployment"))
    assert environment(objects, "reaper")["GPU_TENURE_REAPER_PROTECT_METRICS"] == "true"
