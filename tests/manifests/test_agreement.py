"""The API server's conditions and the policy package agree on which pods are GPU pods."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from policy.devices import devices_of
from policy.objects import Pod
from policy.resources import TABLE, ResourceTable, parse_table
from sandbox.api import Reply
from tests.manifests.conftest import ROOT, Asked

PODS = 250
OWN_ROWS = [
    {"pattern": r"example\.com/npu-[a-z0-9]+", "unit": "device", "weight": "1/2"},
    {"pattern": r"(lab|test)\.example\.com/(gpu|card).*", "unit": "share"},
    {"pattern": r"cambricon\.com/toolbox", "unit": "nothing"},
    {"pattern": r"nvidia\.com/gpu\.(shared|other)", "unit": "share", "vendor": "nvidia", "weight": "1/4"},
    {"pattern": r"example\.com/[a-z]{2,3}_monitoring", "unit": "device"},
]
OTHERS = (
    "cpu",
    "memory",
    "example.com/npu",
    "example.com/npu-a1",
    "example.com/npu-A1",
    "lab.example.com/gpu",
    "test.example.com/cards",
    "other.example.com/gpu",
    "cambricon.com/toolbox",
    "cambricon.com/mlu_monitoring",
    "nvidia.com/gpu.other",
    "nvidia.com/gpu.shared2",
    "nvidia.com/mig-1g.5gb_x",
    "example.com/xy_monitoring",
    "gpu.intel.com/i915_monitoring",
    "huawei.com/Ascend",
    "huawei.com/Ascend910-x",
    "rdma/hca",
    "example.com/gpu",
)


def generated(draw: random.Random) -> dict[str, Any]:
    """A pod with some names in some places, which may or may not be GPUs."""
    known = [name for rule in TABLE for name in rule.examples]

    def container(name: str) -> dict[str, Any]:
        pool = [*OTHERS, *(draw.sample(known, 2) if draw.random() < 0.2 else ())]
        amounts = dict.fromkeys(draw.sample(pool, draw.randint(0, 2)), "1")
        return {"name": name, "image": "i", "resources": {"limits": amounts}}

    pod: dict[str, Any] = {
        "metadata": {"generateName": "p-"},
        "spec": {
            "schedulerName": "nobody",
            "containers": [container(f"c{number}") for number in range(draw.randint(1, 3))],
            "initContainers": [container(f"i{number}") for number in range(draw.randint(0, 2))],
        },
    }
    if draw.random() < 0.1:
        key = draw.choice(
            ["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "example.com/gpu-fraction"]
        )
        pod["metadata"]["annotations"] = {key: draw.choice(["1", "0.5", "much"])}
    if draw.random() < 0.05:
        pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "shared"}]
    return pod


def is_gpu(body: dict[str, Any], table: ResourceTable) -> bool:
    """What the policy package says of a pod as it is sent."""
    pod = msgspec.convert(body, Pod)
    return devices_of(pod.spec, pod.metadata.annotations, table).may_be_gpu


@pytest.mark.parametrize(
    "rows", [[], OWN_ROWS], ids=["the built-in names", "with names of an administrator's own"]
)
def test_generated_pods(
    asking: Callable[..., Asked], create: Callable[..., Reply], rows: list[dict[str, Any]]
) -> None:
    """The API server asks about a pod if, and only if, it may be a GPU pod."""
    asked = asking(gpuResources=rows)
    table, draw = parse_table(rows), random.Random(7)  # noqa: S311 - the same pods in each run
    found: list[bool] = []
    for _ in range(PODS):
        body = generated(draw)
        asked.clear()
        reply = create(body)
        assert reply.status == 201, reply.text[:500]
        expected = is_gpu(body, table)
        assert [path for path, _ in asked] == (["/mutate", "/validate"] if expected else []), body
        found.append(expected)
    assert PODS // 5 < sum(found) < PODS * 4 // 5


def test_many_rows_stay_within_the_cost_limit(
    asking: Callable[..., Asked], create: Callable[..., Reply]
) -> None:
    """As many as there may be, and a CPU pod with as much as is read of one."""
    rows = [{"pattern": rf"example\.com/[a-z0-9.-]+-{number:02d}", "unit": "device"} for number in range(16)]
    asked = asking(gpuResources=rows)
    amounts = {f"example.org/{'a' * 61}{number}": "1" for number in range(8)}
    each = [{"name": f"c{n}", "image": "i", "resources": {"limits": amounts}} for n in range(62)]
    inits = [{**one, "name": f"i-{one['name']}"} for one in each]
    body = {"metadata": {"generateName": "p-"}, "spec": {"containers": each, "initContainers": inits}}
    reply = create(body)
    assert reply.status == 201, reply.text[:500]
    assert asked == []


def test_what_is_generated_is_what_is_there() -> None:
    """The chart's helper and the page of names are those that the table makes."""
    script = [sys.executable, str(ROOT / "manifests" / "generate.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
