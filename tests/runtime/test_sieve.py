"""The sieve against the whole reading: it may let too much through, and never holds back a GPU pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.devices import devices_of
from policy.objects import Pod
from policy.resources import parse_table
from runtime.kube import KubeClient
from runtime.listing import Reader
from runtime.sieve import REMEMBERED, GpuSieve, PodSketch, gpu_pod_sieve
from runtime.watch import WatchCache, WatchOptions
from tests.runtime.things import PODS, page

NAMES = st.sampled_from(
    [
        "cpu",
        "memory",
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/mig-1g.5gb",
        "amd.com/gpu",
        "example.com/disk",
        "nvidia.com/hostdev",
    ]
)
QUANTITIES = st.dictionaries(NAMES, st.sampled_from(["1", "0", "1500m", 2, 0.5, None, "x"]), max_size=3)
BLOCKS = st.none() | st.fixed_dictionaries({}, optional={"limits": QUANTITIES, "requests": QUANTITIES})
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("c")}, optional={"resources": BLOCKS, "restartPolicy": st.just("Always")}
    ),
    max_size=3,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.none() | CONTAINERS,
        "initContainers": st.none() | CONTAINERS,
        "overhead": st.none() | QUANTITIES,
        "resources": BLOCKS,
        "resourceClaims": st.none() | st.lists(st.just({"name": "a"}), max_size=1),
    },
)
NOTES = st.none() | st.dictionaries(
    st.sampled_from(["gpu-fraction", "gpu-memory", "note"]), st.just("0.5"), max_size=2
)


def sketch(spec: dict[str, Any]) -> PodSketch:
    """What is read at first of a pod with that specification."""
    return msgspec.json.decode(msgspec.json.encode({"metadata": {"name": "p"}, "spec": spec}), type=PodSketch)


@given(SPECS, NOTES)
def test_whatever_could_be_a_gpu_pod_passes(spec: dict[str, Any], notes: dict[str, str] | None) -> None:
    """Also with quantities that nobody can read, and with claims whose devices are not known."""
    raw = msgspec.json.encode({"metadata": {"name": "p", "annotations": notes}, "spec": spec})
    pod = msgspec.json.decode(raw, type=Pod)
    if devices_of(pod.spec, pod.metadata.annotations).may_be_gpu:
        assert GpuSieve().passes(msgspec.json.decode(raw, type=PodSketch))


@pytest.mark.parametrize(
    ("spec", "passes"),
    [
        pytest.param({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}, False, id="CPU alone"),
        pytest.param({}, False, id="nothing asked for"),
        pytest.param({"containers": None}, False, id="a bookmark's pod has no containers"),
        pytest.param({"overhead": {"nvidia.com/gpu": "1"}}, True, id="an overhead that holds a device"),
        pytest.param({"resources": {"requests": {"amd.com/gpu": 1}}}, True, id="the pod as a whole"),
    ],
)
def test_pods_without_gpus_are_held_back(spec: dict[str, Any], passes: bool) -> None:
    """Else the sieve would spare nothing."""
    assert GpuSieve().passes(sketch(spec)) is passes


def test_rows_of_the_settings_count_too() -> None:
    """A name that only the administrator knows lets a pod through."""
    table = parse_table([{"pattern": "example\\.com/accelerator", "unit": "device", "vendor": "example"}])
    spec = {"containers": [{"resources": {"limits": {"example.com/accelerator": "1"}}}]}
    assert not GpuSieve().passes(sketch(spec))
    assert GpuSieve(table).passes(sketch(spec))


def test_what_is_remembered_is_bounded() -> None:
    """Texts without end take no memory without end, and answers stay right."""
    sieve = GpuSieve()
    for number in range(REMEMBERED + 10):
        sieve.passes(sketch({"containers": [{"resources": {"limits": {"cpu": str(number)}}}]}))
    assert len(sieve._known) <= REMEMBERED
    assert sieve.passes(sketch({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}))


def test_a_pod_of_an_odd_shape_is_read_whole_and_found_unreadable() -> None:
    """The words are those of the whole reading, and the key is known."""
    reader = Reader(PODS, lambda raw: msgspec.json.decode(raw, type=Pod), gpu_pod_sieve())
    odd = {"metadata": {"namespace": "n", "name": "p"}, "spec": {"containers": [{"resources": "much"}]}}
    head, entry = reader.read(msgspec.Raw(msgspec.json.encode(odd)))
    assert (head.key, entry) == (("n", "p"), None)
    assert "resources" in reader.unreadable["n", "p"]


async def test_a_cache_with_a_sieve_reads_only_what_passes(
    fake_api: Any, client: KubeClient, fake_time: Any, start: Any, eventually: Any
) -> None:
    """In lists and in watches; a pod that no longer passes is gone for subscribers."""
    read: list[str] = []

    def decode(raw: msgspec.Raw) -> str:
        name = msgspec.json.decode(raw, type=Pod).metadata.name or ""
        read.append(name)
        return name

    def pod(name: str, version: str, resource: str) -> dict[str, Any]:
        spec = {"containers": [{"resources": {"limits": {resource: "1"}}}]}
        return {"metadata": {"namespace": "n", "name": name, "resourceVersion": version}, "spec": spec}

    fake_api.on("GET", PODS, fake_api.json(page("1", pod("a", "1", "cpu"), pod("b", "1", "nvidia.com/gpu"))))
    events = [("ADDED", pod("c", "2", "cpu")), ("ADDED", pod("d", "3", "nvidia.com/gpu"))]
    events.append(("MODIFIED", pod("b", "4", "cpu")))
    lines = [{"type": kind, "object": item} for kind, item in events]
    fake_api.on("GET", PODS, fake_api.stream(*lines), watch=True)
    options = WatchOptions(sleep=fake_time.sleep, draw=lambda: 0.0)
    cache = WatchCache(client, PODS, decode, clock=fake_time, sieve=gpu_pod_sieve(), options=options)
    start(cache.run())
    await eventually(lambda: cache.resource_version == "4")
    assert read == ["b", "d"]
    assert list(cache.values()) == ["d"]
