"""The chart as Helm renders it, for many values; no cluster is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.settings import load
from tests.manifests.rendered import environment, of_kind
from webhook.settings import ENV_PREFIX as WEBHOOK_PREFIX
from webhook.settings import WebhookSettings

ROOT = Path(__file__).parents[2]
CHART = ROOT / "manifests" / "chart"
Render = Callable[..., list[dict[str, Any]]]

MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    "warn": {"profile": "warn"},
    "enforce": {"profile": "enforce", "tls": {"source": "secret", "caBundle": "Zm9v"}},
    "a loopback URL": {"webhook": {"url": "https://127.0.0.1:8443"}, "deployments": {"enabled": False}},
    "a URL with a path": {"webhook": {"url": "https://host.example.com/gpu/"}},
    "a namespace of its own": {"namespace": {"create": True}},
    "no schedulers": {"schedulers": []},
    "schedulers that are no service accounts": {"schedulers": ["volcano", "system:serviceaccount:a:b"]},
    "nothing excluded but our own": {"excludedNamespaces": []},
    "an image by digest": {"image": {"repository": "example.com/gpu-tenure", "digest": "sha256:" + "0" * 64}},
    "placement": {
        "webhook": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "replicas": 3},
        "reaper": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "replicas": 2},
        "image": {"repository": "x", "pullSecrets": [{"name": "s"}]},
    },
    "no owners but the built-in ones": {"reaper": {"ownerResources": []}},
    "quotas": {"quota": {"enabled": True}, "webhook": {"timeoutSeconds": {"validate": 10}}},
    "client certificates": {"tls": {"clientCASecretName": "clients", "clientNames": ["kube-apiserver"]}},
    "certificates by cert-manager": {"tls": {"source": "cert-manager"}},
    "an issuer of cert-manager": {
        "tls": {"source": "cert-manager", "issuer": {"name": "internal", "kind": "ClusterIssuer"}}
    },
    "no policies": {"policies": {"shipped": False}},
    "bypasses refused": {"bypass": {"action": "deny", "exceptNamespaces": ["storage"]}},
    "no guard of bypasses": {"bypass": {"action": "off"}},
    "creators that act for others": {
        "requesterSources": [
            {"creator": "system:serviceaccount:hub:hub", "annotation": "example.com/user"},
            {"creator": "portal", "label": "user"},
            {"creator": "portal", "namespaceAnnotation": "owner"},
        ]
    },
    "alerts out and in": {
        "reaper": {
            "alertmanager": {
                "urls": ["http://am-0:9093", "https://am-1/prefix"],
                "labels": {"cluster": "a"},
                "secretName": "alertmanager",
                "keys": {"token": "token", "ca": "ca.crt", "cert": "tls.crt", "key": "tls.key"},
            },
            "receiver": {"tokenSecretName": "receiver"},
        }
    },
    "rules for the operator": {"rules": {"kind": "PrometheusRule", "labels": {"release": "x"}}},
    "rules as a file": {
        "rules": {"kind": "ConfigMap", "namespace": "monitoring", "runbookURL": "https://a/b"}
    },
    "rules, but none about low usage": {"rules": {"kind": "PrometheusRule", "lowUsage": False}},
    "a canary": {"canary": {"enabled": True, "namespace": "tries", "resource": "amd.com/gpu"}},
    "dashboards": {"dashboards": {"enabled": True, "namespace": "monitoring", "annotations": {"a": "b"}}},
    "a CronJob": {"reaper": {"mode": "CronJob", "schedule": "*/10 * * * *"}},
    "metrics for whom the API server lets": {"metrics": {"protected": True}},
    "scraped by the operator": {
        "metrics": {"serviceMonitor": {"enabled": True, "namespace": "monitoring", "labels": {"a": "b"}}}
    },
    "a large cluster": {"size": "large", "quota": {"enabled": True}},
    "resources by hand": {"reaper": {"resources": {"limits": {"memory": "5Gi"}}}},
    "no network policies": {"networkPolicies": {"enabled": False}},
    "network policies both ways": {"networkPolicies": {"egress": True, "metricsFrom": [{"podSelector": {}}]}},
    "no switch": {"pause": {"create": False}},
    "one replica": {"webhook": {"replicas": 1}},
    "more environment": {"webhook": {"env": {"GPU_TENURE_WEBHOOK_LOG_LEVEL": "debug"}}},
}

"""What the first rule of the webhook of each shape of workloads selects."""

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown profile": ({"profile": "audit"}, "/profile"),
    "an unknown value": ({"profil": "warn"}, "profil"),
    "a plain URL": ({"webhook": {"url": "http://127.0.0.1:1"}}, "/webhook/url"),
    "a URL with a query": ({"webhook": {"url": "https://a/?b"}}, "/webhook/url"),
    "a time-out beyond the API server's": ({"webhook": {"timeoutSeconds": {"mutate": 31}}}, "/mutate"),
    "a bundle that is no base64": ({"tls": {"caBundle": "-----BEGIN"}}, "/tls/caBundle"),
    "a namespace that is none": ({"excludedNamespaces": ["a_b"]}, "/excludedNamespaces/0"),
    "a namespace that ends the list": ({"excludedNamespaces": ['a"]) || true || ("x" in ["']}, "/0"),
    "a source without a place": ({"requesterSources": [{"creator": "x"}]}, "/requesterSources/0"),
    "a source with two places": (
        {"requesterSources": [{"creator": "x", "label": "a", "annotation": "b"}]},
        "/requesterSources/0",
    ),
    "an unknown action": ({"bypass": {"action": "refuse"}}, "/bypass/action"),
    "a scheduler with a comma": ({"schedulers": ["a,b"]}, "/schedulers/0"),
    "no Prometheus": ({"reaper": {"prometheusURL": ""}}, "/reaper/prometheusURL"),
    "a cycle without a unit": ({"reaper": {"cycle": "60"}}, "/reaper/cycle"),
    "environment of another component": ({"reaper": {"env": {"PATH": "x"}}}, "/reaper/env"),
    "an Alertmanager with a password in its address": (
        {"reaper": {"alertmanager": {"urls": ["http://a:b@c"]}}},
        "/reaper/alertmanager/urls/0",
    ),
    "a label that is none": (
        {"reaper": {"alertmanager": {"labels": {"a": "b,c"}}}},
        "/reaper/alertmanager/labels/a",
    ),
    "rules of an unknown kind": ({"rules": {"kind": "Rule"}}, "/rules/kind"),
    "a reservation without a unit": ({"quota": {"reservation": "75"}}, "/quota/reservation"),
    "a digest cut short": ({"image": {"repository": "x", "digest": "sha256:0"}}, "/image/digest"),
}


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_the_chart_renders(render: Render, values: dict[str, Any]) -> None:
    """Every combination gives whole objects, none of them twice."""
    objects = render(values)
    names = [(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in objects]
    assert len(names) == len(set(names))
    assert all(obj["apiVersion"] for obj in objects)
    # Helm's marks of a value that was not there, or of a map that was printed as Go does.
    text = json.dumps(objects)
    assert "<no value>" not in text
    assert "map[" not in text
    assert "%!" not in text


@pytest.mark.parametrize(("values", "path"), WRONG.values(), ids=WRONG)
def test_wrong_values_are_named(render: Render, values: dict[str, Any], path: str) -> None:
    """The schema refuses them by their path."""
    with pytest.raises(ValueError, match="values don't meet the specifications") as error:
        render(values)
    assert path in str(error.value)


@pytest.mark.parametrize(
    ("url", "name", "address"),
    [
        pytest.param("", None, None, id="the Service alone"),
        pytest.param("https://hook.example.com:8443/gpu", "hook.example.com", None, id="a name"),
        pytest.param("https://127.0.0.1:8443", None, "127.0.0.1", id="an IPv4 address"),
        pytest.param("https://[::1]:8443", None, "::1", id="an IPv6 address"),
    ],
)
def test_cert_manager_is_asked_for_the_host_of_the_url(
    render: Render, url: str, name: str | None, address: str | None
) -> None:
    """The API server asks for that host in the place of the Service's name."""
    objects = render({"tls": {"source": "cert-manager"}, "webhook": {"url": url}})
    spec = of_kind(objects, "Certificate")["gpu-tenure-webhook"]["spec"]
    assert spec["dnsNames"][2:] == ([name] if name else [])
    assert spec.get("ipAddresses") == ([address] if address else None)


