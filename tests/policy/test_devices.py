from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.devices import devices_of
from policy.objects import Pod, PodSpec

GPU = "nvidia.com/gpu"


def spec(**fields: Any) -> PodSpec:
    """A pod's specification from what JSON would hold."""
    return msgspec.convert(fields, PodSpec)


def container(
    name: str, limits: Any = None, requests: Any = None, restart: str | None = None
) -> dict[str, Any]:
    """A container with resources."""
    return {"name": name, "restartPolicy": restart, "resources": {"limits": limits, "requests": requests}}


@pytest.mark.parametrize(
    ("fields", "counts", "holders"),
    [
        pytest.param({}, {}, (), id="a pod without containers holds nothing"),
        pytest.param({"containers": None, "initContainers": None}, {}, (), id="null lists hold nothing"),
        pytest.param(
            {"containers": [{"name": "a"}]}, {}, (), id="a container without resources holds nothing"
        ),
        pytest.param(
            {"containers": [{"name": "a", "resources": None}]}, {}, (), id="null resources hold nothing"
        ),
        pytest.param({"containers": [container("a", {GPU: "2"})]}, {GPU: 2}, ("a",), id="limits count"),
        pytest.param(
            {"containers": [container("a", None, {GPU: 2})]},
            {GPU: 2},
            ("a",),
            id="requests count without limits",
        ),
        pytest.param(
            {"containers": [container("a", {"cpu": "1"}, {GPU: "1"})]},
            {GPU: 1},
            ("a",),
            id="by resource, not by block",
        ),
        pytest.param(
            {"containers": [container("a", {GPU: "1"}, {GPU: "4"})]}, {GPU: 1}, ("a",), id="limits win"
        ),
        pytest.param({"containers": [container("a", {GPU: "0"})]}, {}, (), id="zero is no GPU pod"),
        pytest.param({"containers": [container("a", {GPU: None})]}, {}, (), id="null is zero"),
        pytest.param({"containers": [container("a", {GPU: "3000m"})]}, {GPU: 3}, ("a",), id="3000m is 3"),
        pytest.param(
            {"containers": [container("a", {GPU: "1"}), container("b"), container("c", {GPU: "2"})]},
            {GPU: 3},
            ("a", "c"),
            id="containers add up",
        ),
        pytest.param(
            {"initContainers": [container("i", {GPU: "4"})], "containers": [container("a", {GPU: "1"})]},
            {GPU: 4},
            ("a",),
            id="a larger init container counts, and does not hold later",
        ),
        pytest.param(
            {
                "initContainers": [container("s", {GPU: "1"}, restart="Always"), container("i", {GPU: "2"})],
                "containers": [container("a", {GPU: "1"})],
            },
            {GPU: 3},
            ("s", "a"),
            id="an init container adds to the sidecars before it",
        ),
        pytest.param(
            {
                "initContainers": [container("i", {GPU: "2"}), container("s", {GPU: "1"}, restart="Always")],
                "containers": [container("a", {GPU: "1"})],
            },
            {GPU: 2},
            ("s", "a"),
            id="and not to those after it",
        ),
        pytest.param(
            {
                "initContainers": [container("i", {GPU: "1"}, restart="OnFailure")],
                "containers": [container("a", {GPU: "1"})],
            },
            {GPU: 1},
            ("a",),
            id="only Always makes a sidecar",
        ),
        pytest.param(
            {"containers": [container("a", {GPU: "1"}, restart="Always"), container("b", {GPU: "1"})]},
            {GPU: 2},
            ("a", "b"),
            id="an ordinary container's restart policy changes nothing",
        ),
        pytest.param(
            {"containers": [container("a", {"nvidia.com/mig-1g.5gb": "2", "amd.com/gpu": "1"})]},
            {"nvidia.com/mig-1g.5gb": 2, "amd.com/gpu": 1},
            ("a",),
            id="names are counted apart",
        ),
        pytest.param(
            {
                "containers": [
                    container("a", {GPU: "2", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"})
                ]
            },
            {GPU: 2, "nvidia.com/gpumem": 6000, "nvidia.com/gpucores": 60},
            ("a",),
            id="HAMi's companions are per device",
        ),
        pytest.param(
            {"containers": [container("a", {"nvidia.com/gpumem": "3000"})]},
            {"nvidia.com/gpumem": 3000},
            ("a",),
            id="memory alone makes a GPU pod",
        ),
    ],
)
def test_effective_devices(fields: dict[str, Any], counts: dict[str, int], holders: tuple[str, ...]) -> None:
    """The effective request is what Kubernetes computes, by resource name."""
    devices = devices_of(spec(**fields))
    assert (devices.counts, devices.containers, devices.problems) == (counts, holders, ())
    assert devices.is_gpu is bool(counts)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({GPU: "2", "nvidia.com/gpumem": "3000"}, 2, id="companions are no devices"),
        pytest.param({"nvidia.com/gpumem": "3000"}, 1, id="memory alone is one device"),
        pytest.param(
            {GPU: "1", "nvidia.com/mig-1g.5gb": "2", "nvidia.com/gpu.shared": "1"}, 4, id="units add up"
        ),
        pytest.param({"cpu": "4"}, 0, id="a CPU pod has none"),
    ],
)
def test_device_totals(limits: dict[str, str], expected: int) -> None:
    """Devices, shares and slices count, companions do not."""
    assert devices_of(spec(containers=[container("a", limits)])).devices == expected


@pytest.mark.parametrize("quantity", ["1500m", "0.4", "-1", "1e9999999999", "two", ""])
def test_unreadable_quantities_are_problems_of_a_gpu_pod(quantity: str) -> None:
    """What is not a whole number is listed with its path, and the pod counts as a GPU pod."""
    devices = devices_of(spec(containers=[container("a"), container("b", {GPU: quantity})]))
    assert devices.counts == {}
    assert devices.is_gpu
    assert [problem.path for problem in devices.problems] == [
        "spec.containers[1].resources.limits[nvidia.com/gpu]"
    ]


def test_pods_decode_from_json_with_absent_and_null_fields() -> None:
    """Null and absent read alike, and unknown fields are ignored."""
    pod = msgspec.json.decode(
        b'{"metadata":{"labels":null,"managedFields":[{}]},"spec":{"containers":[{"name":"a","resources":'
        b'{"limits":{"nvidia.com/gpu":1}}}],"volumes":[]}}',
        type=Pod,
    )
    assert pod.metadata.labels is None
    assert pod.metadata.controller is None
    assert devices_of(pod.spec).counts == {GPU: 1}


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 8)), max_size=6),
    st.lists(st.integers(0, 8), min_size=1, max_size=6),
)
def test_effective_devices_against_a_simulation(inits: list[tuple[bool, int]], counts: list[int]) -> None:
    """The count is the most that the containers of a pod hold at one moment of its life."""
    moments, sidecars = [], 0
    for always, count in inits:
        moments.append(sidecars + count)
        sidecars += count if always else 0
    moments.append(sidecars + sum(counts))
    devices = devices_of(
        spec(
            initContainers=[
                container(f"i{n}", {GPU: c}, restart="Always" if a else None)
                for n, (a, c) in enumerate(inits)
            ],
            containers=[container(f"c{n}", {GPU: c}) for n, c in enumerate(counts)],
        )
    )
    assert devices.counts.get(GPU, 0) == max(moments)
