"""What came of actions: exit codes, owners that return and compute again, and what was reclaimed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import structs

from policy.durations import format_time
from policy.objects import Pod
from policy.selection import PolicySet
from policy.verdicts import VerdictKind
from reaper import metrics
from reaper.aftermath import Sequel, reclaimed_seconds, sequels
from reaper.endings import Ended, Endings, as_status, endings_of
from reaper.exporters import SOURCES
from reaper.observation import Observation
from reaper.owners import Root
from reaper.pods import GpuPod, gpu_pod
from reaper.records import Phase, Record
from reaper.signals import Device, Reading, Signals
from reaper.sources import Metric, Role, Sharing
from reaper.stop_api import Standing
from reaper.subjects import Subject
from tests.reaper.acting.made import AFTER, MINUTE, NOON, TERMS, minutes, pod_of, record_of_pod
from tests.reaper.acting.stopped import STOP_LABELS, STOPPING
from tests.reaper.acting.worlds import FakeWorld
from tests.reaper.judging.test_source_rows import LAB

RUN = Root("batch/v1", "Job", "team-a", "train", "uid-train")
DEPLOYMENT = Root("apps/v1", "Deployment", "team-a", "web", "uid-web")
UTILIZATION = Metric("DCGM_FI_DEV_GPU_UTIL", "utilization", Role.ACTIVITY)


def record(owner: str = "uid-a", requester: str = "", devices: int = 1) -> Record:
    """Gives the record of pod a, which was taken at noon."""
    made = record_of_pod("uid-a", phase=Phase.ACCEPTED, at=NOON)
    return structs.replace(made, pod_name="a", owner_uid=owner, requester=requester, devices=devices)


def heir(name: str, root: Root | None = None, ago: timedelta = -MINUTE, **more: Any) -> Subject:
    """Gives a pod that was created so long before noon, by default a minute after it."""
    pod = pod_of(name, created=NOON - ago, uid=f"uid-{name}-new", **more)
    return Subject(pod=pod, root=root or Root("v1", "Pod", "team-a", name, pod.uid), terms=TERMS)


def seen_at(name: str, above: datetime | None, source: str = "dcgm") -> Observation:
    """Gives an observation in which the device of a pod was last busy at a time."""
    reading = Reading(UTILIZATION, source, above={TERMS.utilization: above})
    device = Device("GPU-1", "", "main", Sharing.DEVICE, readings=(reading,))
    signals = Signals(AFTER, {("team-a", name): (device,)})
    return Observation(NOON, True, windows={AFTER: signals})


def only(found: tuple[Sequel, ...]) -> dict[str, Any]:
    """Gives what is new about the one record; empty if nothing is."""
    assert len(found) < 2
    return dict(found[0].status) if found else {}


def look(
    kept: Record, *subjects: Subject, observation: Observation | None = None, at: datetime = NOON + 9 * MINUTE
) -> dict[str, Any]:
    """Looks back at one record whose pod is gone for long."""
    known = structs.replace(kept, ended_at=NOON)
    return only(sequels([known], subjects, observation, Endings(), at, SOURCES))


RETURNS = [
    pytest.param(record("uid-train"), heir("b", RUN), True, id="a later pod of the same root owner"),
    pytest.param(record("uid-train"), heir("b", RUN, MINUTE), False, id="a pod that was there before"),
    pytest.param(record("uid-train"), heir("b", DEPLOYMENT), False, id="a pod of another owner"),
    pytest.param(record(), heir("a"), True, id="a pod of the same name without an owner"),
    pytest.param(record(), heir("b"), False, id="a pod of another name and of nobody known"),
    pytest.param(record(), heir("a", namespace="team-b"), False, id="a namesake in another namespace"),
    pytest.param(record(), heir("a", RUN), False, id="a namesake that has an owner"),
    pytest.param(
        record(requester="ann"),
        heir("b", annotations={"gpu-tenure.io/requested-by": "ann"}),
        True,
        id="another pod of the same requester",
    ),
    pytest.param(
        record(requester="ann"),
        heir("b", annotations={"gpu-tenure.io/requested-by": "bob"}),
        False,
        id="a pod of another requester",
    ),
]


@pytest.mark.parametrize(("kept", "later", "returned"), RETURNS)
def test_an_owner_returns_by_a_later_pod(kept: Record, later: Subject, returned: bool) -> None:
    """Whose pods are taken for the same owner's."""
    expected = {"returnedAt": "2025-03-01T12:01:00Z"} if returned else {}
    assert look(structs.replace(kept, owner_uid=kept.owner_uid, pod_uid="uid-a"), later) == expected


