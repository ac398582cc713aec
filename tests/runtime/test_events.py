from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.events import EventRecorder, Regarding, Sent, cut
from runtime.kube import KubeClient

EVENTS = "/apis/events.k8s.io/v1/namespaces/team-a/events"
POD = Regarding("Pod", "trainer", "uid-1", "team-a")


@pytest.fixture
def recorder(client: KubeClient, fake_time: Any) -> EventRecorder:
    """A recorder whose names are counted."""
    numbers = iter(range(1, 1000))
    return EventRecorder(
        client,
        clock=fake_time,
        controller="gpu-tenure.io/reaper",
        instance="reaper-0",
        token=lambda: f"t{next(numbers)}",
    )


async def test_an_event_is_written_in_the_namespace_of_its_object(
    fake_api: Any, recorder: EventRecorder
) -> None:
    """All fields that the API server requires are there, and the object is named with its uid."""
    fake_api.on("POST", EVENTS, fake_api.json({}, 201))
    assert await recorder.record(POD, "GPUIdle", "Warn", "2 GPUs idle", "Warning")
    assert json.loads(fake_api.requests[0][4]) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "trainer.t1", "namespace": "team-a"},
        "eventTime": "2025-01-01T00:16:40.000000Z",
        "reportingController": "gpu-tenure.io/reaper",
        "reportingInstance": "reaper-0",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "trainer",
            "uid": "uid-1",
            "namespace": "team-a",
        },
        "reason": "GPUIdle",
        "action": "Warn",
        "note": "2 GPUs idle",
        "type": "Warning",
    }


async def test_a_repeat_is_counted_in_the_series_of_the_first(fake_api: Any, recorder: EventRecorder) -> None:
    """Only the series of an Event can change; another note is another Event."""
    fake_api.on("POST", EVENTS, fake_api.json({}, 201))
    fake_api.on("PATCH", f"{EVENTS}/trainer.t1", fake_api.json({}))
    for note in ("same", "same", "same", "other"):
        await recorder.record(POD, "GPUIdle", "Warn", note)
    methods = [(method, json.loads(body).get("series")) for method, *_, body in fake_api.requests]
    assert methods == [
        ("POST", None),
        ("PATCH", {"count": 2, "lastObservedTime": "2025-01-01T00:16:40.000000Z"}),
        ("PATCH", {"count": 3, "lastObservedTime": "2025-01-01T00:16:40.000000Z"}),
        ("POST", None),
    ]
    assert fake_api.requests[1][3]["Content-Type"] == "application/merge-patch+json"


async def test_a_forgotten_event_is_written_anew(fake_api: Any, recorder: EventRecorder) -> None:
    """The API server keeps Events for an hour; a repeat after that is a new one."""
    fake_api.on("POST", EVENTS, fake_api.json({}, 201))
    fake_api.on("PATCH", f"{EVENTS}/trainer.t1", fake_api.json({"code": 404}, 404))
    fake_api.on("PATCH", f"{EVENTS}/trainer.t2", fake_api.json({}))
    for _ in range(3):
        assert await recorder.record(POD, "GPUIdle", "Warn", "same")
    assert [request[0] for request in fake_api.requests] == ["POST", "PATCH", "POST", "PATCH"]


@pytest.mark.parametrize("fault", ["forbidden", "html", "reset"])
async def test_a_failure_is_told_by_the_result_alone(
    fault: str, fake_api: Any, recorder: EventRecorder
) -> None:
    """Nothing depends on an Event, so nothing is raised."""
    answers = {
        "forbidden": fake_api.json({"code": 403}, 403),
        "html": fake_api.text("<html>"),
        "reset": fake_api.reset(),
    }
    fake_api.on("POST", EVENTS, answers[fault])
    assert not await recorder.record(POD, "GPUIdle", "Warn", "note")


async def test_an_object_without_namespace_is_reported_in_default(
    fake_api: Any, recorder: EventRecorder
) -> None:
    """Events always have a namespace."""
    fake_api.on("POST", "/apis/events.k8s.io/v1/namespaces/default/events", fake_api.json({}, 201))
    policy = Regarding("GPUPolicy", "p" * 253, "uid-2", api_version="gpu-tenure.io/v1alpha1")
    assert await recorder.record(policy, "Invalid", "Observe", "note")
    body = json.loads(fake_api.requests[0][4])
    assert "namespace" not in body["regarding"]
    assert len(body["metadata"]["name"]) <= 253


async def test_words_and_notes_keep_within_the_limits_of_the_api(
    fake_api: Any, recorder: EventRecorder
) -> None:
    """A longer one would be refused; control characters of users are escaped."""
    fake_api.on("POST", EVENTS, fake_api.json({}, 201))
    await recorder.record(POD, "R" * 200, "A" * 200, "ü" * 2000 + "\x1b[31m")
    body = json.loads(fake_api.requests[0][4])
    assert (len(body["reason"]), len(body["action"])) == (128, 128)
    assert len(body["note"].encode()) <= 1024
    await recorder.record(POD, "R", "A", "red \x1b[31m")
    assert json.loads(fake_api.requests[1][4])["note"] == "red \\x1b[31m"


@given(text=st.text(max_size=700), limit=st.integers(3, 600))
def test_a_cut_text_fits_and_is_a_beginning_of_the_text(text: str, limit: int) -> None:
    """Never half a character, and short texts stay as they are."""
    got = cut(text, limit)
    assert len(got.encode()) <= limit
    if len(text.encode(errors="replace")) <= limit:
        assert got == text
    else:
        assert got.endswith("…")
        assert text.startswith(got[:-1])


async def test_an_event_that_is_sent_once_is_named_by_what_it_says(
    fake_api: Any, recorder: EventRecorder
) -> None:
    """Another process makes the same name, and another key or object another one."""
    fake_api.on("POST", EVENTS, fake_api.json({}, 201))
    other = Regarding("Pod", "trainer", "uid-2", "team-a")
    for key, about in (("24h", POD), ("24h", POD), ("1h", POD), ("24h", other)):
        assert await recorder.once(key, about, "DeadlineApproaching", "Deadline", "soon") is Sent.CREATED
    names = [json.loads(body)["metadata"]["name"] for *_, body in fake_api.requests]
    assert names[0] == names[1]
    assert len(set(names)) == 3
    assert all(name.startswith("trainer.") for name in names)


@pytest.mark.parametrize(
    ("status", "reason", "sent"),
    [
        pytest.param(409, "AlreadyExists", Sent.KNOWN, id="it is there already"),
        pytest.param(409, "Conflict", Sent.FAILED, id="another conflict"),
        pytest.param(403, "Forbidden", Sent.FAILED, id="it is not allowed"),
        pytest.param(500, "InternalError", Sent.FAILED, id="the API server fails"),
    ],
)
async def test_what_becomes_of_an_event_that_is_sent_once(
    fake_api: Any, recorder: EventRecorder, status: int, reason: str, sent: Sent
) -> None:
    """Who asks knows whether to try again; nothing is raised."""
    body = {"kind": "Status", "reason": reason, "code": status, "message": "x"}
    fake_api.on("POST", EVENTS, fake_api.json(body, status))
    assert await recorder.once("24h", POD, "DeadlineApproaching", "Deadline", "soon") is sent
