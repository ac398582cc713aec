"""The records of actions: listed, written once, completed, and what they say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policy.keys import Annotation
from reaper.owners import Root
from reaper.reclaim import record_of, spec_of
from reaper.records import Phase, RecordStore, parse_record
from reaper.settings import ReaperSettings
from reaper.shadow_records import ShadowRecords
from reaper.world import World
from runtime.kube import ApiError
from tests.reaper.acting.keepers import FakeRecords
from tests.reaper.acting.kube import Answer, FakeKube
from tests.reaper.acting.made import NOON, due_subject, minutes, record_of_pod
from tests.reaper.acting.worlds import FakeClock

RECLAIMS = "/apis/gpu-tenure.io/v1alpha1/gpureclaims"
IN_TEAM_A = "/apis/gpu-tenure.io/v1alpha1/namespaces/team-a/gpureclaims"


def stored(name: str = "a", phase: str | None = None) -> dict[str, Any]:
    """Gives a record as the API server holds it, as this reaper writes it."""
    subject = due_subject(name)
    made: dict[str, Any] = {
        "metadata": {"name": f"pod-{subject.pod.uid}", "namespace": "team-a"},
        "spec": spec_of(subject, NOON),
    }
    if phase:
        made["status"] = {"phase": phase, "completedAt": "2025-03-01T12:00:00Z", "message": "x"}
    return made


async def test_records_are_listed_page_by_page() -> None:
    """What is not a record of ours is left out."""
    pages: dict[tuple[str, str], Answer] = {
        ("GET", RECLAIMS): {
            "items": [stored("a"), {"metadata": {}}],
            "metadata": {"resourceVersion": "7", "continue": "next"},
        },
        ("GET", f"{RECLAIMS}?next"): {
            "items": [stored("b", "Accepted")],
            "metadata": {"resourceVersion": "7"},
        },
    }
    found = await RecordStore(FakeKube(pages)).fetch()
    assert [(record.pod_name, record.phase) for record in found] == [
        ("a", Phase.PLANNED),
        ("b", Phase.ACCEPTED),
    ]


async def test_a_record_is_written_once() -> None:
    """Another reaper's record of the same pod is given back instead."""
    subject = due_subject("a")
    record = record_of(subject, NOON)
    exists = ApiError(409, "AlreadyExists", "x")
    kube = FakeKube(
        {("POST", IN_TEAM_A): exists, ("GET", f"{IN_TEAM_A}/{record.name}"): stored("a", "Accepted")}
    )
    begun = await RecordStore(kube).begin(record, spec_of(subject, NOON))
    assert begun.phase is Phase.ACCEPTED
    with pytest.raises(ApiError):
        await RecordStore(FakeKube({("POST", IN_TEAM_A): ApiError(403, "Forbidden", "x")})).begin(record, {})


def test_a_record_takes_what_references_say_in_part() -> None:
    """A pod whose forged owner has a name of any length can be recorded, and so be acted on."""
    long = "x" * 5000
    spec = spec_of(due_subject("a", root=Root(f"{long}/v1", long, "team-a", long, long)), NOON)
    assert {key: len(text) for key, text in spec["owner"].items()} == {
        "apiVersion": 317,
        "kind": 128,
        "name": 253,
        "uid": 128,
    }
    assert len(spec["howToGetBack"]) == 1024


async def test_a_record_is_completed_in_its_status() -> None:
    """Phase, time and message."""
    record = record_of(due_subject("a"), NOON)
    path = f"{IN_TEAM_A}/{record.name}/status"
    kube = FakeKube({("PATCH", path): {}})
    done = await RecordStore(kube).complete(record, Phase.BLOCKED, "a budget", NOON)
    assert (done.phase, done.completed_at, done.message) == (Phase.BLOCKED, NOON, "a budget")
    status = {"phase": "Blocked", "message": "a budget", "completedAt": "2025-03-01T12:00:00Z"}
    assert kube.sent[0][2] == {"status": status}


def test_a_record_says_who_what_why_and_how_to_get_it_back() -> None:
    """Everything that somebody asks afterwards."""
    spec = spec_of(due_subject("a", devices=2), NOON)
    assert spec["pod"] == {"name": "a", "uid": "uid-team-a-a", "node": "node-a"}
    assert spec["owner"]["kind"] == "Pod"
    assert (spec["action"], spec["devices"], spec["decidedAt"]) == ("evict", 2, "2025-03-01T12:00:00Z")
    assert spec["verdict"] == {"reason": "BelowThreshold", "sentence": "240 of 240 samples below 5 %"}
    assert spec["terms"]["idle-after"] == "2h"
    assert spec["howToGetBack"]
    assert parse_record(msgspec.json.encode({"metadata": {}, "spec": spec})) is not None


@pytest.mark.parametrize(
    ("annotations", "requester"),
    [
        pytest.param({Annotation.REQUESTED_BY: "anna"}, "anna", id="whom the pod names"),
        pytest.param({Annotation.REQUESTED_BY: "a" * 2000}, "a" * 1024, id="a name that is too long is cut"),
        pytest.param({Annotation.REQUESTED_BY: ""}, None, id="an empty name is nobody's"),
        pytest.param({}, None, id="a pod that names nobody"),
    ],
)
def test_a_record_says_who_asked(annotations: dict[str, str], requester: str | None) -> None:
    """Unknown is left out, not guessed from the owner."""
    subject = due_subject("a")
    subject = msgspec.structs.replace(
        subject, pod=msgspec.structs.replace(subject.pod, annotations=annotations)
    )
    assert spec_of(subject, NOON).get("requester") == requester


async def test_a_dry_run_keeps_its_records_to_itself() -> None:
    """It reads the real ones, so that its limits are the real ones."""
    real = FakeRecords()
    former = record_of_pod("former")
    real.kept[former.name] = former
    shadow = ShadowRecords(real, lambda _: ())
    record = record_of(due_subject("a"), NOON)
    await shadow.begin(record, {})
    await shadow.complete(record, Phase.ACCEPTED, "x", NOON)
    assert {one.pod_name: one.phase for one in await shadow.fetch()} == {
        "former": Phase.ACCEPTED,
        "a": Phase.ACCEPTED,
    }
    await shadow.remove(former)
    assert list(real.kept) == [former.name]


async def test_a_dry_run_forgets_what_a_real_run_would_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory would grow with every pod that ever was idle; one that is there is not acted on twice."""
    clock = FakeClock()
    settings = ReaperSettings(prometheus_url="http://prometheus:9090", dry_run=True, records_kept=24 * 3600)
    kube = FakeKube({("GET", RECLAIMS): {"metadata": {"resourceVersion": "1"}, "items": []}})
    world = World(kube, settings, clock)
    there = due_subject("there")
    monkeypatch.setattr(world.pods, "values", lambda: [there.pod])
    records = world.ports(None).records
    for subject, hours in ((there, 25), (due_subject("old"), 25), (due_subject("new"), 23)):
        record = record_of(subject, NOON - minutes(hours * 60))
        await records.begin(record, {})
        await records.complete(record, Phase.ACCEPTED, "x", NOON)
    assert [one.pod_name for one in await records.fetch()] == ["there", "new"]
    clock.time += minutes(61)
    assert [one.pod_name for one in await records.fetch()] == ["there"]
