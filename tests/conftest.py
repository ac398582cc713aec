"""Fixtures of the real control plane, started once per session and only if a chosen test uses it."""

from __future__ import annotations

import itertools
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import structlog
import yaml
from hypothesis import HealthCheck, settings

from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.install import Installation, install_chart

# Random tests take as many examples as they say in `make test`, and few of them in `make check`, which people
# wait for. How long an example takes is a matter of the machine.
settings.register_profile("whole", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("whole"), max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "whole"))

# Fixtures that start a real program; whatever uses one is marked `real`.
REAL = frozenset({"sandbox", "kubernetes", "prometheus", "render"})
PREFER_OTHERS = {"key": "sandbox.gpu-tenure.io/shared", "effect": "PreferNoSchedule"}
SPLIT = "sandbox.gpu-tenure.io/split"
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Lets `make test KUBERNETES=v1.34.4` run everything on another pinned release."""
    parser.addoption("--kubernetes", default="", help="another pinned Kubernetes release, such as v1.34.4")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks everything that uses a real program as `real`."""
    for item in items:
        if REAL.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Puts the logs back: a component that a test starts in this process sets them up for itself."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers, root.level = before, level


@pytest.fixture(scope="session")
def kubernetes(pytestconfig: pytest.Config) -> str:
    """The Kubernetes release to start; empty for the one that is pinned first."""
    return str(pytestconfig.getoption("--kubernetes"))


@pytest.fixture(scope="session")
def sandbox(kubernetes: str) -> Iterator[Sandbox]:
    """A real control plane with Prometheus, Alertmanager, the exporter simulator and nodes of every kind.

    Plain pods with nvidia.com/gpu land on node-a and node-b; HAMi's companions exist on hami-a (4 devices,
    ten shares each), AMD devices on amd-a, MIG instances on mig-a.
    """
    with Sandbox.start(SandboxOptions(audit=True, kubernetes=kubernetes)) as started:
        started.add_node("node-a", {"nvidia.com/gpu": 32})
        started.add_node("node-b", {"nvidia.com/gpu": 32})
        hami = {"nvidia.com/gpu": 40, "nvidia.com/gpumem": 320000, "nvidia.com/gpucores": 400}
        started.add_node("hami-a", hami, annotations={SPLIT: "10"}, taints=[PREFER_OTHERS])
        started.add_node("amd-a", {"amd.com/gpu": 16})
        started.add_node("mig-a", {"nvidia.com/mig-1g.5gb": 14}, annotations={SPLIT: "7"})
        yield started


@pytest.fixture
def make_namespace(sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes namespaces with labels and annotations; they go after the test with all they hold."""
    made: list[str] = []
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:30].strip("-")

    def make(labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None) -> str:
        name = f"t{next(_numbers)}-{slug}"
        sandbox.api().create_namespace(name, labels, annotations)
        made.append(name)
        return name

    yield make
    for name in made:
        path = f"/api/v1/namespaces/{name}"
        # Without its pods the namespace goes quickly; nobody waits for it: no name is used twice.
        sandbox.api().raw("DELETE", f"{path}/pods", {"gracePeriodSeconds": 0})
        # What was taken here would count for the hourly limit as long as the namespace lasts.
        sandbox.api().raw("DELETE", f"/apis/gpu-tenure.io/v1alpha1/namespaces/{name}/gpureclaims")
        sandbox.api().raw("DELETE", path)


@pytest.fixture(scope="session")
def install_kinds() -> Callable[[Sandbox], None]:
    """Installs kinds of other projects, with small schemas of our own, and waits until they are served."""
    kinds = yaml.safe_load((Path(__file__).parent / "data" / "kinds.yaml").read_text())["kinds"]

    def install(sandbox: Sandbox) -> None:
        api = sandbox.api()
        for kind in kinds:
            group, version, plural = kind["group"], kind["version"], kind["plural"]
            schema = {"type": "object", "properties": {"spec": kind["spec"]}}
            served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            names = {"kind": kind["kind"], "plural": plural, "singular": kind["kind"].lower()}
            spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
            metadata = {
                "name": f"{plural}.{group}",
                "annotations": {"api-approved.kubernetes.io": "unapproved, a schema of the tests"},
            }
            body = {"metadata": metadata, "spec": spec}
            reply = api.raw("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
            assert reply.status in {201, 409}, reply.text
        for kind in kinds:
            path = f"/apis/{kind['group']}/{kind['version']}/{kind['plural']}"
            api.wait(lambda path=path: api.raw("GET", path).status == 200, 30, f"{path} is served")

    return install


@pytest.fixture
def namespace(make_namespace: Callable[..., str]) -> str:
    """The name of a fresh namespace without labels of ours."""
    return make_namespace()


@pytest.fixture(scope="session")
def installation(sandbox: Sandbox) -> Installation:
    """The chart, installed once with the profile `observe`; no component runs until a test starts it.

    Whoever changes values or starts components puts things back, because all tests share it.
    """
    return install_chart(sandbox)
