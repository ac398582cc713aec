"""Overhead, the pod as a whole, companions, parts of cards, and claims."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from policy.claims import ClaimTemplate, claimed_by
from policy.devices import Devices, devices_of
from policy.objects import PodSpec
from policy.resources import BUILT_IN_TABLE, IMPLIED, parse_table

GPU = "nvidia.com/gpu"
FRACTION, MEMORY = "kai.scheduler/gpu-fraction", "kai.scheduler/gpu-memory"
SUFFIX = ".deviceclass.resource.k8s.io/devices"


def spec(*limits: dict[str, Any], **fields: Any) -> PodSpec:
    """A pod's specification with a container for each of the limits."""
    containers = [{"name": f"c{n}", "resources": {"limits": one}} for n, one in enumerate(limits)]
    return msgspec.convert({"containers": containers, **fields}, PodSpec)


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        pytest.param(spec({GPU: 1}, overhead={GPU: "1"}), {GPU: 2}, id="overhead is added"),
        pytest.param(spec({}, overhead={"amd.com/gpu": "2"}), {"amd.com/gpu": 2}, id="overhead alone"),
        pytest.param(spec({GPU: 1}, overhead={"cpu": "1"}), {GPU: 1}, id="overhead of processors"),
        pytest.param(spec({GPU: 1}, overhead=None), {GPU: 1}, id="null overhead"),
        pytest.param(spec({GPU: 1}, resources={"limits": {GPU: "4"}}), {GPU: 4}, id="the pod asks for more"),
        pytest.param(spec({GPU: 2}, resources={"limits": {GPU: "1"}}), {GPU: 2}, id="the pod asks for less"),
        pytest.param(spec({}, resources={"requests": {GPU: "1"}}), {GPU: 1}, id="the pod alone asks"),
        pytest.param(
            spec({GPU: 2}, resources={"limits": {"cpu": "1"}}), {GPU: 2}, id="processors of the pod"
        ),
        pytest.param(
            spec({GPU: 1}, resources={"limits": {GPU: "2"}}, overhead={GPU: "1"}),
            {GPU: 3},
            id="overhead comes last",
        ),
        pytest.param(
            spec(
                {GPU: 1},
                initContainers=[{"name": "i", "resources": {"limits": {GPU: "4"}}}],
                overhead={GPU: "1"},
            ),
            {GPU: 5},
            id="overhead is on top of init containers too",
        ),
    ],
)
def test_overhead_and_the_pod_as_a_whole(pod: PodSpec, counts: dict[str, int]) -> None:
    """Both count, as Kubernetes counts them."""
    assert devices_of(pod).counts == counts


def test_problems_name_their_place() -> None:
    """Wherever the quantity stands."""
    pod = spec({GPU: "x"}, resources={"requests": {GPU: "0.5"}}, overhead={GPU: "1500m"})
    assert [problem.path for problem in devices_of(pod).problems] == [
        f"spec.containers[0].resources.limits[{GPU}]",
        f"spec.resources.requests[{GPU}]",
        f"spec.overhead[{GPU}]",
    ]


@pytest.mark.parametrize(
    ("limits", "counts", "devices", "implied"),
    [
        pytest.param(
            [{"huawei.com/Ascend910B": 2, "huawei.com/Ascend910B-memory": 4000}],
            {"huawei.com/Ascend910B": 2, "huawei.com/Ascend910B-memory": 8000},
            2,
            0,
            id="an Ascend's memory is per device",
        ),
        pytest.param(
            [{"huawei.com/Ascend310P": 2, "huawei.com/Ascend910B-memory": 10}],
            {"huawei.com/Ascend310P": 2, "huawei.com/Ascend910B-memory": 10},
            2,
            0,
            id="the memory of another Ascend is not",
        ),
        pytest.param(
            [{"hygon.com/dcunum": 2, "hygon.com/dcumem": 10, "hygon.com/dcucores": 5}],
            {"hygon.com/dcunum": 2, "hygon.com/dcumem": 20, "hygon.com/dcucores": 10},
            2,
            0,
            id="a DCU's companions are per device",
        ),
        pytest.param(
            [{"nvidia.com/gpumem": 10, "nvidia.com/gpucores": 10}, {"nvidia.com/gpumem": 5}],
            {"nvidia.com/gpumem": 15, "nvidia.com/gpucores": 10},
            2,
            2,
            id="each container with memory alone gets a device",
        ),
        pytest.param(
            [{"koordinator.sh/gpu-core": 200, "koordinator.sh/gpu-memory-ratio": 200}],
            {"koordinator.sh/gpu-core": 200, "koordinator.sh/gpu-memory-ratio": 200},
            2,
            0,
            id="two hundred percent are two devices, and cores are no factor",
        ),
        pytest.param(
            [{"koordinator.sh/gpu-memory-ratio": 50}],
            {"koordinator.sh/gpu-memory-ratio": 50},
            1,
            0,
            id="half a device is on one",
        ),
        pytest.param([{"gpu.intel.com/i915_monitoring": 1}], {}, 0, 0, id="monitoring holds nothing"),
        pytest.param(
            [{"gpu.intel.com/i915": 1, "gpu.intel.com/i915_monitoring": 1}],
            {"gpu.intel.com/i915": 1},
            1,
            0,
            id="not beside a device either",
        ),
    ],
)
def test_companions(limits: list[dict[str, int]], counts: dict[str, int], devices: int, implied: int) -> None:
    """Companions are never devices, and imply one where nothing else is asked for."""
    found = devices_of(spec(*limits))
    assert (found.counts, found.devices, found.implied) == (counts, devices, implied)
    assert found.charges == counts | ({IMPLIED: implied} if implied else {})


