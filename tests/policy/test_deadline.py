from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.classes import ClassDecision, ControllerDecision, PodClass, Standing
from policy.deadline import (
    POD_MAXIMUM,
    DeadlineDecision,
    DeadlineInput,
    NoDeadline,
    job_deadline,
    kueue_limit,
    pod_deadline,
    template_mark,
)
from policy.gpupolicy import GPUPolicy, parse_policy
from policy.keys import Enforcement
from policy.objects import OwnerReference
from policy.profile import Profile, is_enforcing

DAY = 86_400
JOB = OwnerReference(api_version="batch/v1", kind="Job", controller=True)
SET = OwnerReference(api_version="apps/v1", kind="ReplicaSet", controller=True)
RAY = OwnerReference(api_version="ray.io/v1", kind="RayCluster", controller=True)

BATCH = ClassDecision(PodClass.BATCH, None, "")
SERVING = ClassDecision(PodClass.SERVING, None, "")
INTERACTIVE = ClassDecision(PodClass.INTERACTIVE, None, "")
FORGED = ClassDecision(PodClass.BATCH, None, "", Standing.IGNORED)
OF_JOB = ClassDecision(PodClass.BATCH, JOB, "", Standing.TRUSTED)
OF_SET = ClassDecision(PodClass.SERVING, SET, "", Standing.TRUSTED)
OF_RAY = ClassDecision(PodClass.BATCH, RAY, "", Standing.TRUSTED)
OF_OPERATOR = ClassDecision(PodClass.BATCH, JOB, "", Standing.UNKNOWN)

NOBODY = ControllerDecision(None, Standing.NONE)
CRON = ControllerDecision(
    OwnerReference(api_version="batch/v1", kind="CronJob", controller=True), Standing.TRUSTED
)
OPERATOR = ControllerDecision(JOB, Standing.UNKNOWN)


def policy(deadline: Any = None, batch: Any = None) -> GPUPolicy:
    """A policy with these deadline blocks."""
    spec = {"deadline": deadline, "classes": {"batch": {"deadline": batch}}}
    return parse_policy({"metadata": {"name": "p"}, "spec": spec})


WEEK = policy({})
PER_POD = policy({"jobs": "pod"})
NOT_JOBS = policy({"jobs": "none"})
NONE = policy()


def rule(given_policy: GPUPolicy = WEEK, enforcing: bool = True, **fields: Any) -> DeadlineInput:
    """What the rule looks at."""
    return DeadlineInput(policy=given_policy, enforcing=enforcing, **fields)


@pytest.mark.parametrize(
    ("given_rule", "decision", "value", "seconds"),
    [
        pytest.param(rule(), BATCH, "injected", 7 * DAY, id="a bare batch pod gets the default"),
        pytest.param(rule(), FORGED, "injected", 7 * DAY, id="a forged controller does not save it"),
        pytest.param(rule(spec_seconds=60), BATCH, "kept", None, id="its own within the maximum is kept"),
        pytest.param(rule(spec_seconds=14 * DAY), BATCH, "kept", None, id="the maximum itself is within"),
        pytest.param(rule(spec_seconds=14 * DAY + 1), BATCH, "lowered", 14 * DAY, id="above it is lowered"),
        pytest.param(
            rule(enforcing=False), BATCH, "would-inject", None, id="without enforcement nothing is written"
        ),
        pytest.param(
            rule(enforcing=False, spec_seconds=60), BATCH, "kept", None, id="what is kept needs no writing"
        ),
        pytest.param(
            rule(enforcing=False, spec_seconds=15 * DAY), BATCH, "would-lower", None, id="nor lowered"
        ),
        pytest.param(
            rule(NONE), BATCH, "none: PolicyHasNone", None, id="a policy without deadlines sets none"
        ),
        pytest.param(rule(kueue=True), BATCH, "none: Kueue", None, id="Kueue has its own limit"),
        pytest.param(
            rule(), OF_SET, "none: ControllerOwned", None, id="a ReplicaSet would recreate for ever"
        ),
        pytest.param(
            rule(), OF_RAY, "none: ControllerOwned", None, id="other kinds have fields of their own"
        ),
        pytest.param(
            rule(), OF_OPERATOR, "none: UnknownController", None, id="an unlisted operator is left alone"
        ),
        pytest.param(rule(), OF_JOB, "none: JobUnmarked", None, id="a Job that was not seen is left alone"),
        pytest.param(rule(), SERVING, "none: ClassNotBatch", None, id="a bare serving pod has no deadline"),
        pytest.param(rule(), INTERACTIVE, "none: ClassNotBatch", None, id="nor has a notebook"),
        pytest.param(
            rule(scoped_quota=True), BATCH, "none: ScopedQuota", None, id="a scoped quota is not moved"
        ),
        pytest.param(
            rule(PER_POD), OF_JOB, "injected", 7 * DAY, id="deadlines per pod reach the pods of Jobs"
        ),
        pytest.param(rule(NOT_JOBS), OF_JOB, "none: JobUnmarked", None, id="deadlines of Jobs may be off"),
        pytest.param(
            rule(policy(None, {})), SERVING, "none: PolicyHasNone", None, id="a batch block is batch's alone"
        ),
        pytest.param(rule(policy(None, {})), BATCH, "injected", 7 * DAY, id="and enough for batch"),
        pytest.param(
            rule(spec_seconds=99 * DAY), SERVING, "kept", None, id="an own one elsewhere has no maximum"
        ),
        pytest.param(
            rule(NONE, spec_seconds=99 * DAY), BATCH, "kept", None, id="nor where the policy has none"
        ),
        pytest.param(rule(kueue=True, spec_seconds=60), BATCH, "kept", None, id="nor under Kueue"),
        pytest.param(rule(spec_seconds=0), BATCH, "kept", None, id="0 is the API server's to refuse"),
        pytest.param(rule(spec_seconds=-5), BATCH, "kept", None, id="so is a negative one"),
        pytest.param(rule(spec_seconds=POD_MAXIMUM + 1), BATCH, "kept", None, id="and one beyond 32 bits"),
    ],
)
def test_pods(given_rule: DeadlineInput, decision: ClassDecision, value: str, seconds: int | None) -> None:
    """The deadline of a pod, with its reason."""
    result = pod_deadline(given_rule, decision)
    assert (result.value, result.seconds) == (value, seconds)
    assert (result.warning is not None) is (seconds is not None)


