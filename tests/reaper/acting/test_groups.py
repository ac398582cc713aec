"""Which pods are acted on together: owners, pod groups of gang schedulers, Deployments to be stopped."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from policy.terms import Action
from policy.verdicts import Reason
from reaper.groups import POD_GROUP, Group, groups_of
from reaper.owners import Root
from reaper.podgroups import GROUP_KEYS, pod_group_of
from reaper.subjects import Subject
from tests.reaper.acting.made import ACTIVE, NOON, due_subject, minutes, pod_of, record_of_pod, subject_of
from tests.reaper.acting.planning import DEPLOYMENT, RUN, acted, planned, skips

OTHER = Root("batch/v1", "Job", "team-a", "other", "uid-other")
COSCHEDULING = "scheduling.x-k8s.io/pod-group"


def grouped(subject: Subject, key: str = COSCHEDULING, name: str = "gang") -> Subject:
    """Gives a subject whose pod is in a pod group."""
    chosen = next(row.chosen for row in GROUP_KEYS if row.key == key)
    where = "labels" if chosen else "annotations"
    pod = structs.replace(subject.pod, **{where: {**getattr(subject.pod, where), key: name}})
    return structs.replace(subject, pod=pod)


def names(groups: tuple[Group, ...]) -> list[list[str]]:
    """Gives the pods of each group."""
    return [[member.pod.name for member in group.members] for group in groups]


@pytest.mark.parametrize("row", GROUP_KEYS, ids=lambda row: row.key)
def test_pods_without_owner_that_share_a_pod_group_go_together(row: Any) -> None:
    """Whichever scheduler made it; a busy one keeps the others."""
    members = [grouped(due_subject(name), row.key) for name in "ab"]
    found = planned(*members)
    assert acted(found) == ["a", "b"]
    assert len(found.actions) == 1
    busy = planned(*members, grouped(subject_of("z", ACTIVE), row.key))
    assert acted(busy) == []
    assert set(skips(busy).values()) == {Reason.PEER_NOT_IDLE}


def test_a_pod_group_joins_owners() -> None:
    """All pods of all owners that it reaches."""
    groups = groups_of(
        [grouped(subject_of("a", root=RUN)), subject_of("b", root=RUN), grouped(subject_of("c", root=OTHER))]
    )
    assert names(groups) == [["a", "b", "c"]]
    (group,) = groups
    assert (group.root.kind, group.root.name) == (POD_GROUP, "gang")
    assert group.owner_uids == {RUN.uid, OTHER.uid}


def test_a_group_of_one_owner_is_named_after_it() -> None:
    """The scheduler's name for it tells nobody anything."""
    (group,) = groups_of([grouped(subject_of(name, root=RUN)) for name in "ab"])
    assert group.root == RUN


def test_groups_of_namesakes_in_other_namespaces_are_apart() -> None:
    """Pod groups live in namespaces."""
    here, there = grouped(subject_of("a")), grouped(subject_of("b", namespace="team-b"))
    assert names(groups_of([here, there])) == [["a"], ["b"]]


def test_what_schedulers_give_to_every_pod_does_not_join_replicas() -> None:
    """Volcano and KAI put the replicas of a Deployment into groups too; a group that was chosen counts."""
    volcano = [grouped(subject_of(name, root=DEPLOYMENT), "scheduling.k8s.io/group-name") for name in "ab"]
    assert names(groups_of(volcano)) == [["a"], ["b"]]
    chosen = [grouped(subject_of(name, root=DEPLOYMENT)) for name in "ab"]
    assert names(groups_of(chosen)) == [["a", "b"]]
    assert pod_group_of(pod_of("x")) is None


def test_a_deployment_is_one_group_only_if_it_is_to_be_stopped() -> None:
    """And only if all of its pods that count say so; then no single pod of it is evicted."""
    stop = [subject_of(name, root=DEPLOYMENT, ceiling=Action.STOP) for name in "ab"]
    assert names(groups_of(stop)) == [["a", "b"]]
    mixed = [*stop, subject_of("c", root=DEPLOYMENT)]
    assert names(groups_of(mixed)) == [["a"], ["b"], ["c"]]
    assert {group.action for group in groups_of(mixed)} == {Action.EVICT}
    exempt = subject_of("d", None, root=DEPLOYMENT, ceiling=Action.OBSERVE, skip=Reason.EXEMPT)
    assert names(groups_of([*stop, exempt])) == [["a", "b", "d"]]


def test_a_pod_that_comes_later_belongs_to_its_group() -> None:
    """By owner or by pod group, in the same namespace; not to a replica that stands alone."""
    (group,) = groups_of([grouped(subject_of("a", root=RUN))])
    gang = {COSCHEDULING: "gang"}
    assert group.takes_in(pod_of("b"), RUN)
    assert group.takes_in(pod_of("b", labels=gang), OTHER)
    assert not group.takes_in(pod_of("b", labels={COSCHEDULING: "x"}), OTHER)
    assert not group.takes_in(pod_of("b", labels=gang, namespace="team-b"), OTHER)
    (alone,) = groups_of([subject_of("a", root=DEPLOYMENT)])
    assert not alone.takes_in(pod_of("b"), DEPLOYMENT)


def test_what_was_done_to_one_owner_of_a_group_counts_for_all() -> None:
    """Once a day, whatever the group is called by then."""
    record = record_of_pod("former", owner_uid=OTHER.uid, at=NOON - minutes(60))
    members = [grouped(due_subject("a", root=RUN)), grouped(due_subject("b", root=OTHER))]
    found = planned(*members, records=[record])
    assert acted(found) == []
    assert set(skips(found).values()) == {Reason.OWNER_RECREATES}
