"""What holds for every plan, whatever the cluster looks like."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.snooze import Snooze
from policy.terms import Action
from policy.verdicts import Reason, VerdictKind
from reaper.brakes import Brake
from reaper.budget import hourly_devices
from reaper.groups import groups_of
from reaper.limits import Limits
from reaper.marks import Mark
from reaper.owners import Root
from reaper.pause import Pause
from reaper.plan import plan
from reaper.records import Phase, devices_taken
from reaper.situation import Situation
from reaper.steps import Change
from reaper.stopways import BUILT_IN, Ways
from reaper.subjects import Subject
from tests.reaper.acting.made import AFTER, GRACE, NOON, minutes, record_of_pod, subject_of, verdict_of

OWNERS = [Root("batch/v1", "Job", "", f"job-{number}", f"uid-job-{number}") for number in range(4)] + [
    Root("apps/v1", "Deployment", "", f"web-{number}", f"uid-web-{number}") for number in range(2)
]
SPANS = st.integers(-4 * AFTER, 4 * AFTER).map(lambda seconds: timedelta(seconds=seconds))
MARKS = st.none() | st.builds(
    Mark,
    idle_since=SPANS.map(lambda span: NOON - abs(span)),
    warned=st.booleans(),
    reclaim_at=st.none() | SPANS.map(lambda span: NOON + span),
)
VERDICTS = st.builds(
    verdict_of,
    st.sampled_from([VerdictKind.ACTIVE, VerdictKind.UNKNOWN, *[VerdictKind.IDLE] * 4]),
    idle_since=st.integers(AFTER, 4 * AFTER).map(lambda seconds: NOON - timedelta(seconds=seconds)),
)
SKIPS = st.sampled_from([None] * 12 + [Reason.EXEMPT, Reason.DRY_RUN, Reason.TERMINATING, Reason.FINISHED])


@st.composite
def clusters(draw: st.DrawFn) -> list[Subject]:
    """A cluster of up to twenty pods of a few owners in two namespaces."""
    subjects = []
    for number in range(draw(st.integers(0, 20))):
        namespace = draw(st.sampled_from(["team-a", "team-b"]))
        owner = draw(st.none() | st.sampled_from(OWNERS))
        root = owner and Root(
            owner.api_version, owner.kind, namespace, owner.name, f"{owner.uid}-{namespace}"
        )
        subject = subject_of(
            f"p{number}",
            draw(VERDICTS),
            mark=draw(MARKS),
            root=root,
            namespace=namespace,
            devices=draw(st.integers(1, 8)),
            ceiling=draw(st.sampled_from([*Action, *[Action.EVICT] * 4])),
            streak=draw(st.integers(0, 3)),
            skip=draw(SKIPS),
            snooze=draw(st.sampled_from([Snooze()] * 6 + [Snooze(NOON + minutes(5))])),
        )
        subjects.append(subject)
    return subjects


@st.composite
def records(draw: st.DrawFn) -> list[Any]:
    """Records of pods of the cluster and of pods that went."""
    found = []
    for number in draw(st.lists(st.integers(0, 30), unique=True, max_size=8)):
        namespace = draw(st.sampled_from(["team-a", "team-b"]))
        found.append(
            record_of_pod(
                f"uid-{namespace}-p{number}",
                owner_uid=f"{draw(st.sampled_from(OWNERS)).uid}-{namespace}",
                phase=draw(st.sampled_from(list(Phase))),
                at=NOON - timedelta(seconds=draw(st.integers(0, 100_000))),
                devices=draw(st.integers(1, 8)),
            )
        )
    return found


SITUATIONS = st.builds(
    Situation,
    pause=st.sampled_from([Pause(paused=False)] * 8 + [Pause(paused=True, reason="x")]),
    brake=st.sampled_from([Brake()] * 8 + [Brake(engaged_at=NOON, sentence="x")]),
    once=st.booleans(),
    ways=st.sampled_from([Ways(), Ways(BUILT_IN)]),
    judged_devices=st.integers(0, 200),
)
LIMITS = st.builds(
    Limits,
    actions_per_cycle=st.integers(1, 6),
    actions_per_namespace=st.integers(1, 3),
    device_percent=st.integers(1, 100),
)


@settings(max_examples=120, deadline=None)
@given(clusters(), records(), SITUATIONS, LIMITS)
def test_no_limit_is_ever_exceeded(
    subjects: list[Subject], earlier: list[Any], situation: Situation, limits: Limits
) -> None:
    """Per cycle, namespace, owner and hour; never while anything holds; never twice for one UID."""
    found = plan(subjects, earlier, situation, limits, NOON)
    assert not (found.actions and found.holds)
    assert len(found.actions) <= limits.actions_per_cycle
    per_namespace = Counter(group.root.namespace for group in found.actions)
    assert max(per_namespace.values(), default=0) <= limits.actions_per_namespace
    per_owner = Counter(group.root.uid for group in found.actions)
    assert max(per_owner.values(), default=0) <= limits.actions_per_owner
    uids = [member.pod.uid for group in found.actions for member in group.members]
    assert len(uids) == len(set(uids))
    assert not set(uids) & {record.pod_uid for record in earlier if record.phase is Phase.ACCEPTED}
    if found.actions:
        present = {one.pod.uid for one in subjects}
        since = NOON - timedelta(seconds=limits.device_seconds)
        spent = devices_taken([one for one in earlier if one.pod_uid not in present], since)
        taken = sum(group.devices for group in found.actions)
        groups = groups_of(subjects)
        assert spent + taken <= hourly_devices(groups, earlier, situation.judged_devices, limits, NOON)


@settings(max_examples=120, deadline=None)
@given(clusters(), records(), SITUATIONS, LIMITS)
def test_owners_go_whole_and_are_stopped_only_whole(
    subjects: list[Subject], earlier: list[Any], situation: Situation, limits: Limits
) -> None:
    """No pod of theirs that holds devices is left behind, and only what a way is known for is stopped."""
    for group in plan(subjects, earlier, situation, limits, NOON).actions:
        theirs = {one.pod.uid for one in subjects if one.root.uid == group.root.uid and one.holds_devices}
        if group.action is Action.STOP:
            assert situation.ways.of(group.root.group, group.root.kind) is not None
        if group.action is Action.STOP or not group.root.replaceable:
            assert theirs == group.uids
        else:
            assert len(group.members) == 1


@settings(max_examples=120, deadline=None)
@given(clusters(), records(), SITUATIONS, LIMITS)
def test_nobody_is_acted_on_without_a_due_warning_of_this_stretch(
    subjects: list[Subject], earlier: list[Any], situation: Situation, limits: Limits
) -> None:
    """Idle, not skipped, not snoozed, allowed to be acted on, warned, in time, and without a gap since."""
    for group in plan(subjects, earlier, situation, limits, NOON).actions:
        for member in group.members:
            assert member.idle
            assert member.verdict is not None
            assert member.verdict.idle_since is not None
            assert member.skip is None
            assert member.snooze.until is None
            assert member.ceiling.rank >= group.action.rank > Action.WARN.rank
            mark = member.mark
            assert mark is not None
            assert mark.warned
            assert mark.reclaim_at is not None
            assert mark.reclaim_at <= NOON
            assert mark.idle_since + timedelta(seconds=AFTER + GRACE) <= mark.reclaim_at
            assert member.verdict.idle_since <= mark.idle_since + timedelta(seconds=AFTER)


@settings(max_examples=120, deadline=None)
@given(clusters(), records(), SITUATIONS, LIMITS)
def test_a_run_is_acted_on_whole_and_only_if_all_of_it_is_idle(
    subjects: list[Subject], earlier: list[Any], situation: Situation, limits: Limits
) -> None:
    """No pod that holds devices for the same owner is left behind or is anything but Idle."""
    for group in plan(subjects, earlier, situation, limits, NOON).actions:
        if not group.root.replaceable:
            peers = {one.pod.uid for one in subjects if one.root.uid == group.root.uid and one.holds_devices}
            assert peers == set(group.uids)


@settings(max_examples=80, deadline=None)
@given(clusters(), records(), SITUATIONS, LIMITS, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    subjects: list[Subject],
    earlier: list[Any],
    situation: Situation,
    limits: Limits,
    rng: random.Random,
) -> None:
    """The same cluster, listed in another order, gives the same plan."""
    shuffled, mixed = list(subjects), list(earlier)
    rng.shuffle(shuffled)
    rng.shuffle(mixed)
    first = plan(subjects, earlier, situation, limits, NOON)
    assert plan(shuffled, mixed, situation, limits, NOON) == first


@settings(max_examples=80, deadline=None)
@given(clusters(), records(), SITUATIONS, LIMITS)
def test_every_idle_pod_is_acted_on_or_has_a_reason(
    subjects: list[Subject], earlier: list[Any], situation: Situation, limits: Limits
) -> None:
    """Exactly one of both; a pod that is neither Idle nor skipped has none."""
    found = plan(subjects, earlier, situation, limits, NOON)
    acted = {member.pod.uid for group in found.actions for member in group.members}
    skipped = Counter(skip.subject.pod.uid for skip in found.skips)
    for one in subjects:
        expected = 1 if (one.idle or one.skip is not None) and one.pod.uid not in acted else 0
        assert skipped[one.pod.uid] == expected


@settings(max_examples=80, deadline=None)
@given(clusters(), records(), SITUATIONS, LIMITS)
def test_a_frozen_cycle_changes_no_warning(
    subjects: list[Subject], earlier: list[Any], situation: Situation, limits: Limits
) -> None:
    """Under pause and brake nothing but sightings is written."""
    found = plan(subjects, earlier, situation, limits, NOON)
    if any(hold.freezes for hold in found.holds):
        assert {step.change for step in found.steps} <= {Change.SIGHT}
        assert found.keeps == ()