@pytest.mark.parametrize(
    ("annotations", "counts", "devices", "weight"),
    [
        pytest.param({}, {}, 0, 0, id="no annotation"),
        pytest.param({"gpu-fraction": "0.5"}, {FRACTION: 500}, 1, "1/2", id="half a card"),
        pytest.param(
            {"gpu-fraction": "0.3333"}, {FRACTION: 334}, 1, "334/1000", id="never less than asked for"
        ),
        pytest.param({"gpu-fraction": "1"}, {FRACTION: 1000}, 1, 1, id="a whole card"),
        pytest.param(
            {"gpu-fraction": ".5", "gpu-fraction-num-devices": "2"},
            {FRACTION: 1000},
            2,
            1,
            id="halves of two cards",
        ),
        pytest.param({"gpu-memory": "2000"}, {MEMORY: 2000}, 1, 1, id="memory of a card"),
        pytest.param(
            {"gpu-memory": "10", "gpu-fraction-num-devices": "3"},
            {MEMORY: 30},
            3,
            3,
            id="memory of three cards",
        ),
        pytest.param({"gpu-fraction": "0"}, {}, 0, 0, id="none of a card"),
        pytest.param({"gpu-fraction-num-devices": "2"}, {}, 0, 0, id="a number alone"),
    ],
)
def test_parts_of_cards(
    annotations: dict[str, str], counts: dict[str, int], devices: int, weight: int | str
) -> None:
    """KAI's annotations count under names of their own, held by the first container."""
    found = devices_of(spec({}, {}), annotations)
    assert (found.counts, found.devices, found.problems) == (counts, devices, ())
    assert found.weight == Fraction(weight)
    assert found.containers == (("c0",) if counts else ())
    assert found.is_gpu is bool(counts)


def test_the_container_of_a_part_may_be_named() -> None:
    """Where it is not the first."""
    annotations = {"gpu-fraction": "0.5", "gpu-fraction-container-name": "c1"}
    assert devices_of(spec({}, {}), annotations).containers == ("c1",)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("gpu-fraction", "much"),
        ("gpu-fraction", "1.5"),
        ("gpu-fraction", "-0.5"),
        ("gpu-fraction", "1/2"),
        ("gpu-fraction", ""),
        ("gpu-fraction", "."),
        ("gpu-memory", "2Gi"),
        ("gpu-memory", "9" * 30),
    ],
)
def test_parts_that_cannot_be_read(key: str, text: str) -> None:
    """They are problems of a GPU pod, not nothing."""
    found = devices_of(spec({}), {key: text})
    assert found.is_gpu
    assert [problem.path for problem in found.problems] == [f"metadata.annotations[{key}]"]


def test_parts_may_be_taken_out_of_the_table() -> None:
    """By a row of configuration."""
    table = parse_table([{"pattern": r"kai\.scheduler/.+", "unit": "nothing"}])
    assert not devices_of(spec({}), {"gpu-fraction": "0.5"}, table).is_gpu


def template(*requests: dict[str, Any]) -> ClaimTemplate:
    """A template with these requests."""
    return msgspec.convert({"spec": {"spec": {"devices": {"requests": list(requests)}}}}, ClaimTemplate)