REASONS: list[tuple[NoDeadline, dict[str, Any], dict[str, Any]]] = [
    (NoDeadline.POLICY_HAS_NONE, {"policy": NONE}, {}),
    (NoDeadline.KUEUE, {"kueue": True}, {}),
    (NoDeadline.CONTROLLER_OWNED, {}, {"controller": SET, "standing": Standing.TRUSTED}),
    (NoDeadline.UNKNOWN_CONTROLLER, {}, {"controller": SET, "standing": Standing.UNKNOWN}),
    (NoDeadline.JOB_UNMARKED, {}, {"controller": JOB, "standing": Standing.TRUSTED}),
    (NoDeadline.CLASS_NOT_BATCH, {}, {"pod_class": PodClass.SERVING}),
    (NoDeadline.SCOPED_QUOTA, {"scoped_quota": True}, {}),
]


@pytest.mark.parametrize(
    "first", range(len(REASONS)), ids=[f"{reason} comes before the later ones" for reason, *_ in REASONS]
)
def test_the_first_reason_that_holds_is_given(first: int) -> None:
    """Reasons are given in the design's order, which is the order of the enum."""
    assert [reason for reason, *_ in REASONS] == list(NoDeadline)
    fields: dict[str, Any] = {"policy": WEEK, "enforcing": True}
    decision: dict[str, Any] = {"pod_class": PodClass.BATCH, "controller": None, "reason": ""}
    for _, changed_fields, changed_decision in reversed(REASONS[first:]):
        fields |= changed_fields
        decision |= changed_decision
    result = pod_deadline(DeadlineInput(**fields), ClassDecision(**decision))
    assert result.value == f"none: {REASONS[first][0]}"


@pytest.mark.parametrize(
    ("given_rule", "controller", "value", "seconds"),
    [
        pytest.param(rule(), NOBODY, "injected", 7 * DAY, id="a Job gets the default"),
        pytest.param(rule(), CRON, "injected", 7 * DAY, id="so does a CronJob's Job"),
        pytest.param(rule(), OPERATOR, "none: UnknownController", None, id="an unlisted operator's does not"),
        pytest.param(rule(spec_seconds=60), NOBODY, "kept", None, id="its own is kept"),
        pytest.param(rule(spec_seconds=0), NOBODY, "kept", None, id="0 is valid for Jobs"),
        pytest.param(
            rule(spec_seconds=2**40), NOBODY, "lowered", 14 * DAY, id="one beyond 32 bits is lowered"
        ),
        pytest.param(
            rule(spec_seconds=-1), NOBODY, "kept", None, id="a negative one is the API server's to refuse"
        ),
        pytest.param(
            rule(enforcing=False), NOBODY, "would-inject", None, id="without enforcement nothing is written"
        ),
        pytest.param(
            rule(NONE), NOBODY, "none: PolicyHasNone", None, id="a policy without deadlines sets none"
        ),
        pytest.param(
            rule(NONE, spec_seconds=99 * DAY), NOBODY, "kept", None, id="an own one has no maximum then"
        ),
        pytest.param(rule(NOT_JOBS), NOBODY, "none: PolicyHasNone", None, id="deadlines of Jobs may be off"),
        pytest.param(rule(PER_POD), NOBODY, "none: PolicyHasNone", None, id="or on their pods instead"),
        pytest.param(rule(kueue=True), NOBODY, "none: Kueue", None, id="Kueue has its own limit"),
        pytest.param(
            rule(scoped_quota=True), NOBODY, "none: ScopedQuota", None, id="a scoped quota is not moved"
        ),
        pytest.param(rule(policy({}, {"default": "1h"})), NOBODY, "injected", 3_600, id="a Job is batch"),
    ],
)
def test_jobs(
    given_rule: DeadlineInput, controller: ControllerDecision, value: str, seconds: int | None
) -> None:
    """The deadline of a Job, with its reason."""
    result = job_deadline(given_rule, controller)
    assert (result.value, result.seconds) == (value, seconds)