def test_nobody_returns_after_a_day() -> None:
    """What comes later has nothing to do with it."""
    assert look(record(), heir("a"), at=NOON + timedelta(hours=25)) == {}


ACTIVITY = [
    pytest.param(NOON + minutes(30), True, id="within the hour"),
    pytest.param(NOON + minutes(61), False, id="later than that"),
    pytest.param(NOON + minutes(2), False, id="perhaps its predecessor's samples"),
    pytest.param(None, False, id="never used at all"),
]


@pytest.mark.parametrize("phase", [Phase.ACCEPTED, Phase.RESUMED, Phase.REVERTED])
@pytest.mark.parametrize(("above", "regretted"), ACTIVITY)
def test_an_action_is_regretted_if_devices_are_used_again_within_an_hour(
    above: datetime | None, regretted: bool, phase: Phase
) -> None:
    """By an activity signal at the threshold, after the new containers began; undone stops count too."""
    known = structs.replace(record(), phase=phase, ended_at=NOON, returned_at=NOON + MINUTE)
    found = sequels([known], [heir("a")], seen_at("a", above), Endings(), NOON + minutes(59), SOURCES)
    assert [one.regretted for one in found] == ([True] if regretted else [])
    assert only(found) == ({"activeAgainAt": format_time(above)} if regretted and above else {})
    again = structs.replace(known, active_again_at=NOON + minutes(30))
    assert sequels([again], [heir("a")], seen_at("a", above), Endings(), NOON + minutes(59), SOURCES) == ()


@pytest.mark.parametrize(
    ("rows", "noted"), [([LAB], NOON + minutes(30)), ([], None)], ids=["described", "unknown"]
)
async def test_sources_of_the_settings_tell_of_regret(
    rows: list[dict[str, Any]], noted: datetime | None
) -> None:
    """As they tell of idleness; one that nobody described tells nothing."""
    world = FakeWorld(sources=rows)
    kept = structs.replace(record(), ended_at=NOON, returned_at=NOON + MINUTE)
    world.records.kept[kept.name] = kept
    world.add("a", VerdictKind.ACTIVE, created=NOON + MINUTE, uid="uid-a-new")
    world.windows = seen_at("a", NOON + minutes(30), source="lab").windows
    await world.run(1, after=minutes(40))
    assert [one.active_again_at for one in world.records.kept.values()] == [noted]


@pytest.mark.parametrize("phase", [Phase.PLANNED, Phase.BLOCKED, Phase.REFUSED, Phase.GONE])
def test_what_took_nothing_has_no_sequel(phase: Phase) -> None:
    """Its pod may end and its owner compute all the same."""
    later = NOON + minutes(30)
    kept = structs.replace(record(), phase=phase)
    assert sequels([kept], [heir("a")], seen_at("a", later), Endings(), later, SOURCES) == ()


@pytest.mark.parametrize(
    ("by", "phase"), [("gpu-tenure-resume", Phase.RESUMED), ("keda-operator", Phase.REVERTED)]
)
async def test_a_stop_is_regretted_though_it_was_undone_before(by: str, phase: Phase) -> None:
    """Records say so from the cycle in which pods are back, minutes before these are seen to compute."""
    world = FakeWorld()
    world.policies = PolicySet.of([STOPPING])
    world.owners.chosen |= {"web-1": DEPLOYMENT, "web-2": DEPLOYMENT}
    world.add("web-1", labels=STOP_LABELS)
    await world.run(33)
    assert world.stops.stopped == ["web"]
    world.pods.clear()
    before = value(metrics.REGRETTED)
    started = world.clock.time
    world.stops.standing = Standing(exists=True, by=by)
    world.add("web-2", VerdictKind.ACTIVE, labels=STOP_LABELS, created=started)
    await world.run(5)
    (kept,) = world.records.kept.values()
    assert (kept.phase, kept.returned_at, kept.active_again_at) == (phase, started, None)
    world.windows = seen_at("web-2", started + 4 * MINUTE).windows
    await world.run(3)
    (kept,) = world.records.kept.values()
    assert (kept.phase, kept.active_again_at) == (phase, started + 4 * MINUTE)
    assert value(metrics.REGRETTED) - before == 1


def ended_pod() -> GpuPod:
    """Gives a pod as the kubelet leaves it: one container was ended, another had finished."""
    killed = {"exitCode": 143, "reason": "Error", "finishedAt": "2025-03-01T12:00:20Z"}
    statuses = [
        {"name": "main", "state": {"terminated": killed}},
        {"name": "fetch", "state": {"terminated": {"exitCode": 0}}},
        {"name": "side", "state": {"running": {"startedAt": "2025-03-01T11:00:00Z"}}},
    ]
    raw = msgspec.to_builtins(pod_of("a").pod) | {
        "status": {"phase": "Running", "containerStatuses": statuses}
    }
    found = gpu_pod(msgspec.convert(raw, Pod))
    assert found is not None
    return found


