"""Acting only while pods wait: who waits, for what, and when that is enough."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from policy.devices import Devices
from policy.objects import PodCondition, PodStatus
from policy.verdicts import Reason
from reaper.pods import GpuPod
from reaper.pressure import helps, less, wanted_by
from reaper.steps import Change
from tests.reaper.acting.made import due_subject, pod_of, subject_of
from tests.reaper.acting.planning import acted, changes, planned, skips
from tests.reaper.acting.worlds import warned

NOWHERE = PodCondition("PodScheduled", "False", "Unschedulable")


def waiting(devices: int = 1, condition: PodCondition = NOWHERE, **more: Any) -> GpuPod:
    """Gives a pod that the scheduler finds no place for."""
    pod = pod_of("waiting", devices=devices, phase="Pending", **more)
    inner = structs.replace(pod.pod, status=PodStatus(phase="Pending", conditions=(condition,)))
    return structs.replace(pod, node=None, pod=inner)


CASES = [
    pytest.param([waiting(2)], {"nvidia.com/gpu": 2}, id="a pod that fits nowhere"),
    pytest.param([waiting(2), waiting(3, uid="other")], {"nvidia.com/gpu": 5}, id="two of them"),
    pytest.param(
        [waiting(condition=PodCondition("PodScheduled", "False", "SchedulingGated"))], {}, id="held back"
    ),
    pytest.param([waiting(condition=PodCondition("PodScheduled", "True"))], {}, id="scheduled by now"),
    pytest.param(
        [waiting(condition=PodCondition("Ready", "False", "Unschedulable"))], {}, id="another condition"
    ),
    pytest.param([waiting(priority=-1)], {}, id="a placeholder"),
    pytest.param([waiting(deleting=True)], {}, id="given up"),
    pytest.param([waiting(namespace="kube-system")], {}, id="in an excluded namespace"),
    pytest.param([pod_of("runs")], {}, id="a pod that runs"),
    pytest.param(
        [waiting(2), pod_of("going", deleting=True)], {"nvidia.com/gpu": 1}, id="one device comes back"
    ),
    pytest.param([waiting(2), pod_of("going", devices=8, deleting=True)], {}, id="enough comes back"),
]


@pytest.mark.parametrize(("pods", "expected"), CASES)
def test_who_waits_for_what(pods: Any, expected: dict[str, int]) -> None:
    """By resource, less what is on its way back."""
    assert wanted_by(pods, {"kube-system"}) == expected


def test_without_waiting_pods_nothing_is_done_and_warnings_come_all_the_same() -> None:
    """The reason says so."""
    found = planned(due_subject("a"), subject_of("b"), wanted={})
    assert acted(found) == []
    assert skips(found)["a"] is Reason.NO_PRESSURE
    assert changes(found) == {"b": Change.WARN}


def test_no_more_is_taken_than_is_waited_for() -> None:
    """The most waste first."""
    found = planned(due_subject("small"), due_subject("large", devices=4), wanted={"nvidia.com/gpu": 3})
    assert acted(found) == ["large"]
    assert skips(found) == {"small": Reason.NO_PRESSURE}


def test_only_devices_that_somebody_waits_for_are_taken() -> None:
    """Whoever waits for AMD is not helped by NVIDIA."""
    amd = due_subject("amd")
    amd = structs.replace(amd, pod=structs.replace(amd.pod, devices=Devices({"amd.com/gpu": 1}, ("main",))))
    found = planned(due_subject("nvidia"), amd, wanted={"amd.com/gpu": 1})
    assert acted(found) == ["amd"]
    assert skips(found) == {"nvidia": Reason.NO_PRESSURE}


def test_claims_count_for_any_device() -> None:
    """Nobody knows their names here."""
    assert helps({"nvidia.com/gpu": 1}, {"*": 2})
    assert helps({"*": 1}, {"nvidia.com/gpu": 1})
    assert not helps({"*": 1}, {})
    assert less({"*": 2, "amd.com/gpu": 1}, {"nvidia.com/gpu": 1}) == {"*": 1, "amd.com/gpu": 1}


async def test_a_cycle_acts_while_a_pod_waits() -> None:
    """And not before."""
    world = await warned(on_pressure=True)
    await world.run(40)
    assert world.actor.tried == []
    pending = waiting()
    world.pods[pending.uid] = pending
    world.verdicts[pending.uid] = world.verdicts[world.pod("a").uid]
    await world.run(1)
    assert world.actor.evicted == ["a"]