@pytest.mark.parametrize(
    ("existing", "spec_seconds", "value", "seconds"),
    [
        pytest.param("injected", 7 * DAY, "injected", None, id="injected stands"),
        pytest.param("lowered", 14 * DAY, "lowered", None, id="lowered stands"),
        pytest.param("kept", 60, "kept", None, id="kept stands"),
        pytest.param("injected", None, "injected", 7 * DAY, id="without a deadline it is injected again"),
        pytest.param("injected", 15 * DAY, "lowered", 14 * DAY, id="above the maximum it is lowered"),
        pytest.param("none: Kueue", 60, "kept", None, id="a reason does not stand on a deadline"),
        pytest.param("would-inject", 60, "kept", None, id="nor does what would be"),
        pytest.param("nonsense", None, "injected", 7 * DAY, id="nor nonsense"),
        pytest.param("job", None, "injected", 7 * DAY, id="nor the mark of a Job without a Job"),
    ],
)
def test_existing_annotations(
    existing: str, spec_seconds: int | None, value: str, seconds: int | None
) -> None:
    """On a re-run an annotation stands if the deadline is within the maximum."""
    result = pod_deadline(rule(existing=existing, spec_seconds=spec_seconds), BATCH)
    assert (result.value, result.seconds) == (value, seconds)


@pytest.mark.parametrize(
    ("given_rule", "decision", "value", "effective"),
    [
        pytest.param(
            rule(existing="job", existing_seconds="600"), OF_JOB, "job", 600, id="the Job's mark is repeated"
        ),
        pytest.param(
            rule(NONE, existing="job", existing_seconds="600"), OF_JOB, "job", 600, id="whatever the policy"
        ),
        pytest.param(
            rule(existing="job", existing_seconds="x"), OF_JOB, "job", None, id="unreadable seconds are not"
        ),
        pytest.param(rule(existing="job"), OF_JOB, "job", None, id="nor absent ones"),
        pytest.param(
            rule(existing="job", existing_seconds="600", spec_seconds=60),
            OF_JOB,
            "job",
            600,
            id="the Job's own comes first",
        ),
        pytest.param(
            rule(existing="none: Kueue"), OF_JOB, "none: Kueue", None, id="the Job's reason is repeated"
        ),
        pytest.param(
            rule(existing="none: Kueue", spec_seconds=60), OF_JOB, "kept", 60, id="an own deadline is kept"
        ),
        pytest.param(
            rule(existing="none: Weather"), OF_JOB, "none: JobUnmarked", None, id="another reason is not"
        ),
        pytest.param(
            rule(enforcing=False, existing="would-inject"),
            OF_JOB,
            "would-inject",
            None,
            id="what would be is repeated",
        ),
        pytest.param(
            rule(existing="would-inject"), OF_JOB, "none: JobUnmarked", None, id="but not once it is enforced"
        ),
        pytest.param(
            rule(existing="job", existing_seconds="600"),
            OF_OPERATOR,
            "none: UnknownController",
            None,
            id="not an operator's",
        ),
        pytest.param(rule(existing="job"), OF_SET, "none: ControllerOwned", None, id="nor a ReplicaSet's"),
        pytest.param(
            rule(PER_POD, existing="none: PolicyHasNone"), OF_JOB, "injected", 7 * DAY, id="nor per pod"
        ),
    ],
)
def test_pods_of_marked_jobs(
    given_rule: DeadlineInput, decision: ClassDecision, value: str, effective: int | None
) -> None:
    """A trusted Job's pods carry what the Job's template says."""
    result = pod_deadline(given_rule, decision)
    assert (result.value, result.effective) == (value, effective)