def test_exit_codes_are_kept_until_the_pod_is_gone() -> None:
    """The kubelet tells of them last; the record gets them with the end."""
    endings = Endings()
    endings.note(ended_pod())
    gone = structs.replace(record(), pod_uid="uid-team-a-a")
    assert only(sequels([gone], [], None, endings, NOON + MINUTE, SOURCES)) == {
        "endedAt": "2025-03-01T12:01:00Z",
        "containers": [
            {"name": "main", "exitCode": 143, "reason": "Error", "finishedAt": "2025-03-01T12:00:20Z"},
            {"name": "fetch", "exitCode": 0},
        ],
    }
    there = heir("a")
    still = structs.replace(gone, pod_uid=there.pod.uid, decided_at=NOON + MINUTE)
    assert sequels([still], [there], None, endings, NOON + 2 * MINUTE, SOURCES) == ()


def test_endings_are_bounded() -> None:
    """The oldest are forgotten, and a pod has no more containers than a record takes."""
    endings = Endings(most=1)
    first, second = ended_pod(), structs.replace(ended_pod(), uid="other")
    endings.note(first)
    endings.note(second)
    endings.note(pod_of("runs"))
    assert (endings.of(first.uid), len(endings.of("other"))) == ((), 2)
    assert endings_of(pod_of("runs")) == ()
    assert as_status((Ended("x", 1),)) == [{"name": "x", "exitCode": 1}]


RECLAIMED = [
    pytest.param(record(), 10, 600, id="since the action"),
    pytest.param(record(devices=4), 10, 2400, id="for every device"),
    pytest.param(
        structs.replace(record(), returned_at=NOON + minutes(4)), 10, 240, id="until the owner returns"
    ),
    pytest.param(record(), 60 * 30, 86_400, id="for a day at most"),
    pytest.param(structs.replace(record(), phase=Phase.BLOCKED), 10, 0, id="not if nothing was taken"),
]


@pytest.mark.parametrize(("kept", "after", "seconds"), RECLAIMED)
def test_device_seconds_are_reclaimed(kept: Record, after: int, seconds: float) -> None:
    """Whatever the moments between, it adds up to the same."""
    end = NOON + minutes(after)
    assert reclaimed_seconds([kept], NOON, end) == seconds
    half = NOON + (end - NOON) / 2
    parts = reclaimed_seconds([kept], NOON, half) + reclaimed_seconds([kept], half, end)
    assert parts == seconds


def value(counter: Any) -> float:
    """Gives the value of a counter."""
    found: float = counter._value.get()
    return found


async def test_the_cycle_writes_what_came_of_its_actions() -> None:
    """The end of the pod, and the hours that its devices were free."""
    world = FakeWorld()
    world.add("a")
    await world.run(2)
    before = value(metrics.RECLAIMED_SECONDS), value(metrics.WARNINGS_ENDED.labels("action"))
    await world.run(31)
    assert world.actor.evicted == ["a"]
    del world.pods["uid-team-a-a"]
    await world.run(3)
    assert [note for _, note in world.records.notes] == [{"endedAt": "2025-03-01T12:34:00Z"}]
    assert value(metrics.RECLAIMED_SECONDS) - before[0] >= 120
    assert value(metrics.WARNINGS_ENDED.labels("action")) - before[1] == 1


async def test_a_dry_run_looks_back_at_nothing() -> None:
    """What it has only said has no consequences."""
    world = FakeWorld(dry_run=True)
    world.add("a")
    before = value(metrics.RECLAIMED_SECONDS)
    await world.run(40)
    assert world.records.notes == []
    assert value(metrics.RECLAIMED_SECONDS) == before


async def test_warnings_end_by_activity_or_are_held_off_by_a_snooze() -> None:
    """Each is counted by what did it."""
    world = FakeWorld()
    world.add("a")
    await world.run(2)
    counted = {by: value(metrics.WARNINGS_ENDED.labels(by)) for by in ("activity", "snooze", "other")}
    world.change("uid-team-a-a", annotations={**world.pod("a").annotations, "gpu-tenure.io/keep-until": "4h"})
    await world.run(2)
    world.turns("a", VerdictKind.ACTIVE)
    await world.run(1)
    after = {by: value(metrics.WARNINGS_ENDED.labels(by)) - was for by, was in counted.items()}
    assert after == {"activity": 1, "snooze": 1, "other": 0}
