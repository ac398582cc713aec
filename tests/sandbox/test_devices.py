"""Which pod holds which simulated device."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.census import Remembered, remember
from sandbox.devices import Assignment, GpuPod, Node, assign, read_node, read_pod

GPU = "nvidia.com/gpu"


def pod(
    uid: str, count: int = 1, node: str = "n", resource: str = GPU, start: float = 1.0, **more: Any
) -> GpuPod:
    """A running pod of one container."""
    return GpuPod("ns", f"pod-{uid}", uid, node, (("main", resource, count),), start, **more)


COUNTS = st.lists(st.integers(1, 4), max_size=8)


@given(COUNTS, st.integers(1, 3), st.sets(st.integers(0, 7)))
def test_no_share_is_given_twice_and_pods_keep_theirs(counts: list[int], split: int, ended: set[int]) -> None:
    """Whatever comes and goes, holders never overlap and never move."""
    node = Node("n", {GPU: 12}, split)
    pods = [pod(str(n), count, start=n) for n, count in enumerate(counts)]
    before = assign(Assignment(), [node], pods)
    stay = [one for n, one in enumerate(pods) if n not in ended]
    after = assign(before, [node], [*stay, pod("new", 2, start=99)])
    held = [slot for slots in after.slots.values() for slot in slots]
    assert len(held) == len(set(held))
    assert all(after.slots[one.uid] == before.slots[one.uid] for one in stay)


def test_a_successor_gets_the_device_of_its_predecessor() -> None:
    """As on a real node: the lowest free device is given out again, under the same UUID."""
    node = Node("n", {GPU: 4})
    first = assign(Assignment(), [node], [pod("a"), pod("b")])
    second = assign(first, [node], [pod("b"), pod("c")])
    assert second.slots["c"][0].uuid == first.slots["a"][0].uuid


def test_shares_of_one_pod_lie_on_different_devices() -> None:
    """Two vGPUs of a pod are two cards, while two pods may share one."""
    node = Node("n", {GPU: 20}, split=10)
    held = assign(Assignment(), [node], [pod("a", 2), pod("b", 1, start=2)]).slots
    assert len({slot.uuid for slot in held["a"]}) == 2
    assert held["b"][0].uuid == held["a"][0].uuid
    assert held["b"][0] != held["a"][0]


def test_containers_are_told_apart() -> None:
    """The second device belongs to the second container."""
    two = GpuPod("ns", "p", "u", "n", (("first", GPU, 1), ("second", GPU, 1)), 1.0)
    holdings = assign(Assignment(), [Node("n", {GPU: 4})], [two]).holdings([two])
    assert [(one.container, one.ordinal) for one in holdings] == [("first", 0), ("second", 1)]


RUNNING = {"phase": "Running", "startTime": "2027-01-15T08:00:00Z"}


def pod_object(limits: dict[str, str], status: dict[str, str], **notes: str) -> dict[str, Any]:
    """A Pod as the API server gives it."""
    return {
        "metadata": {
            "namespace": "ns",
            "name": "p",
            "uid": "u",
            "creationTimestamp": "2027-01-15T09:00:00Z",
            "annotations": {f"sandbox.gpu-tenure.io/{key}": value for key, value in notes.items()},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": status,
    }


@pytest.mark.parametrize(
    ("limits", "exporter"),
    [
        pytest.param({GPU: "1"}, "dcgm", id="plain NVIDIA pods are seen by dcgm-exporter"),
        pytest.param({GPU: "1", "nvidia.com/gpumem": "4000"}, "hami", id="HAMi's companions tell HAMi"),
        pytest.param({"amd.com/gpu": "1"}, "amd", id="AMD devices have their own exporter"),
        pytest.param({"nvidia.com/mig-1g.5gb": "1"}, "dcgm", id="MIG instances are seen by dcgm-exporter"),
    ],
)
def test_the_exporter_follows_from_the_resources(limits: dict[str, str], exporter: str) -> None:
    """A test need not say what is clear."""
    read = read_pod(pod_object(limits, RUNNING))
    assert read is not None
    assert read.exporter == exporter
    assert (read.start, read.created) == (1_800_000_000, 1_800_003_600)


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        pytest.param({"cpu": "1"}, RUNNING, id="a pod without devices"),
        pytest.param({GPU: "1"}, {"phase": "Pending"}, id="a pod that does not run yet"),
        pytest.param({GPU: "1"}, {"phase": "Succeeded"}, id="a pod that has ended"),
    ],
)
def test_other_pods_have_no_devices(limits: dict[str, str], status: dict[str, str]) -> None:
    """Exporters know running GPU pods only."""
    assert read_pod(pod_object(limits, status)) is None


def test_an_annotation_wins_over_what_is_clear() -> None:
    """A test may choose exporter, activity and memory."""
    read = read_pod(pod_object({GPU: "1"}, RUNNING, exporter="hami-honored", activity="idle", memory="20Gi"))
    assert read is not None
    assert (read.exporter, read.activity, read.memory) == ("hami-honored", "idle", 20 * (1 << 30))


def test_a_node_is_read_with_its_split() -> None:
    """Resources that are no devices do not count."""
    obj = {
        "metadata": {"name": "n", "annotations": {"sandbox.gpu-tenure.io/split": "10"}},
        "status": {"allocatable": {GPU: "20", "nvidia.com/gpumem": "90000", "cpu": "64"}},
    }
    assert read_node(obj) == Node("n", {GPU: 20}, 10)


def test_now_keeps_its_meaning_until_the_annotation_changes() -> None:
    """`idle-from:now` is the moment in which it was first seen, also after a restart of the simulator."""
    nodes = [Node("n", {GPU: 4})]
    first = remember(Remembered(), nodes, [pod("a", activity="idle-from:now")], 100.0)
    again = remember(Remembered.load(first.dump()), nodes, [pod("a", activity="idle-from:now")], 200.0)
    busy = remember(again, nodes, [pod("a", activity="busy")], 300.0)
    later = remember(busy, nodes, [pod("a", activity="idle-from:now")], 400.0)
    assert [state.profiles["a"][0].first for state in (first, again, later)] == [100.0, 100.0, 400.0]
    assert again.assignment == first.assignment


def test_an_unreadable_activity_is_silent() -> None:
    """No data is the one thing that never looks like an answer."""
    state = remember(Remembered(), [Node("n", {GPU: 4})], [pod("a", activity="lazy")], 1.0)
    assert state.profiles["a"][0].kind == "silent"