def exactly(device_class: str, **more: Any) -> dict[str, Any]:
    """A request for one thing."""
    return {"name": "r", "exactly": {"deviceClassName": device_class, **more}}


def claiming(*claims: dict[str, Any]) -> PodSpec:
    """A pod with claims, which its second container uses."""
    uses = {"claims": [{"name": claim["name"]} for claim in claims]}
    containers = [{"name": "c0"}, {"name": "c1", "resources": uses}]
    return msgspec.convert({"containers": containers, "resourceClaims": list(claims)}, PodSpec)


def count(pod: PodSpec, templates: dict[str, ClaimTemplate]) -> Devices:
    """The devices of a pod where these templates are known."""
    return devices_of(pod, claimed=claimed_by(pod.resource_claims, templates.get, BUILT_IN_TABLE))


FROM_T = {"name": "a", "resourceClaimTemplateName": "t"}


@pytest.mark.parametrize(
    ("requests", "counts"),
    [
        pytest.param([exactly("gpu.nvidia.com")], {"gpu.nvidia.com": 1}, id="one, where no count is given"),
        pytest.param([exactly("gpu.nvidia.com", count=4)], {"gpu.nvidia.com": 4}, id="a count"),
        pytest.param(
            [exactly("gpu.nvidia.com"), exactly("gpu.nvidia.com", count=2), exactly("gpu.amd.com")],
            {"gpu.amd.com": 1, "gpu.nvidia.com": 3},
            id="requests add up",
        ),
        pytest.param([exactly("nic.example.com", count=2)], {}, id="other classes are no GPUs"),
        pytest.param([exactly("nic.example.com", allocationMode="All")], {}, id="all network cards"),
        pytest.param(
            [
                {
                    "name": "r",
                    "firstAvailable": [{"deviceClassName": "gpu.amd.com", "count": n} for n in (1, 4)],
                }
            ],
            {"gpu.amd.com": 4},
            id="the most of alternatives",
        ),
        pytest.param([], {}, id="nothing"),
    ],
)
def test_claims_of_templates(requests: list[dict[str, Any]], counts: dict[str, int]) -> None:
    """They count by class, under ResourceQuota's name, and are held by who uses them."""
    found = count(claiming(FROM_T), {"t": template(*requests)})
    assert found.counts == {f"{name}{SUFFIX}": number for name, number in counts.items()}
    assert found.unresolved == ()
    assert found.is_gpu is bool(counts)
    assert found.containers == (("c1",) if counts else ())
    assert found.devices == sum(counts.values())


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        pytest.param(
            {"name": "a", "resourceClaimName": "s"}, "may be shared by several pods", id="a shared claim"
        ),
        pytest.param(
            {"name": "a", "resourceClaimTemplateName": "u"}, "is not known", id="an unknown template"
        ),
        pytest.param({"name": "a"}, "neither a claim nor a template", id="a claim of nothing"),
        pytest.param(FROM_T, "asks for all devices of a node", id="all devices of a node"),
    ],
)
def test_claims_that_cannot_be_resolved(claim: dict[str, Any], said: str) -> None:
    """They are said and not guessed: by themselves they make no GPU pod."""
    found = count(claiming(claim), {"t": template(exactly("gpu.nvidia.com", allocationMode="All"))})
    assert (found.counts, found.is_gpu, found.may_be_gpu) == ({}, False, True)
    (unresolved,) = found.unresolved
    assert unresolved.path == "spec.resourceClaims[0]"
    assert said in unresolved.message


def test_what_is_known_counts_beside_what_is_not() -> None:
    """One claim of two."""
    pod = claiming({"name": "s", "resourceClaimName": "s"}, FROM_T)
    found = count(pod, {"t": template(exactly("gpu.nvidia.com"))})
    assert found.counts == {f"gpu.nvidia.com{SUFFIX}": 1}
    assert [one.path for one in found.unresolved] == ["spec.resourceClaims[0]"]


def test_claims_are_unresolved_where_nobody_looks_them_up() -> None:
    """Never silently nothing."""
    assert len(devices_of(claiming(FROM_T)).unresolved) == 1


def test_classes_are_data() -> None:
    """Another class is another row."""
    table = parse_table(
        [{"pattern": r"npu\.example\.com\.deviceclass\.resource\.k8s\.io/devices", "unit": "device"}]
    )
    pod = claiming(FROM_T)
    claimed = claimed_by(pod.resource_claims, {"t": template(exactly("npu.example.com"))}.get, table)
    assert devices_of(pod, None, table, claimed).devices == 1
