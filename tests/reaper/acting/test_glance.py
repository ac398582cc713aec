"""Pods at a glance: what is known of them with one's own rights, and without a judge."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from policy.objects import Namespace, ObjectMeta
from policy.selection import PolicySet
from policy.terms import Action
from policy.verdicts import Reason
from reaper.glance import Readable, exempt_until, glanced
from reaper.owners import root_of_pod
from reaper.pods import GpuPod
from reaper.subjects import Subject
from tests.reaper.acting.made import (
    ENFORCED,
    LABELS,
    NOON,
    POLICIES,
    TEAM_A,
    pod_of,
)

READABLE = Readable(policies=POLICIES, namespaces={"team-a": TEAM_A}, switches=ENFORCED)


def look_at(pod: GpuPod, **changed: Any) -> Subject:
    """Glances at a pod that stands alone."""
    return glanced(pod, root_of_pod(pod), structs.replace(READABLE, **changed), NOON)


def test_without_policies_labels_count() -> None:
    """Nobody here knows what the policy says today; a label says what the pod was admitted with."""
    pod = pod_of("a")
    assert look_at(pod).ceiling is Action.EVICT
    bare = look_at(pod, policies=None)
    assert (bare.ceiling, bare.skip, bare.terms) == (Action.EVICT, None, look_at(pod).terms)
    dry = Namespace(ObjectMeta(name="team-a", labels={"gpu-tenure.io/enforcement": "dry-run"}))
    found = look_at(pod, policies=None, namespaces={"team-a": dry})
    assert (found.ceiling, found.skip) == (Action.OBSERVE, Reason.DRY_RUN)
    assert look_at(pod_of("a", labels={}), policies=None).skip is Reason.NO_TERMS
    asked = pod_of("a", labels={**LABELS, "gpu-tenure.io/idle-action": "exempt"})
    assert look_at(asked, policies=None).skip is Reason.EXEMPT


@pytest.mark.parametrize("policies", [POLICIES, None], ids=["policies are readable", "labels count"])
def test_a_snooze_is_as_long_as_the_installation_allows(policies: PolicySet | None) -> None:
    """And not as long as by default."""
    pod = pod_of("a", annotations={"gpu-tenure.io/keep-until": "20h"})
    assert look_at(pod, policies=policies).snooze.until == NOON + timedelta(hours=20)
    short = look_at(pod, policies=policies, snooze_seconds=3600)
    assert short.snooze.until == NOON + timedelta(hours=1)


def test_a_dry_run_lets_nothing_happen() -> None:
    """Whatever the terms say."""
    found = look_at(pod_of("a"), switches=structs.replace(ENFORCED, dry_run=True))
    assert found.ceiling is Action.OBSERVE


def test_exemptions_have_an_end() -> None:
    """By the policy, counted from the pod's creation; unknown where the policy is not readable."""
    pod = pod_of(
        "a",
        labels={**LABELS, "gpu-tenure.io/idle-action": "exempt"},
        annotations={"gpu-tenure.io/asked": "idle-action"},
    )
    assert exempt_until(pod, POLICIES) == NOON + timedelta(days=29)
    assert exempt_until(pod, None) is None
    assert exempt_until(pod_of("a"), POLICIES) is None
