"""What a wish to keep a pod comes to: its bounds, and what its user is told."""

from __future__ import annotations

from typing import Any

import pytest

from policy.durations import parse_duration
from policy.keys import Annotation
from policy.selection import PolicySet
from reaper.keeping import kept
from reaper.pods import GpuPod
from tests.reaper.acting.made import LABELS, NOON, POLICY, minutes, pod_of

POLICIES = PolicySet.of([POLICY])


def marked(idle: str | None = "2025-03-01T09:00:00Z", reclaim: str | None = None, **labels: str) -> GpuPod:
    """Gives a pod that the reaper has warned."""
    pod = pod_of("a", labels={**LABELS, **{f"gpu-tenure.io/{key}": value for key, value in labels.items()}})
    notes = {
        Annotation.IDLE_SINCE: idle,
        Annotation.RECLAIM_AT: reclaim,
        Annotation.WARNED_UID: pod.uid if idle else None,
    }
    return pod_of("a", labels=pod.labels, annotations={key: value for key, value in notes.items() if value})


SPANS = [
    pytest.param(marked(None), "4h", "16:00:00Z, 4h from now", id="as it was asked"),
    pytest.param(
        marked(None),
        "48h",
        "2025-03-02T12:00:00Z, not for 48h: a snooze lasts 24h at most",
        id="a day at most",
    ),
    pytest.param(
        marked("2025-02-26T15:00:00Z"),
        "4h",
        "2025-03-01T15:00:00Z, not for 4h: by policy default, "
        "pods can be kept for 72h after they became idle, and it is idle since 2025-02-26T15:00:00Z",
        id="to the policy's bound",
    ),
]


@pytest.mark.parametrize(("pod", "span", "said"), SPANS)
def test_a_wish_is_bounded_and_its_user_is_told_by_what(pod: GpuPod, span: str, said: str) -> None:
    """The time that is written is the time that counts."""
    found = kept(pod, parse_duration(span), POLICIES, NOON)
    assert found.until is not None
    assert said in found.sentences[0]
    written = found.annotations["gpu-tenure.io/keep-until"]
    assert written in found.sentences[0]


REFUSED = [
    pytest.param(marked("2025-02-20T12:00:00Z"), "cannot be kept longer", id="what was idle for too long"),
    pytest.param(pod_of("a", phase="Succeeded"), "has ended", id="what has ended"),
    pytest.param(pod_of("a", deleting=True), "is going", id="what is going"),
]


@pytest.mark.parametrize(("pod", "said"), REFUSED)
def test_what_cannot_be_kept_is_not_written(pod: GpuPod, said: str) -> None:
    """And the reason is said."""
    found = kept(pod, parse_duration("4h"), POLICIES, NOON)
    assert (found.until, found.annotations) == (None, {})
    assert said in found.sentences[0]


AFTERWARDS = [
    pytest.param(
        marked(reclaim="2025-03-01T12:30:00Z"),
        "It was to be evicted at 2025-03-01T12:30:00Z; now not before 2025-03-01T16:00:00Z",
        id="an eviction comes later",
    ),
    pytest.param(
        marked(reclaim="2025-03-01T18:00:00Z", **{"idle-action": "stop"}),
        "stopped with its owner at 2025-03-01T18:00:00Z; now not before 2025-03-01T18:00:00Z",
        id="a stop that comes later anyway",
    ),
    pytest.param(marked(), "only warned", id="a mere warning"),
    pytest.param(marked(None), "No action is announced", id="no warning"),
    pytest.param(marked(None, **{"idle-action": "exempt"}), "exempt", id="an exempt pod"),
]


@pytest.mark.parametrize(("pod", "said"), AFTERWARDS)
def test_it_is_told_what_will_happen_then(pod: GpuPod, said: str) -> None:
    """From what the reaper wrote on the pod."""
    assert said in kept(pod, parse_duration("4h"), POLICIES, NOON).sentences[1]


def test_without_the_right_to_read_policies_the_default_bound_counts() -> None:
    """And it is said that it does."""
    found = kept(marked("2025-02-26T13:00:00Z"), parse_duration("4h"), None, NOON)
    assert found.until == NOON + minutes(60)
    assert "by the default (the policy is not readable)" in found.sentences[0]


def test_the_policy_of_the_pod_sets_the_bound() -> None:
    """Its keepUntil, not the default."""
    spec: dict[str, Any] = {**POLICY["spec"], "bounds": {"keepUntil": "4h"}}  # type: ignore[dict-item]
    policies = PolicySet.of([{**POLICY, "spec": spec}])
    found = kept(marked("2025-03-01T09:00:00Z"), parse_duration("4h"), policies, NOON)
    assert found.until == NOON + minutes(60)
