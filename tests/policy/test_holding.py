from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.asking import admitted_terms, policy_terms
from policy.classes import PodClass
from policy.gpupolicy import GPUPolicy, parse_policy
from policy.holding import Holding, ceiling, held_terms, holding_terms, milder_memory
from policy.keys import SEED_EVICTION_POLICY, Annotation, Enforcement, Label, NamespaceLabel
from policy.memory import parse_memory
from policy.objects import Namespace, Pod
from policy.profile import Profile
from policy.selection import PolicySet
from policy.terms import Action, Reference, Statistic, Terms, read_labels, terms_to_labels
from policy.verdicts import Reason
from tests.policy.strategies import label_wishes, policies

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
CREATED = "2026-01-31T02:00:00Z"
LABELS = {
    Label.POLICY: "p",
    Label.CLASS: "batch",
    Label.IDLE_ACTION: "evict",
    Label.IDLE_AFTER: "2h",
    Label.IDLE_UTILIZATION: "5",
    Label.IDLE_STATISTIC: "maximum",
    Label.IDLE_GRACE: "30m",
    Label.IDLE_WARM_UP: "30m",
}


def holding(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    namespace: dict[str, str] | None = None,
    **fields: Any,
) -> Holding:
    """What holds for a pod of the labels above, changed by `labels` (an empty value takes one away)."""
    merged = {key: value for key, value in {**LABELS, **(labels or {})}.items() if value}
    pod = {
        "metadata": {
            "labels": merged,
            "annotations": annotations,
            "creationTimestamp": fields.pop("created", CREATED),
        }
    }
    policy_set = PolicySet.of(
        [{"metadata": {"name": "p"}, "spec": spec if spec is not None else {"idle": {}}}]
    )
    return holding_terms(
        msgspec.convert(pod, Pod),
        policy_set,
        msgspec.convert({"metadata": {"labels": namespace}}, Namespace),
        now=fields.pop("now", NOW),
        **fields,
    )


def spelled(terms: Terms, field: str) -> str:
    """One field of terms as a text."""
    return str(getattr(terms, field))


@pytest.mark.parametrize(
    ("label", "value", "idle", "field", "expected"),
    [
        pytest.param(
            Label.IDLE_ACTION, "evict", {"action": "warn"}, "action", "warn", id="a milder action today holds"
        ),
        pytest.param(
            Label.IDLE_ACTION, "warn", {"action": "stop"}, "action", "warn", id="a stricter one does not"
        ),
        pytest.param(Label.IDLE_AFTER, "2h", {"after": "4h"}, "after", "4h", id="a longer time today holds"),
        pytest.param(Label.IDLE_AFTER, "2h", {"after": "1h"}, "after", "2h", id="a shorter one does not"),
        pytest.param(Label.IDLE_GRACE, "30m", {"grace": "1h"}, "grace", "1h", id="a longer grace holds"),
        pytest.param(Label.IDLE_GRACE, "30m", {"grace": "1m"}, "grace", "30m", id="a shorter one does not"),
        pytest.param(
            Label.IDLE_WARM_UP, "30m", {"warmUp": "1h"}, "warm_up", "1h", id="a longer warm-up holds"
        ),
        pytest.param(
            Label.IDLE_WARM_UP, "30m", {"warmUp": "1m"}, "warm_up", "30m", id="a shorter one does not"
        ),
        pytest.param(
            Label.IDLE_UTILIZATION, "5", {"utilization": 2}, "utilization", "2", id="less utilization holds"
        ),
        pytest.param(Label.IDLE_UTILIZATION, "5", {"utilization": 9}, "utilization", "5", id="more does not"),
        pytest.param(
            Label.IDLE_STATISTIC,
            "average",
            {"statistic": "maximum"},
            "statistic",
            "maximum",
            id="maximum holds",
        ),
        pytest.param(
            Label.IDLE_STATISTIC, "maximum", {"statistic": "average"}, "statistic", "maximum", id="and stays"
        ),
        pytest.param(
            Label.IDLE_STATISTIC, "average", {"statistic": "average"}, "statistic", "average", id="or neither"
        ),
        pytest.param(
            Label.IDLE_MEMORY, "", {"memory": "1Gi"}, "memory", "1Gi", id="a memory limit today holds"
        ),
        pytest.param(Label.IDLE_MEMORY, "1Gi", {}, "memory", "1Gi", id="one that was promised stays"),
        pytest.param(
            Label.IDLE_MEMORY, "1Gi", {"memory": "500Mi"}, "memory", "500Mi", id="a smaller one holds"
        ),
        pytest.param(
            Label.IDLE_MEMORY, "500Mi", {"memory": "1Gi"}, "memory", "500Mi", id="a larger one does not"
        ),
        pytest.param(Label.IDLE_MEMORY, "9pct", {"memory": "5%"}, "memory", "5%", id="percentages compare"),
        pytest.param(
            Label.IDLE_MEMORY, "9pct", {"memory": "1Mi"}, "memory", "9%", id="what cannot be compared stays"
        ),
    ],
)
def test_the_milder_of_label_and_today_holds(
    label: Label, value: str, idle: dict[str, Any], field: str, expected: str
) -> None:
    """Loosening works at once, stricter values reach later pods only."""
    held = holding({label: value}, spec={"idle": idle})
    assert spelled(held.terms, field) == expected
    assert held.observed is None