@pytest.mark.parametrize("source", ["certs", "cert-manager"])
def test_a_bundle_is_rendered_only_beside_your_own_secret(render: Render, source: str) -> None:
    """With other sources no upgrade may undo what a rotation wrote; to give one is a mistake with a name."""
    text = json.dumps(render({"tls": {"source": source}}))
    assert '"clientConfig"' in text
    assert '"caBundle"' not in text
    with pytest.raises(ValueError, match=r"tls\.caBundle counts only with tls\.source=secret"):
        render({"tls": {"source": source, "caBundle": "Zm9v"}})


def test_quotas_are_a_matter_of_choice(render: Render) -> None:
    """Without them nothing of theirs is installed, and the webhook does not look for them."""
    without, with_them = render(), render({"quota": {"enabled": True}})
    assert not [obj for obj in without if "quota" in obj["metadata"]["name"]]
    for objects, keeps, seconds in ((without, "false", 2), (with_them, "true", 5)):
        assert environment(objects, "webhook")["GPU_TENURE_WEBHOOK_QUOTAS"] == keeps
        configuration = of_kind(objects, "ValidatingWebhookConfiguration")["gpu-tenure"]
        pods = next(one for one in configuration["webhooks"] if one["name"] == "validate.gpu-tenure.io")
        assert pods["timeoutSeconds"] == seconds


