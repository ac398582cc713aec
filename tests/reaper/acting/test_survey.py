"""What holds for a pod before its verdict: skips, ceilings, snoozes, windows, and terms for pods without."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any

import pytest

from policy.objects import Namespace, ObjectMeta
from policy.profile import Profile
from policy.selection import PolicySet
from policy.spec import ActWindow
from policy.terms import Action
from policy.verdicts import Reason
from reaper.backfill import backfill_of
from reaper.marks import Mark
from reaper.owners import root_of_pod
from reaper.subjects import Subject
from reaper.survey import Rules, is_judged, is_open, survey
from tests.reaper.acting.made import LABELS, NOON, POLICY, claiming, minutes, pod_of

RULES = Rules(profile=Profile.ENFORCE, excluded_namespaces=frozenset({"kube-system"}))
POLICIES = PolicySet.of([POLICY])
KEEP = "gpu-tenure.io/keep-until"


def surveyed(
    pod: Any,
    labels: dict[str, str] | None = None,
    rules: Rules = RULES,
    policies: PolicySet = POLICIES,
    mark: Mark | None = None,
) -> Subject:
    """Surveys a pod in a namespace with labels."""
    namespace = Namespace(ObjectMeta(name=pod.namespace, labels=labels or {}))
    return survey(pod, root_of_pod(pod), mark, namespace, policies, rules, NOON)


EXEMPT = {**LABELS, "gpu-tenure.io/idle-action": "exempt"}
SKIPS = [
    pytest.param(pod_of("a"), {}, None, True, id="an ordinary pod"),
    pytest.param(pod_of("a", phase="Succeeded"), {}, Reason.FINISHED, False, id="it has finished"),
    pytest.param(pod_of("a", deleting=True), {}, Reason.TERMINATING, False, id="it is being deleted"),
    pytest.param(
        pod_of("a", namespace="kube-system"), {}, Reason.EXCLUDED, False, id="its namespace is excluded"
    ),
    pytest.param(
        pod_of("a", priority=-1), {}, Reason.PLACEHOLDER, False, id="a placeholder of negative priority"
    ),
    pytest.param(
        pod_of("a"), {"enforcement": "disabled"}, Reason.OPTED_OUT, False, id="its namespace opted out"
    ),
    pytest.param(
        pod_of("a"), {"enforcement": "dry-run"}, Reason.DRY_RUN, True, id="dry-run, judged all the same"
    ),
    pytest.param(pod_of("a"), {"enforcement": "off"}, Reason.DRY_RUN, True, id="an odd value is dry-run"),
    pytest.param(pod_of("a", labels=EXEMPT), {}, Reason.EXEMPT, False, id="exempt by label"),
    pytest.param(
        pod_of("a", annotations={"gpu-eviction-policy": "never"}),
        {},
        Reason.EXEMPT,
        False,
        id="exempt by annotation",
    ),
    pytest.param(
        pod_of("a", labels=EXEMPT, created=NOON - minutes(31 * 24 * 60)),
        {},
        None,
        True,
        id="exempt for too long",
    ),
    pytest.param(pod_of("a", labels={}), {}, Reason.NO_TERMS, False, id="without terms"),
    pytest.param(
        pod_of("a", labels={**LABELS, "gpu-tenure.io/policy": "old"}),
        {},
        Reason.POLICY_MISSING,
        False,
        id="a policy that is gone",
    ),
]


@pytest.mark.parametrize(("pod", "labels", "skip", "judged"), SKIPS)
def test_skips(pod: Any, labels: dict[str, str], skip: Reason | None, judged: bool) -> None:
    """Each with its reason, and whether Prometheus is asked."""
    subject = surveyed(pod, {f"gpu-tenure.io/{key}": value for key, value in labels.items()})
    assert subject.skip is skip
    assert is_judged(subject) is judged


def test_a_namespace_that_nobody_knows_is_a_reason() -> None:
    """Its labels may say anything."""
    pod = pod_of("a")
    found = survey(pod, root_of_pod(pod), None, None, POLICIES, RULES, NOON)
    assert found.skip is Reason.NAMESPACE_UNKNOWN


@pytest.mark.parametrize(
    ("profile", "expected"),
    [(Profile.OBSERVE, Action.OBSERVE), (Profile.WARN, Action.WARN), (Profile.ENFORCE, Action.EVICT)],
)
def test_the_profile_is_a_ceiling(profile: Profile, expected: Action) -> None:
    """Whatever the terms say."""
    assert surveyed(pod_of("a"), rules=Rules(profile=profile)).ceiling is expected


SNOOZES = [
    pytest.param("1h", None, NOON + minutes(60), id="a duration runs from now"),
    pytest.param("2025-03-01T15:00:00Z", None, NOON + minutes(180), id="a time is taken as it is"),
    pytest.param("48h", None, NOON + minutes(24 * 60), id="at most a day from now"),
    pytest.param(
        "24h", Mark(NOON - minutes(60 * 60)), NOON + minutes(12 * 60), id="at most 72 h after idle began"
    ),
    pytest.param("1h", Mark(NOON - minutes(80 * 60)), None, id="nothing is left of the bound"),
    pytest.param("2025-03-01T11:00:00Z", None, None, id="a time that is over"),
    pytest.param("later", None, None, id="a text that nobody can read"),
]


@pytest.mark.parametrize(("text", "mark", "until"), SNOOZES)
def test_snoozes_are_bounded(text: str, mark: Mark | None, until: datetime | None) -> None:
    """By a day from now and by the policy's bound from the start of the stretch."""
    assert surveyed(pod_of("a", annotations={KEEP: text}), mark=mark).snooze.until == until