def test_what_has_no_label_is_todays() -> None:
    """What utilization is of, and whether never touched is idle, are the policy's own at any time."""
    held = holding({}, spec={"idle": {"of": "given", "neverTouched": True}})
    assert (held.terms.of, held.terms.never_touched) == (Reference.GIVEN, True)
    held = holding({})
    assert (held.terms.of, held.terms.never_touched) == (Reference.CARD, False)


@pytest.mark.parametrize(
    ("labels", "asked", "spec", "field", "expected"),
    [
        pytest.param(
            {Label.IDLE_AFTER: "6h"},
            "idle-after",
            {"bounds": {"after": {"max": "8h"}}},
            "after",
            "6h",
            id="within",
        ),
        pytest.param(
            {Label.IDLE_AFTER: "6h"},
            "idle-after",
            {"bounds": {"after": {"max": "4h"}}},
            "after",
            "4h",
            id="a lower maximum",
        ),
        pytest.param({Label.IDLE_AFTER: "6h"}, "idle-after", {}, "after", "2h", id="bounds that went away"),
        pytest.param({Label.IDLE_AFTER: "6h"}, "", {}, "after", "6h", id="what was not asked is not bounded"),
        pytest.param(
            {Label.IDLE_AFTER: "30m"},
            "idle-after",
            {"bounds": {"after": {"min": "1h"}}},
            "after",
            "1h",
            id="a higher minimum",
        ),
        pytest.param(
            {Label.IDLE_GRACE: "3h"},
            "idle-grace",
            {"bounds": {"grace": "1h"}},
            "grace",
            "1h",
            id="a lower grace",
        ),
        pytest.param(
            {Label.IDLE_GRACE: "3h"},
            "idle-grace",
            {"idle": {"grace": "4h"}},
            "grace",
            "4h",
            id="a policy's own longer grace",
        ),
        pytest.param(
            {Label.IDLE_ACTION: "stop"},
            "idle-action",
            {"idle": {"action": "warn"}},
            "action",
            "stop",
            id="stronger",
        ),
        pytest.param(
            {Label.IDLE_ACTION: "stop"}, "", {"idle": {"action": "warn"}}, "action", "warn", id="or not asked"
        ),
        pytest.param(
            {Label.IDLE_ACTION: "exempt"}, "idle-action", {}, "action", "evict", id="an exemption that ended"
        ),
    ],
)
def test_asked_terms_are_held_to_todays_bounds(
    labels: dict[str, str], asked: str, spec: dict[str, Any], field: str, expected: str
) -> None:
    """A stricter bound reaches running pods."""
    assert spelled(holding(labels, {Annotation.ASKED: asked}, spec).terms, field) == expected


