"""Which alerts hold, and what they say."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from policy.snooze import Snooze
from policy.terms import Action
from policy.verdicts import REASONS, Reason
from reaper.alertmanager import wire
from reaper.alerts import Alert, AlertName, alert_of, idle_warning, label_value, prose, reclaimed
from reaper.fates import Fate
from reaper.marks import Mark
from reaper.outlook import Ceiling
from reaper.owners import Root
from reaper.subjects import Subject
from tests.reaper.acting.made import AFTER, GRACE, NOON, minutes, subject_of

RECLAIM_AT = NOON + minutes(20)
MARK = Mark(RECLAIM_AT - timedelta(seconds=AFTER + GRACE), reclaim_at=RECLAIM_AT)
HALFWAY = RECLAIM_AT - timedelta(seconds=GRACE / 2)
EVICTS = Ceiling(Action.EVICT)
JOB = Root("batch/v1", "Job", "team-a", "train", "job-uid")


def asked_by(requester: str) -> Subject:
    """Gives a warned pod that somebody asked for."""
    subject = subject_of(mark=MARK, root=JOB)
    annotations = {"gpu-tenure.io/requested-by": requester}
    return structs.replace(subject, pod=structs.replace(subject.pod, annotations=annotations))


def warning_at(
    now: datetime,
    subject: Subject | None = None,
    mark: Mark | None = MARK,
    ceiling: Ceiling = EVICTS,
    fate: Fate | None = None,
) -> Alert | None:
    """Gives the alert of a pod."""
    return idle_warning(subject or asked_by("ana@example.org"), mark, ceiling, fate, "gpu-help", now)


def test_a_warned_pod_says_whose_it_is_what_comes_and_how_to_keep_it() -> None:
    """Labels name the pod, its owner and who asked; annotations are sentences for people."""
    found = warning_at(NOON)
    assert found is not None
    assert found.labels == {
        "alertname": "GPUTenureIdleWarning",
        "namespace": "team-a",
        "pod": "a",
        "owner": "Job/train",
        "owner_kind": "Job",
        "owner_name": "train",
        "requester": "ana@example.org",
        "policy": "built-in",
        "action": "evict",
        "stage": "warned",
        "severity": "warning",
    }
    assert found.annotations["reclaim_at"] == "2025-03-01T12:20:00Z"
    assert "Will be evicted at 12:20Z" in found.annotations["description"]
    assert found.annotations["keep"] == "kubectl annotate pod a -n team-a gpu-tenure.io/keep-until=4h"
    assert found.annotations["contact"] == "gpu-help"
    assert found.starts_at <= NOON
    assert found.ends_at == HALFWAY


def test_the_second_half_of_the_grace_is_another_alert() -> None:
    """The first ends in the moment in which the second begins, so that people hear of it twice."""
    before, after = warning_at(HALFWAY - timedelta(seconds=1)), warning_at(HALFWAY)
    assert before is not None
    assert after is not None
    assert before.labels | {"stage": "halfway"} == after.labels
    assert before.ends_at == after.starts_at == HALFWAY
    assert after.ends_at is None


def test_an_overdue_action_keeps_the_alert() -> None:
    """Limits may hold an action for long; the warning holds as long."""
    found = warning_at(RECLAIM_AT + minutes(300))
    assert found is not None
    assert found.labels["stage"] == "halfway"


def test_a_warning_without_action_says_so() -> None:
    """Nothing is announced that will not come."""
    found = warning_at(NOON, mark=Mark(NOON - minutes(180)))
    assert found is not None
    assert found.labels["action"] == "warn"
    assert not {"reclaim_at", "keep"} & set(found.annotations)
    assert "nothing will be done" in found.annotations["description"]
    assert found.ends_at is None


def test_it_announces_what_the_plan_does_not_what_the_terms_ask() -> None:
    """Pods that nobody makes again, and those of a Deployment that does not go whole, are evicted."""
    found = warning_at(NOON, structs.replace(asked_by("ana"), ceiling=Action.STOP))
    assert found is not None
    assert found.labels["action"] == "evict"
    assert "Will be evicted at" in found.annotations["description"]
    assert "resume" not in found.annotations["description"]


@pytest.mark.parametrize(("fate", "words"), [(Fate.ENDS, "ends the Job"), (Fate.RESTARTS, "restarts it")])
def test_it_says_what_becomes_of_the_job(fate: Fate, words: str) -> None:
    """As the Event says it."""
    found = warning_at(NOON, fate=fate)
    assert found is not None
    assert f"Will be evicted at 12:20Z. This {words}" in found.annotations["description"]


def test_a_warning_without_action_says_why_there_is_none() -> None:
    """As the Event says it, where the reason is worth saying."""
    found = warning_at(
        NOON, mark=Mark(NOON - minutes(180)), ceiling=Ceiling(Action.WARN, Reason.NOT_STOPPABLE)
    )
    assert found is not None
    assert REASONS[Reason.NOT_STOPPABLE] in found.annotations["description"]


@pytest.mark.parametrize(
    ("subject", "mark"),
    [
        pytest.param(subject_of(), None, id="a pod without a mark"),
        pytest.param(subject_of(), Mark(NOON, warned=False), id="a pod that was only seen"),
        pytest.param(subject_of(skip=Reason.FINISHED), MARK, id="a pod that has ended"),
        pytest.param(subject_of(skip=Reason.TERMINATING), MARK, id="a pod that is going"),
    ],
)
def test_no_alert_for(subject: Subject, mark: Mark | None) -> None:
    """Alerts speak of warnings only."""
    assert warning_at(NOON, subject, mark) is None


def test_a_kept_pod_is_silent_until_the_second_half() -> None:
    """Its user has been heard; before the moved action comes, one is told again."""
    until = NOON + minutes(240)
    kept = structs.replace(asked_by("ana"), snooze=Snooze(until=until))
    moved = Mark(MARK.idle_since, reclaim_at=until)
    assert warning_at(NOON, kept, moved) is None
    found = warning_at(until - timedelta(seconds=GRACE / 2), kept, moved)
    assert found is not None
    assert found.labels["stage"] == "halfway"


def test_a_reclaim_lasts_long_enough_to_be_told() -> None:
    """Alertmanager tells a group every five minutes, and nothing of what ended before."""
    found = reclaimed(asked_by("ana"), Action.EVICT, "Evicted. Create it again.", "gpu-help", NOON)
    assert found.labels["alertname"] == "GPUTenureReclaimed"
    assert found.labels["action"] == "evict"
    assert found.annotations["description"] == "Evicted. Create it again."
    assert found.ends_at is not None
    assert found.ends_at - found.starts_at > minutes(10)


@pytest.mark.parametrize(
    ("written", "label"),
    [
        pytest.param("system:serviceaccount:hub:hub", "system:serviceaccount:hub:hub", id="an account"),
        pytest.param("ana.müller@example.org", "ana.müller@example.org", id="letters of any language"),
        pytest.param("<!channel>", "__channel_", id="a mention of everybody"),
        pytest.param('x"}\n{{ .Evil }}', "x_____ .Evil __", id="template and line break"),
        pytest.param("\u202egro.elpmaxe", "_gro.elpmaxe", id="text that runs backwards"),
        pytest.param("a" * 5000, "a" * 128, id="endless text"),
        pytest.param("\ud800", "_", id="half of a character"),
        pytest.param("   ", "", id="nothing but spaces"),
    ],
)
def test_what_users_write_becomes_a_plain_value(written: str, label: str) -> None:
    """Routes and templates see letters, digits and a few signs."""
    assert label_value(written) == label


def test_an_empty_value_is_no_label() -> None:
    """As Alertmanager has it: an empty label is an absent one."""
    found = warning_at(NOON, asked_by(" "))
    assert found is not None
    assert "requester" not in found.labels


@given(st.text(), st.text())
def test_nothing_that_users_write_breaks_an_alert(requester: str, name: str) -> None:
    """Values stay one line of text in UTF-8, and names of labels are ours alone."""
    root = Root("example.org/v1", name, "team-a", name, "uid")
    found = warning_at(NOON, structs.replace(asked_by(requester), root=root))
    assert found is not None
    usual = warning_at(NOON)
    assert usual is not None
    assert set(found.labels) <= set(usual.labels)
    assert set(found.annotations) == set(usual.annotations)
    for value in (*found.labels.values(), *found.annotations.values()):
        assert value.encode()
        assert len(value.encode()) <= 1024
        assert not re.search(r"[\x00-\x1f<>]", value)


@given(st.text(max_size=3000))
def test_prose_is_one_short_line(text: str) -> None:
    """Slack and mail show it as it is."""
    found = prose(text)
    assert len(found.encode()) <= 1024
    assert found.isprintable()
    assert not set(found) & set("<>")


def test_further_labels_never_replace_our_own() -> None:
    """Labels of the settings come below."""
    alert = alert_of(AlertName.RECLAIMED, {"namespace": "team-a"}, {}, NOON)
    assert wire(alert, {"cluster": "a", "namespace": "x"})["labels"] == {
        "alertname": "GPUTenureReclaimed",
        "namespace": "team-a",
        "cluster": "a",
    }
