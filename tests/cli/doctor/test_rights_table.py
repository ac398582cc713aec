"""The table of rights against what the chart gives: nothing that is used lacks, nothing else is given."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from cli.doctor.gathering import settings_of
from cli.doctor.objects import Component
from cli.doctor.rights_table import COMPONENTS, Options, needed
from reaper.rights import Right
from sandbox.binaries import ensure
from sandbox.install import CHART
from tests.cli.doctor.healthy import typed

pytestmark = pytest.mark.real  # Helm is one of the real programs
OWN = "gpu-tenure-system"
VALUES = [
    pytest.param([], id="the defaults"),
    pytest.param(["profile=enforce", "reaper.dryRun=false", "quota.enabled=true"], id="everything acts"),
    pytest.param(
        [
            "profile=enforce",
            "reaper.dryRun=false",
            "reaper.backfill.deadline=true",
            "reaper.stop.enabled=false",
        ],
        id="late deadlines, and no stopping",
    ),
    pytest.param(["metrics.protected=true", "quota.enabled=true"], id="protected metrics"),
    pytest.param(["canary.enabled=true"], id="a canary"),
    pytest.param(["tls.secretName=other", "profile=warn", "reaper.dryRun=false"], id="another Secret"),
]
Grant = tuple[str, str, str, str]
"""Group, resource with its part, verb, and name; an empty name is every one."""


def rendered(settings: list[str]) -> list[dict[str, Any]]:
    """The chart with these values."""
    helm = ensure(os.environ, ["helm"]).path("helm")
    argv = [helm, "template", "gpu-tenure", str(CHART), f"--namespace={OWN}"]
    argv += [f"--set={one}" for one in settings]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def granted(objects: list[dict[str, Any]], component: str) -> set[Grant]:
    """What the roles give that are bound to a component's account."""
    roles = {
        (one["kind"], one["metadata"]["name"]): one["rules"]
        for one in objects
        if one["kind"] in {"Role", "ClusterRole"}
    }
    found: set[Grant] = set()
    for binding in objects:
        if not binding["kind"].endswith("RoleBinding") and binding["kind"] != "ClusterRoleBinding":
            continue
        names = {subject["name"] for subject in binding["subjects"]}
        if f"gpu-tenure-{component}" in names:
            for rule in roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]:
                found |= _grants(rule)
    return found


def _grants(rule: Mapping[str, Any]) -> set[Grant]:
    return {
        (group, resource, verb, name)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def grant_of(right: Right) -> Grant:
    """A right as roles spell it."""
    part = f"/{right.subresource}" if right.subresource else ""
    return right.group, right.resource + part, right.verb, right.name


def options(objects: list[dict[str, Any]], settings: list[str]) -> Options:
    """What the doctor would take out of the installation."""
    deployments = {
        one["metadata"]["name"].removeprefix("gpu-tenure-"): typed(Component, _plain(one))
        for one in objects
        if one["kind"] == "Deployment"
    }
    secret = next((one.partition("=")[2] for one in settings if one.startswith("tls.secretName")), None)
    reaper, problem = settings_of(deployments["reaper"], None, OWN)
    assert problem == ""
    protected = COMPONENTS if "metrics.protected=true" in settings else ()
    canary = deployments["certs"].environment.get("GPU_TENURE_CERTS_CANARY_NAMESPACE", "")
    more = {"serving_secret": secret} if secret else {}
    return Options(OWN, reaper, "quota" in deployments, frozenset(protected), canary, **more)


def _plain(deployment: dict[str, Any]) -> dict[str, Any]:
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        container["env"] = [one for one in container["env"] if "value" in one]
    return deployment


@pytest.mark.parametrize("settings", VALUES)
def test_what_is_used_is_given(settings: list[str]) -> None:
    """By every combination of values."""
    objects = rendered(settings)
    wanted = options(objects, settings)
    for component in COMPONENTS:
        if component == "quota" and not wanted.quota:
            continue
        given = granted(objects, component)
        lacking = [
            one
            for one in map(grant_of, needed(component, wanted))
            if one not in given and (*one[:3], "") not in given
        ]
        assert lacking == [], component


@pytest.mark.parametrize("component", COMPONENTS)
def test_what_is_given_is_in_the_table(component: str) -> None:
    """But kinds of other projects, which the reaper reads to find owners."""
    settings = ["profile=enforce", "reaper.dryRun=false", "quota.enabled=true", "metrics.protected=true"]
    settings += ["canary.enabled=true"]
    objects = rendered(settings)
    others = {
        "argoproj.io",
        "batch.volcano.sh",
        "jobset.x-k8s.io",
        "kubeflow.org",
        "leaderworkerset.x-k8s.io",
    }
    others |= {"ray.io", "serving.kserve.io", "trainer.kubeflow.org"}
    known = {grant_of(one) for one in needed(component, options(objects, settings))}
    assert sorted(one for one in granted(objects, component) - known if one[0] not in others) == []