@pytest.mark.parametrize(
    ("labels", "spec", "observed"),
    [
        pytest.param({Label.POLICY: ""}, {}, Reason.NO_TERMS, id="a pod without policy is observed"),
        pytest.param({Label.POLICY: "gone"}, {}, Reason.POLICY_MISSING, id="one of a policy that is gone"),
        pytest.param(
            {}, {"idle": {"after": "x"}}, Reason.POLICY_INVALID, id="one of a policy that is invalid"
        ),
        pytest.param({Label.IDLE_AFTER: ""}, {}, Reason.NO_TERMS, id="one that lacks a term"),
        pytest.param({Label.IDLE_AFTER: "x"}, {}, Reason.NO_TERMS, id="one with a malformed term"),
        pytest.param({Label.CLASS: ""}, {}, Reason.NO_TERMS, id="one without class"),
        pytest.param({Label.CLASS: "x"}, {}, Reason.NO_TERMS, id="one of an unknown class"),
        pytest.param({}, {}, None, id="one with everything is not"),
    ],
)
def test_what_cannot_be_derived_is_observed(
    labels: dict[str, str], spec: dict[str, Any], observed: Reason | None
) -> None:
    """Missing or unreadable terms, and a policy that cannot be used, never act."""
    held = holding(labels, spec=spec)
    assert held.observed is observed
    assert held.terms.action is (Action.EVICT if observed is None else Action.OBSERVE)
    assert held.skip is None


def test_malformed_labels_are_problems() -> None:
    """What could not be read is said, by label."""
    held = holding({Label.IDLE_AFTER: "x"})
    assert [problem.path for problem in held.problems] == [Label.IDLE_AFTER]


def test_the_built_in_policy_observes() -> None:
    """A pod that was admitted without a policy of the cluster's is observed."""
    held = holding({Label.POLICY: "built-in"})
    assert (held.terms.action, held.observed) == (Action.OBSERVE, None)


NEVER = {SEED_EVICTION_POLICY: "never"}
EXEMPT = {Label.IDLE_ACTION: "exempt"}


@pytest.mark.parametrize(
    ("labels", "annotations", "exemption", "now", "skip"),
    [
        pytest.param({}, NEVER, "14d", NOW, Reason.EXEMPT, id="the seed annotation exempts at any time"),
        pytest.param({}, NEVER, "never", NOW, None, id="where the policy allows it"),
        pytest.param({}, {SEED_EVICTION_POLICY: "no"}, "14d", NOW, None, id="and it says never"),
        pytest.param(EXEMPT, {}, "14d", NOW, Reason.EXEMPT, id="the label exempts"),
        pytest.param(EXEMPT, {}, "never", NOW, None, id="not once the policy allows it no more"),
        pytest.param(EXEMPT, {}, "10h", NOW, None, id="until creation and the duration"),
        pytest.param(EXEMPT, {}, "10h", NOW - timedelta(seconds=1), Reason.EXEMPT, id="to the second"),
    ],
)
def test_exemptions(
    labels: dict[str, str], annotations: dict[str, str], exemption: str, now: datetime, skip: Reason | None
) -> None:
    """An exemption counts while the policy's bounds allow it."""
    held = holding(labels, annotations, {"bounds": {"exemption": exemption}}, now=now)
    assert held.skip is skip
    assert (held.exempt_until is not None) is (exemption != "never" and "no" not in annotations.values())


def test_an_exemption_without_a_time_of_creation_does_not_count() -> None:
    """What cannot be bounded is not given."""
    assert holding(EXEMPT, spec={"bounds": {"exemption": "1h"}}, created=None).skip is None


@pytest.mark.parametrize(
    ("value", "enforcement", "skip"),
    [
        pytest.param(
            "disabled", Enforcement.DISABLED, Reason.OPTED_OUT, id="a disabled namespace is skipped"
        ),
        pytest.param("dry-run", Enforcement.DRY_RUN, None, id="one in dry-run is judged"),
        pytest.param("nonsense", Enforcement.DRY_RUN, None, id="nonsense is dry-run"),
        pytest.param("enabled", Enforcement.ENABLED, None, id="an enabled one is judged"),
    ],
)
def test_namespaces(value: str, enforcement: Enforcement, skip: Reason | None) -> None:
    """The namespace's label is read each time."""
    held = holding(namespace={NamespaceLabel.ENFORCEMENT: value})
    assert (held.enforcement, held.skip) == (enforcement, skip)


def test_snoozes_are_bounded_by_the_idle_stretch() -> None:
    """The idle stretch comes from the caller, else from the pod's own annotation."""
    annotations = {Annotation.KEEP_UNTIL: "10h", Annotation.IDLE_SINCE: "2026-01-31T10:00:00Z"}
    spec = {"bounds": {"keepUntil": "4h"}}
    assert holding(annotations=annotations, spec=spec).snooze_until == NOW + timedelta(hours=2)
    assert holding(annotations=annotations, spec=spec, idle_since=NOW).snooze_until == NOW + timedelta(
        hours=4
    )
    assert holding().snooze_until is None


