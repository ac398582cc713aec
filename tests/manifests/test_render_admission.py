"""Webhook configurations and guards as the chart renders them, by profile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.classes import DEFAULT_TRUSTED_CONTROLLERS
from policy.keys import DEFAULT_EXCLUDED_NAMESPACES, REAPER_ONLY, TERM_LABELS, Annotation, Label
from tests.manifests.rendered import environment, of_kind

CHART = Path(__file__).parents[2] / "manifests" / "chart"
Render = Callable[..., list[dict[str, Any]]]

SHAPES = {
    "cronjobs": ("cronjobs",),
    "jobsets": ("jobsets",),
    "leaderworkersets": ("leaderworkersets",),
    "ray": ("rayclusters", "rayjobs", "rayservices"),
    "training": ("jaxjobs", "mpijobs", "mxjobs", "paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs"),
    "volcano": ("jobs",),
    "workflows": ("cronworkflows", "workflows"),
    "workloads": ("daemonsets", "deployments", "replicasets", "statefulsets"),
}


@pytest.mark.parametrize(
    ("profile", "mutate", "validate", "guards", "always"),
    [
        ("observe", "Ignore", "Ignore", ["Warn", "Audit"], ["Deny"]),
        ("warn", "Ignore", "Ignore", ["Deny"], ["Deny"]),
        ("enforce", "Ignore", "Fail", ["Deny"], ["Deny"]),
    ],
    ids=["observe", "warn", "enforce"],
)
def test_profiles_are_those_of_the_design(
    render: Render, profile: str, mutate: str, validate: str, guards: list[str], always: list[str]
) -> None:
    """Nothing but GPU pods ever waits for us; namespaces and selectors are always guarded."""
    objects = render({"profile": profile}, upgrade=True)
    mutating = of_kind(objects, "MutatingWebhookConfiguration")["zz-gpu-tenure"]
    validating = of_kind(objects, "ValidatingWebhookConfiguration")["gpu-tenure"]
    assert {webhook["failurePolicy"] for webhook in mutating["webhooks"]} == {mutate}
    policies = {webhook["name"]: webhook["failurePolicy"] for webhook in validating["webhooks"]}
    assert policies.pop("validate.gpu-tenure.io") == validate
    assert {*policies.values()} == {"Ignore"}
    actions = {
        name.removeprefix("gpu-tenure-guard-"): binding["spec"]["validationActions"]
        for name, binding in of_kind(objects, "ValidatingAdmissionPolicyBinding").items()
    }
    expected = {"namespaces": always, "selectors": always, "bypass": ["Warn", "Audit"]}
    expected |= dict.fromkeys(("bindings", "jobs", "pods", "reaper", "requesters"), guards)
    assert actions == expected | ({"queues": ["Deny"]} if profile == "enforce" else {})


def test_webhooks_see_creations_and_no_more(render: Render) -> None:
    """No label of a pod opts it out; of updates only those that change an image are seen."""
    objects = render({"webhook": {"timeoutSeconds": {"mutate": 1, "validate": 5}}})
    found = {}
    for kind, path in (("Mutating", "/mutate"), ("Validating", "/validate")):
        (configuration,) = of_kind(objects, f"{kind}WebhookConfiguration").values()
        for webhook in configuration["webhooks"]:
            assert "objectSelector" not in webhook
            assert webhook["matchPolicy"] == "Equivalent"
            assert webhook["sideEffects"] == "NoneOnDryRun"
            assert webhook.get("reinvocationPolicy") == ("IfNeeded" if kind == "Mutating" else None)
            service = {
                "name": "gpu-tenure-webhook",
                "namespace": "gpu-tenure-system",
                "path": path,
                "port": 443,
            }
            assert webhook["clientConfig"] == {"service": service}
            changes = webhook["name"] == "images.validate.gpu-tenure.io"
            expected = ["UPDATE"] if changes else ["CREATE"]
            assert all(rule["operations"] == expected for rule in webhook["rules"])
            assert webhook["matchConditions"][0]["name"] == "image-changed" or not changes
            resources = tuple(webhook["rules"][0]["resources"])
            found[webhook["name"]] = (resources, webhook["timeoutSeconds"])
    assert found == {
        "mutate.gpu-tenure.io": (("pods",), 1),
        "jobs.mutate.gpu-tenure.io": (("jobs",), 1),
        **{f"{shape}.mutate.gpu-tenure.io": (resources, 1) for shape, resources in SHAPES.items()},
        "validate.gpu-tenure.io": (("pods",), 5),
        "images.validate.gpu-tenure.io": (("pods", "pods/ephemeralcontainers"), 5),
        "jobs.validate.gpu-tenure.io": (("jobs",), 5),
        **{f"{shape}.validate.gpu-tenure.io": (resources, 5) for shape, resources in SHAPES.items()},
    }


def test_a_url_takes_the_place_of_the_service(render: Render) -> None:
    """With the CA that was given, on both paths."""
    objects = render({"webhook": {"url": "https://h:1/"}, "tls": {"source": "secret", "caBundle": "Zm9v"}})
    for kind, path in (("Mutating", "/mutate"), ("Validating", "/validate")):
        (configuration,) = of_kind(objects, f"{kind}WebhookConfiguration").values()
        configs = [webhook["clientConfig"] for webhook in configuration["webhooks"]]
        assert configs == [{"url": f"https://h:1{path}", "caBundle": "Zm9v"}] * len(configs)


def test_one_list_of_excluded_namespaces(render: Render) -> None:
    """Webhook, guards and both components leave the same namespaces alone; our own is always among them."""
    objects = render({"excludedNamespaces": ["b", "a"]})
    listed = '["a","b","gpu-tenure-system"]'
    for obj in objects:
        for webhook in obj.get("webhooks", []):
            by_name, by_label = webhook["namespaceSelector"]["matchExpressions"]
            assert by_name == {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["a", "b", "gpu-tenure-system"],
            }
            assert by_label == {
                "key": "gpu-tenure.io/enforcement",
                "operator": "NotIn",
                "values": ["disabled"],
            }
    guards = of_kind(objects, "ValidatingAdmissionPolicy")
    assert len(guards) == 8
    for guard in guards.values():
        assert f'request.?namespace.orValue("") in {listed}' in json.dumps(guard).replace('\\"', '"')
        assert "namespaceSelector" not in guard["spec"]["matchConstraints"]
    assert (
        environment(objects, "webhook")["GPU_TENURE_WEBHOOK_EXCLUDED_NAMESPACES"] == "a,b,gpu-tenure-system"
    )
    assert environment(objects, "reaper")["GPU_TENURE_REAPER_EXCLUDED_NAMESPACES"] == "a,b,gpu-tenure-system"


def test_the_default_lists_are_those_of_the_code() -> None:
    """Whoever runs a component without the chart gets the same."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert {*values["excludedNamespaces"], "gpu-tenure-system"} == set(DEFAULT_EXCLUDED_NAMESPACES)
    assert set(values["trustedControllers"]) == set(DEFAULT_TRUSTED_CONTROLLERS)


