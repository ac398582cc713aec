"""Says of each policy where it holds and what its pods do; must not know how its status is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from policy.asking import policy_terms
from policy.classes import PodClass
from policy.objects import Namespace
from policy.selection import PolicySet, select
from policy.spec import GPUPolicy
from policy.terms import Action
from policy.verdicts import VerdictKind
from reaper.subjects import Subject

LONGEST_PROBLEM = 1024
MOST_PROBLEMS = 100


def standings(
    policies: PolicySet, namespaces: Collection[Namespace], subjects: Collection[Subject]
) -> dict[str, dict[str, Any]]:
    """Gives the status of every policy by its name, the invalid ones included."""
    holds = Counter(
        select(policies, one.metadata.name or "", one.metadata.labels).policy.name for one in namespaces
    )
    pods: Counter[tuple[str, str]] = Counter()
    for subject in subjects:
        kind = subject.verdict.kind if subject.verdict and subject.skip is None else VerdictKind.SKIPPED
        pods[subject.policy.name, kind.value.lower()] += 1
    found: dict[str, dict[str, Any]] = {}
    for policy in policies.valid:
        counts = {kind.value.lower(): pods[policy.name, kind.value.lower()] for kind in VerdictKind}
        found[policy.name] = {
            "observedGeneration": policy.generation,
            "namespaces": holds[policy.name],
            "pods": counts,
            "problems": remarks(policy),
        }
    for name, broken in policies.invalid.items():
        problems = [str(error)[:LONGEST_PROBLEM] for error in broken.errors[:MOST_PROBLEMS]]
        found[name] = {"namespaces": 0, "pods": None, "problems": problems}
    return found


def remarks(policy: GPUPolicy) -> list[str]:
    """Gives what an administrator should think about again."""
    acts = policy_terms(policy, PodClass.SERVING).action.rank > Action.WARN.rank
    if acts and policy.classes.serving.action is None:
        return ["spec.classes.serving.idle: is not set, so that model servers are acted on like all others"]
    return []
