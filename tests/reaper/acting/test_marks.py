"""Warnings as they are written on pods, the sentences about them, and how a stretch is told from another."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.verdicts import REASONS, Reason, VerdictKind
from reaper import messages
from reaper.marks import Mark, annotations_of, has_any, mark_of, same_stretch
from reaper.memory import Memory
from reaper.owners import Root
from runtime.events import NOTE_BYTES
from tests.reaper.acting.made import IDLE, NOON, TERMS, minutes, pod_of, subject_of, verdict_of

SINCE, AT = "2025-03-01T09:00:00Z", "2025-03-01T11:42:00Z"


def noted(since: str | None = SINCE, at: str | None = AT, uid: str | None = "uid-team-a-a") -> dict[str, str]:
    """Gives the annotations of a warning."""
    values = {"idle-since": since, "reclaim-at": at, "warned-uid": uid}
    return {f"gpu-tenure.io/{key}": value for key, value in values.items() if value is not None}


START = datetime.fromisoformat(SINCE)
MARKS = [
    pytest.param(noted(), Mark(START, reclaim_at=datetime.fromisoformat(AT)), id="a warning with a time"),
    pytest.param(noted(at=None), Mark(START), id="a warning without"),
    pytest.param(noted(at=None, uid=None), Mark(START, warned=False), id="a sighting without a warning"),
    pytest.param(noted(uid="another"), None, id="copied from another pod"),
    pytest.param(noted(uid=None), None, id="a time without a UID"),
    pytest.param(noted(since=None), None, id="no start of the stretch"),
    pytest.param(noted(since="yesterday"), None, id="an unreadable start"),
    pytest.param(noted(at="soon"), None, id="an unreadable time"),
    pytest.param(
        noted(since="2025-02-01T09:00:00Z", at=None, uid=None),
        None,
        id="a sighting older than the pod itself",
    ),
    pytest.param({}, None, id="nothing is written"),
]


@pytest.mark.parametrize(("annotations", "expected"), MARKS)
def test_marks_are_read(annotations: dict[str, str], expected: Mark | None) -> None:
    """Only what is whole and this pod's own counts."""
    pod = pod_of("a", annotations=annotations)
    assert mark_of(pod) == expected
    assert has_any(pod) is bool(annotations)


@given(
    st.integers(0, 10_000),
    st.none() | st.integers(-10_000, 10_000),
    st.booleans(),
)
def test_what_is_written_is_read_back(since: int, at: int | None, warned: bool) -> None:
    """Whole seconds, any time."""
    reclaim_at = None if at is None or not warned else NOON + minutes(at)
    mark = Mark(NOON - minutes(since / 10), warned=warned, reclaim_at=reclaim_at)
    written = annotations_of(mark, "uid-team-a-a")
    kept = {key: value for key, value in written.items() if value is not None}
    assert mark_of(pod_of("a", annotations=kept)) == mark
    assert set(annotations_of(None, "x").values()) == {None}


STRETCHES = [
    pytest.param(IDLE, Mark(NOON - minutes(150)), None, True, id="the window reaches back to the stretch"),
    pytest.param(IDLE, Mark(NOON - minutes(240)), None, True, id="it just touches"),
    pytest.param(IDLE, Mark(NOON - minutes(241)), None, False, id="a gap that nobody looked at"),
    pytest.param(
        IDLE, Mark(NOON - minutes(500)), NOON - minutes(1), True, id="this process looked all the time"
    ),
    pytest.param(
        IDLE, Mark(NOON - minutes(500)), NOON - minutes(121), False, id="it looked away for too long"
    ),
    pytest.param(
        verdict_of(VerdictKind.IDLE, idle_since=NOON - minutes(500)),
        Mark(NOON - minutes(500)),
        None,
        True,
        id="the data reach back",
    ),
    pytest.param(
        verdict_of(VerdictKind.ACTIVE), Mark(NOON - minutes(150)), NOON, False, id="not idle at all"
    ),
]


@pytest.mark.parametrize(("verdict", "mark", "last_idle", "expected"), STRETCHES)
def test_a_stretch_goes_on_or_is_another(verdict: Any, mark: Mark, last_idle: Any, expected: bool) -> None:
    """A warning counts for the stretch it was given in."""
    assert same_stretch(mark, verdict, TERMS, last_idle) is expected


def test_what_was_just_written_counts_before_the_watch_shows_it() -> None:
    """And not for ever: somebody may take it away."""
    memory = Memory()
    pod = pod_of("a")
    memory.meet([pod.uid], NOON)
    memory.wrote[pod.uid] = (NOON, Mark(NOON))
    assert memory.mark_of(pod) == Mark(NOON)
    assert memory.fresh_mark_of(pod) is None
    memory.forget_others([pod.uid], NOON + minutes(1))
    assert memory.mark_of(pod) is None


def test_a_warning_says_everything() -> None:
    """Who, since when, how known, when, how to keep it, whom to ask."""
    subject = subject_of("notebook-0", devices=2)
    mark = Mark(datetime.fromisoformat("2025-03-01T09:12:00Z"), reclaim_at=datetime.fromisoformat(AT))
    assert messages.warning(subject, mark, "Ask in gpu-help.", NOON) == (
        "2 GPUs idle since 09:12Z (240 of 240 samples below 5 %). Will be evicted at 11:42Z. "
        "To keep it: kubectl annotate pod notebook-0 -n team-a gpu-tenure.io/keep-until=4h. Ask in gpu-help."
    )


def test_a_time_of_another_day_has_its_date() -> None:
    """09:12 of yesterday is not 09:12 of today."""
    assert messages.clock(NOON - minutes(24 * 60), NOON) == "2025-02-28 12:00Z"
    assert messages.devices(1) == "1 GPU"


def test_the_other_messages() -> None:
    """Each a sentence, none longer than an Event's note."""
    subject = subject_of()
    mark = Mark(NOON - minutes(120), reclaim_at=NOON)
    texts = [
        messages.warning(subject, Mark(NOON), "", NOON),
        messages.moved(subject, mark, Reason.SNOOZED, "", NOON),
        messages.moved(subject, mark, Reason.PAUSED, "", NOON),
        messages.evicted(subject, mark, "", NOON),
        messages.blocked("Cannot evict pod", NOON, NOON),
        messages.refused("two budgets.", NOON, NOON),
        messages.held_in_memory(subject, mark, "", NOON),
        messages.how_to_get_back(Root("batch/v1", "Job", "a", "train", "u")),
        *(messages.withdrawn(reason) for reason in REASONS),
        messages.withdrawn(None),
        messages.lowered(Reason.WARN_ONLY),
    ]
    for text in texts:
        assert text.endswith("."), text
        assert "  " not in text
        assert ".." not in text
        assert len(text.encode()) < NOTE_BYTES