def test_guards_name_every_key(render: Render) -> None:
    """A key that is added to the contract is added to the guards; keep-until stays everybody's."""
    guards = of_kind(render(), "ValidatingAdmissionPolicy")
    keys = {key.value for key in (*Label, *Annotation)} - {Annotation.KEEP_UNTIL.value}
    assert {key.value for key in (*TERM_LABELS, *REAPER_ONLY)} < keys
    for name in ("pods", "bindings"):
        text = json.dumps(guards[f"gpu-tenure-guard-{name}"]["spec"]["variables"])
        assert set(re.findall(r"gpu-tenure\.io/[a-z-]+", text)) == keys
    text = json.dumps(guards["gpu-tenure-guard-selectors"]["spec"])
    for key in Label:
        assert text.count(f'\\"{key.value}\\"') == 2


def test_only_guards_that_may_fail_closed_do(render: Render) -> None:
    """What kubelets, schedulers and controllers write all the time must pass even if an expression fails."""
    policies = {
        name.removeprefix("gpu-tenure-guard-"): guard["spec"]["failurePolicy"]
        for name, guard in of_kind(render({"profile": "enforce"}), "ValidatingAdmissionPolicy").items()
    }
    assert policies == {
        "bindings": "Ignore",
        "bypass": "Ignore",
        "jobs": "Ignore",
        "namespaces": "Fail",
        "pods": "Ignore",
        "queues": "Ignore",
        "reaper": "Fail",
        "requesters": "Ignore",
        "selectors": "Fail",
    }