@pytest.mark.parametrize(
    ("decision", "mark"),
    [
        pytest.param(
            DeadlineDecision("injected", 600, "w", 600),
            {"deadline": "job", "deadline-seconds": "600"},
            id="a deadline",
        ),
        pytest.param(
            DeadlineDecision("kept", effective=0), {"deadline": "job", "deadline-seconds": "0"}, id="one of 0"
        ),
        pytest.param(DeadlineDecision("none: Kueue"), {"deadline": "none: Kueue"}, id="a reason"),
        pytest.param(DeadlineDecision("would-inject"), {"deadline": "would-inject"}, id="what would be"),
    ],
)
def test_template_marks(decision: DeadlineDecision, mark: dict[str, str]) -> None:
    """A Job's template says what its pods are to carry."""
    assert template_mark(decision) == mark


@pytest.mark.parametrize(
    ("label", "given_policy", "enforcing", "value", "warned"),
    [
        pytest.param(None, WEEK, True, str(7 * DAY), False, id="absent becomes the default"),
        pytest.param("600", WEEK, True, None, False, id="within the maximum it stays"),
        pytest.param(str(15 * DAY), WEEK, True, str(14 * DAY), True, id="above the maximum it is lowered"),
        pytest.param("0", WEEK, True, str(7 * DAY), True, id="0 is no limit for Kueue"),
        pytest.param("-1", WEEK, True, str(7 * DAY), True, id="nor is a negative one"),
        pytest.param("1h", WEEK, True, str(7 * DAY), True, id="nor is a text"),
        pytest.param("9" * 40, WEEK, True, str(7 * DAY), True, id="nor one beyond 32 bits"),
        pytest.param("\u0661", WEEK, True, str(7 * DAY), True, id="nor other digits"),
        pytest.param(None, WEEK, False, None, False, id="without enforcement nothing is written"),
        pytest.param(None, NONE, True, None, False, id="nor without a deadline"),
    ],
)
def test_kueue(
    label: str | None, given_policy: GPUPolicy, enforcing: bool, value: str | None, warned: bool
) -> None:
    """Kueue's own limit follows the same rule."""
    decision = kueue_limit(label, given_policy, enforcing=enforcing)
    assert decision.value == value
    assert (decision.warning is not None) is warned
    assert len(decision.warning or "") <= 120
    if value is not None:
        assert kueue_limit(value, given_policy, enforcing=enforcing).value is None


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("enforcement", Enforcement)
def test_deadlines_are_written_only_under_enforcement(profile: Profile, enforcement: Enforcement) -> None:
    """Both the administrator's profile and the namespace must be for it."""
    expected = profile is Profile.ENFORCE and enforcement is Enforcement.ENABLED
    assert is_enforcing(profile, enforcement) is expected


DECISIONS = st.sampled_from([BATCH, SERVING, INTERACTIVE, FORGED, OF_JOB, OF_SET, OF_RAY, OF_OPERATOR])
INPUTS = st.builds(
    DeadlineInput,
    policy=st.sampled_from([WEEK, PER_POD, NOT_JOBS, NONE, policy({"default": "1h", "max": "2h"})]),
    enforcing=st.booleans(),
    spec_seconds=st.none() | st.integers(-2, 2**33) | st.integers(-2, 9_000),
    existing=st.none()
    | st.sampled_from(
        ["injected", "kept", "lowered", "job", "would-inject", "would-lower", "none: Kueue", "?"]
    ),
    existing_seconds=st.none() | st.sampled_from(["600", "", "-1", "x", "9" * 30]),
    kueue=st.booleans(),
    scoped_quota=st.booleans(),
)


def run_again(given_rule: DeadlineInput, result: DeadlineDecision) -> DeadlineInput:
    """The rule's input on the object that the result was written to."""
    seconds = given_rule.spec_seconds if result.seconds is None else result.seconds
    return DeadlineInput(
        policy=given_rule.policy,
        enforcing=given_rule.enforcing,
        spec_seconds=seconds,
        existing=result.value,
        existing_seconds=None if result.effective is None else str(result.effective),
        kueue=given_rule.kueue,
        scoped_quota=given_rule.scoped_quota,
    )


@given(INPUTS, DECISIONS, st.sampled_from([NOBODY, CRON, OPERATOR]))
def test_the_rule_is_idempotent_and_bounded(
    given_rule: DeadlineInput, decision: ClassDecision, controller: ControllerDecision
) -> None:
    """On its own result the rule changes nothing; it writes under enforcement only, never above max."""
    for run in (lambda r: pod_deadline(r, decision), lambda r: job_deadline(r, controller)):
        result = run(given_rule)
        again = run(run_again(given_rule, result))
        assert (again.value, again.seconds, again.effective) == (result.value, None, result.effective)
        assert result.seconds is None or given_rule.enforcing
        block = given_rule.policy.deadline_of(PodClass.BATCH)
        if result.seconds is not None:
            assert block is not None
            assert 1 <= result.seconds <= block.max.seconds
            assert given_rule.spec_seconds is None or result.seconds < given_rule.spec_seconds
        assert len(result.warning or "") <= 120