def window(zone: str) -> ActWindow:
    """Gives office hours on Saturday, which the first of March is."""
    return ActWindow(frozenset({5}), time(9), time(13), zone)


@pytest.mark.parametrize(
    ("act_window", "expected"),
    [
        pytest.param(None, True, id="no window"),
        pytest.param(window("UTC"), True, id="noon is within"),
        pytest.param(window("Asia/Tokyo"), False, id="noon is evening in Tokyo"),
        pytest.param(window("Mars/Olympus"), False, id="a zone nobody knows is closed"),
    ],
)
def test_the_act_window_is_read_in_its_zone(act_window: ActWindow | None, expected: bool) -> None:
    """In the policy's own time zone."""
    assert is_open(act_window, NOON) is expected


def filled(pod: Any, seen_minutes: float = 151, rules: Rules = RULES, labels: Any = None) -> Any:
    """Backfills a pod that has been seen for a while."""
    namespace = Namespace(ObjectMeta(name=pod.namespace, labels=labels or {}))
    subject = surveyed(pod, labels, rules)
    return backfill_of(subject, NOON - minutes(seen_minutes), namespace, POLICIES, rules, NOON)


NOT_FILLED = [
    pytest.param({"pod": pod_of("a", labels={}), "seen_minutes": 149}, id="not seen for long enough"),
    pytest.param({"pod": pod_of("a")}, id="has terms"),
    pytest.param(
        {"pod": pod_of("a", labels={}), "rules": Rules(profile=Profile.OBSERVE)}, id="observe writes nothing"
    ),
    pytest.param(
        {"pod": pod_of("a", labels={}), "labels": {"gpu-tenure.io/enforcement": "dry-run"}},
        id="a dry-run namespace",
    ),
    pytest.param({"pod": pod_of("a", labels={}, namespace="kube-system")}, id="an excluded namespace"),
    pytest.param({"pod": claiming(pod_of("a", labels={}))}, id="claims that nobody looked up"),
]


@pytest.mark.parametrize("given", NOT_FILLED)
def test_no_terms_are_given(given: dict[str, Any]) -> None:
    """Too early, not needed or not allowed."""
    assert filled(**given) is None


def test_terms_are_given_as_at_creation() -> None:
    """With what the user asked for, as far as it is allowed."""
    found = filled(
        pod_of("a", labels={"gpu-tenure.io/idle-after": "9h", "gpu-tenure.io/idle-action": "exempt"})
    )
    assert found.labels["gpu-tenure.io/policy"] == "default"
    assert found.labels["gpu-tenure.io/class"] == "batch"
    assert found.labels["gpu-tenure.io/idle-action"] == "exempt"
    assert found.labels["gpu-tenure.io/idle-after"] == "2h"
    assert found.annotations == {"gpu-tenure.io/asked": "idle-action"}


def test_a_pod_older_than_its_policy_is_only_ever_warned_about() -> None:
    """Nobody could know the rule when it was created."""
    found = filled(pod_of("a", labels={}, created=NOON - minutes(90 * 24 * 60)))
    assert found.labels["gpu-tenure.io/idle-action"] == "warn"