def test_client_certificates_are_asked_for_where_a_ca_is_named(render: Render) -> None:
    """The CA is mounted, and the names are passed on."""
    tls = {"clientCASecretName": "clients", "clientNames": ["kube-apiserver", "front"]}
    objects = render({"tls": tls})
    settings = load(WebhookSettings, {}, None, WEBHOOK_PREFIX, environment(objects, "webhook"))
    assert settings.client_ca == Path("/client-ca/ca.crt")
    assert settings.client_names == ("kube-apiserver", "front")
    spec = of_kind(objects, "Deployment")["gpu-tenure-webhook"]["spec"]["template"]["spec"]
    assert {volume["name"] for volume in spec["volumes"]} >= {"client-ca"}


@pytest.mark.parametrize("component", ["webhook", "reaper", "quota", "certs"])
def test_pods_have_no_more_rights_than_they_need(render: Render, component: str) -> None:
    """Restricted by every standard, read-only, and with a token only in the pod itself."""
    objects = render({"quota": {"enabled": True}})
    spec = of_kind(objects, "Deployment")[f"gpu-tenure-{component}"]["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    account = of_kind(objects, "ServiceAccount")[f"gpu-tenure-{component}"]
    assert account["automountServiceAccountToken"] is False


def test_definitions_outlive_the_release(render: Render) -> None:
    """An uninstallation deletes no policy and no record."""
    definitions = of_kind(render(), "CustomResourceDefinition")
    assert set(definitions) == {"gpupolicies.gpu-tenure.io", "gpureclaims.gpu-tenure.io"}
    for definition in definitions.values():
        assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_schemas_have_no_accidental_fields(render: Render) -> None:
    """A comma in a description without quotes would make one, and Helm shows the API server's warning."""
    definitions = of_kind(render({"quota": {"enabled": True}}), "CustomResourceDefinition")
    assert len(definitions) == 3
    for name, definition in definitions.items():
        for version in definition["spec"]["versions"]:
            words = [key for key in schema_words(version["schema"]["openAPIV3Schema"]) if " " in key]
            assert words == [], name


def schema_words(schema: dict[str, Any]) -> list[str]:
    """The keywords of a schema and of those in it, names of properties left out."""
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return [*schema, *(word for one in inner if isinstance(one, dict) for word in schema_words(one))]


def test_the_shipped_policy_is_the_example(render: Render) -> None:
    """One text, shown in two places."""
    shipped = CHART / "files" / "policies" / "default.yaml"
    example = ROOT / "manifests" / "examples" / "policies" / "default.yaml"
    assert shipped.read_text() == example.read_text()
    rendered = of_kind(render(), "GPUPolicy")
    assert rendered["default"]["spec"] == yaml.safe_load(example.read_text())["spec"]
    assert of_kind(render({"policies": {"shipped": False}}), "GPUPolicy") == {}


def test_deployments_may_be_left_out(render: Render) -> None:
    """Everything else stays, so that the components can run elsewhere."""
    kinds = [obj["kind"] for obj in render({"deployments": {"enabled": False}})]
    run = {"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"}
    assert not run & {*kinds}
    assert {"ServiceAccount", "ClusterRole", "MutatingWebhookConfiguration"} < {*kinds}
    rest = [obj["kind"] for obj in render() if obj["kind"] not in run]
    assert kinds == rest


@pytest.mark.parametrize("profile", ["observe", "warn", "enforce"])
def test_another_namespace_is_used_throughout(render: Render, profile: str) -> None:
    """Accounts, bindings and the reaper's identity follow the release."""
    text = json.dumps(render({"profile": profile}, namespace="elsewhere"))
    assert "gpu-tenure-system" not in text
    assert "system:serviceaccount:elsewhere:gpu-tenure-reaper" in text