@pytest.mark.parametrize(
    ("action", "enforcement", "profile", "dry_run", "expected"),
    [
        pytest.param(
            Action.STOP, Enforcement.ENABLED, Profile.ENFORCE, False, Action.STOP, id="nothing lowers it"
        ),
        pytest.param(
            Action.WARN, Enforcement.ENABLED, Profile.ENFORCE, False, Action.WARN, id="the terms do"
        ),
        pytest.param(
            Action.EVICT, Enforcement.DRY_RUN, Profile.ENFORCE, False, Action.OBSERVE, id="dry-run does"
        ),
        pytest.param(
            Action.EVICT, Enforcement.DISABLED, Profile.ENFORCE, False, Action.OBSERVE, id="opting out does"
        ),
        pytest.param(
            Action.EVICT, Enforcement.ENABLED, Profile.WARN, False, Action.WARN, id="the profile does"
        ),
        pytest.param(
            Action.EVICT, Enforcement.ENABLED, Profile.OBSERVE, False, Action.OBSERVE, id="down to observe"
        ),
        pytest.param(
            Action.EVICT, Enforcement.ENABLED, Profile.ENFORCE, True, Action.OBSERVE, id="the flag does"
        ),
    ],
)
def test_the_ceiling(
    action: Action, enforcement: Enforcement, profile: Profile, dry_run: bool, expected: Action
) -> None:
    """The weakest of the four decides."""
    assert ceiling(action, enforcement, profile, dry_run=dry_run) is expected


def is_as_mild(held: Terms, other: Terms) -> bool:
    """Whether no field of `held` is stricter than the same field of `other`."""
    memory = other.memory is None or (
        held.memory is not None and milder_memory(held.memory, other.memory) == held.memory
    )
    return (
        held.action.rank <= other.action.rank
        and held.after >= other.after
        and held.grace >= other.grace
        and held.warm_up >= other.warm_up
        and held.utilization <= other.utilization
        and (held.statistic is Statistic.MAXIMUM or other.statistic is Statistic.AVERAGE)
        and memory
    )


@given(policies(), policies(), st.sampled_from(PodClass))
def test_milder_is_never_stricter(before: GPUPolicy, today: GPUPolicy, pod_class: PodClass) -> None:
    """For a pod that asked nothing, no field is stricter than at its admission, nor than today."""
    admitted = policy_terms(before, pod_class)
    now = policy_terms(today, pod_class)
    found, _ = read_labels(terms_to_labels(admitted))
    held = held_terms(found, now, today, frozenset())
    assert is_as_mild(held, admitted)
    incomparable = (
        admitted.memory and now.memory and (admitted.memory.bytes is None) is not (now.memory.bytes is None)
    )
    assert is_as_mild(msgspec.structs.replace(held, memory=now.memory) if incomparable else held, now)


@given(policies(), st.sampled_from(PodClass), label_wishes())
def test_under_an_unchanged_policy_the_admitted_terms_hold(
    given_policy: GPUPolicy, pod_class: PodClass, wishes: dict[str, str]
) -> None:
    """Nothing changes for a pod while its policy does not, whatever it asked."""
    admitted = admitted_terms(given_policy, pod_class, wishes, None)
    own = policy_terms(given_policy, pod_class)
    found, _ = read_labels(terms_to_labels(admitted.terms))
    held = held_terms(found, own, given_policy, frozenset(admitted.asked))
    expected = admitted.terms
    if expected.exempt:
        expected = msgspec.structs.replace(expected, exempt=False, action=own.action)
    assert held == expected


def test_memory_of_either_side_is_milder_than_none() -> None:
    """A memory limit protects pods that hold memory, so any is milder than none."""
    limit = parse_memory("1Gi")
    assert milder_memory(None, None) is None
    assert milder_memory(limit, None) == milder_memory(None, limit) == limit


def test_the_policy_parser_is_what_holding_reads() -> None:
    """The current policy is handed on, so that its contact and act window can be used."""
    spec = {"contact": {"text": "ask us"}}
    assert holding(spec=spec).current == parse_policy({"metadata": {"name": "p"}, "spec": spec})
