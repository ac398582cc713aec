"""What users may do to their own pods, and whom it must not keep from being reaped, or cause to be."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec import structs

from policy.verdicts import Reason, VerdictKind
from tests.reaper.acting.made import verdict_of
from tests.reaper.acting.worlds import FakeWorld

HOUR = timedelta(hours=1)


async def test_a_snooze_that_is_renewed_before_any_warning_ends_with_its_bound() -> None:
    """72 h after the pod became idle, although metrics are only looked at for a day."""
    world = FakeWorld()
    uid = world.add("a").uid
    idle_since = world.clock.time - 2 * HOUR
    for hour in range(71):
        if hour % 12 == 0:
            annotations = {**world.pods[uid].annotations, "gpu-tenure.io/keep-until": "24h"}
            world.change(uid, annotations=annotations)
        seen_since = max(idle_since, world.clock.time - 24 * HOUR)
        world.verdicts[uid] = verdict_of(VerdictKind.IDLE, idle_since=seen_since)
        await world.run(1, after=HOUR)
    assert world.annotations("a")["idle-since"] == "2025-03-01T10:00:00Z"
    assert "warned-uid" in world.annotations("a")
    world.verdicts[uid] = verdict_of(VerdictKind.IDLE, idle_since=world.clock.time - 24 * HOUR)
    await world.run(2, after=HOUR)
    assert world.actor.evicted == ["a"]


async def test_pods_that_wait_for_a_node_weigh_nothing() -> None:
    """Neither do they raise what may be taken in an hour, nor does their end look like a loss of devices."""
    world = FakeWorld(device_percent=10, brake_fall_percent=20)
    for number in range(9):
        world.add(f"busy-{number}", VerdictKind.ACTIVE)
    for name in ("a", "b"):
        world.add(name)
    waiting = [
        world.add(f"waiting-{number}", VerdictKind.UNKNOWN, devices=8, phase="Pending") for number in range(5)
    ]
    for pod in waiting:
        world.pods[pod.uid] = structs.replace(pod, node=None)
        world.verdicts[pod.uid] = verdict_of(VerdictKind.UNKNOWN, Reason.NOT_STARTED)
    await world.run(33)
    assert len(world.actor.evicted) == 1
    for pod in waiting:
        del world.pods[pod.uid]
    await world.run(1)
    assert not world.memory.brake.engaged


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        pytest.param({}, {"idle-since": "9999-12-31T23:59:59Z"}, id="a sighting at the end of time"),
        pytest.param(
            {"gpu-tenure.io/enforcement": "disabled"},
            {"idle-since": "9999-12-31T23:59:59Z", "keep-until": "4h"},
            id="and a snooze, where the webhook is never asked",
        ),
        pytest.param({}, {"keep-until": "9999-12-31T23:59:59Z"}, id="a snooze until the end of time"),
    ],
)
async def test_no_annotation_stops_the_reaper_for_others(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    """Whatever was written on one pod when it was created, another is evicted."""
    world = FakeWorld()
    world.namespaces["team-b"] = labels
    world.add("busy", VerdictKind.ACTIVE, devices=4)
    world.add("a")
    world.add(
        "b",
        namespace="team-b",
        annotations={f"gpu-tenure.io/{key}": value for key, value in annotations.items()},
    )
    await world.run(34)
    assert "a" in world.actor.evicted
