"""What a pod counts as, against Kubernetes' own arithmetic: the usage that ResourceQuota charges for it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from policy.claims import ClaimTemplate, claimed_by
from policy.devices import devices_of
from policy.objects import Pod, PodClaim
from policy.quantities import parse_quantity
from policy.resources import BUILT_IN_TABLE, TABLE, ResourceTable
from sandbox.cluster import Sandbox

PODS = 600
CLAIMS = 60
NAMES = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/gpumem",
    "nvidia.com/gpucores",
    "amd.com/gpu",
    "amd.com/cpx_nps4",
    "huawei.com/Ascend910B",
    "huawei.com/Ascend910B-memory",
    "koordinator.sh/gpu-memory-ratio",
)
SPELLINGS = (
    0,
    1,
    2,
    "1",
    "3",
    "+4",
    "007",
    "2e0",
    "1E0",
    "3000m",
    "2.",
    "2.9991",
    "1k",
    "1Ki",
    "0",
    ".",
    "5.0",
)
CLASSES = ("gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com")
# Quotas count what is asked for; that companions are meant per device is a scheduler's affair.
PLAIN = ResourceTable([msgspec.structs.replace(rule, each=False) for rule in TABLE])


class Generator:
    """Pods and claims of every shape that the API server takes."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # noqa: S311 - the same pods in each run

    def pod(self) -> dict[str, Any]:
        """A pod that nobody schedules."""
        spec: dict[str, Any] = {
            "schedulerName": "nobody",
            "containers": [self._container(f"c{number}") for number in range(self.draw.randint(1, 4))],
            "initContainers": [
                self._container(f"i{number}") | self._restart() for number in range(self.draw.randint(0, 4))
            ],
        }
        if self.draw.random() < 0.25:
            spec["runtimeClassName"] = "with-devices"
        if self.draw.random() < 0.2:
            spec["resources"] = {"requests": {"cpu": "40"}, "limits": {"memory": "4Ti"}}
        return {"metadata": {"generateName": "p-"}, "spec": spec}

    def claim(self) -> dict[str, Any]:
        """The specification of a claim."""
        requests = [self._request(f"r{number}") for number in range(self.draw.randint(1, 3))]
        return {"devices": {"requests": requests}}

    def _container(self, name: str) -> dict[str, Any]:
        amounts = {
            one: self.draw.choice(SPELLINGS) for one in self.draw.sample(NAMES, self.draw.randint(0, 3))
        }
        resources: dict[str, Any] = {"limits": {**amounts, "cpu": "1"}, "requests": {"memory": "1Mi"}}
        if self.draw.random() < 0.5:
            resources["requests"] |= amounts
        return {"name": name, "image": "i", "resources": resources}

    def _restart(self) -> dict[str, str]:
        return {"restartPolicy": "Always"} if self.draw.random() < 0.4 else {}

    def _request(self, name: str) -> dict[str, Any]:
        if self.draw.random() < 0.6:
            return {"name": name, "exactly": self._exact()}
        several = [{"name": f"s{number}", **self._exact()} for number in range(self.draw.randint(1, 3))]
        return {"name": name, "firstAvailable": several}

    def _exact(self) -> dict[str, Any]:
        exact: dict[str, Any] = {"deviceClassName": self.draw.choice((*CLASSES, "nic.example.com"))}
        return exact | ({"count": self.draw.randint(1, 4)} if self.draw.random() < 0.7 else {})


class Usage:
    """What a ResourceQuota of one namespace has charged."""

    def __init__(self, sandbox: Sandbox, namespace: str, names: dict[str, str]) -> None:
        self.names = names
        self.path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        self.api = sandbox.api()
        hard = dict.fromkeys(names.values(), "1M")
        self.api.create(self.path, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        self.api.wait(lambda: self._status().get("hard") == hard, 30, "the quota counts")
        self.used = self.read()

    def read(self) -> dict[str, int]:
        """The usage by name."""
        used = self._status().get("used", {})
        return {name: int(parse_quantity(used.get(key))) for name, key in self.names.items()}

    def charged(self) -> dict[str, int]:
        """What was charged since the last look, without zeros."""
        before, self.used = self.used, self.read()
        return {
            name: self.used[name] - before[name] for name in self.names if self.used[name] != before[name]
        }

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.api.get(f"{self.path}/q").get("status", {})
        return status


@pytest.fixture(scope="module")
def runtime_class(sandbox: Sandbox) -> Iterator[None]:
    """A RuntimeClass whose overhead holds devices."""
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    overhead = {"podFixed": {"nvidia.com/gpu": "2", "amd.com/gpu": "1", "memory": "64Mi"}}
    sandbox.api().create(path, {"metadata": {"name": "with-devices"}, "handler": "vm", "overhead": overhead})
    yield
    sandbox.api().delete(f"{path}/with-devices")


@pytest.mark.usefixtures("runtime_class")
def test_counts_are_what_resource_quota_charges(sandbox: Sandbox, namespace: str) -> None:
    """Containers, init containers, sidecars, overhead, and every spelling of a quantity."""
    generator = Generator(20_261)
    usage = Usage(sandbox, namespace, {name: f"requests.{name}" for name in NAMES})
    path = f"/api/v1/namespaces/{namespace}/pods"
    devices = 0
    for _ in range(PODS):
        body = generator.pod()
        created = sandbox.api().create(path, body)
        # As it was sent, but for the overhead, which the API server adds before webhooks see the pod.
        sent = {**body["spec"], "overhead": created["spec"].get("overhead")}
        counted = devices_of(msgspec.convert({"spec": sent}, Pod).spec, table=PLAIN)
        assert counted.problems == ()
        assert counted.counts == usage.charged(), body
        stored = devices_of(msgspec.convert(created, Pod).spec, table=PLAIN)
        assert stored.counts == counted.counts
        devices += counted.devices
    assert devices > PODS


def test_claims_are_what_resource_quota_charges(sandbox: Sandbox, namespace: str) -> None:
    """Exact requests and alternatives, of GPU classes and of others."""
    generator = Generator(20_262)
    suffix = ".deviceclass.resource.k8s.io/devices"
    usage = Usage(sandbox, namespace, {f"{one}{suffix}": f"{one}{suffix}" for one in CLASSES})
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    pod_claims = (PodClaim("c", None, "t"),)
    for _ in range(CLAIMS):
        spec = generator.claim()
        sandbox.api().create(path, {"metadata": {"generateName": "c-"}, "spec": spec})
        template = msgspec.convert({"spec": {"spec": spec}}, ClaimTemplate)
        claimed = claimed_by(pod_claims, {"t": template}.get, BUILT_IN_TABLE)
        assert dict(claimed.counts) == usage.charged(), spec
        assert claimed.unresolved == ()
