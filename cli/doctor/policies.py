"""Whether GPUPolicies are valid, chosen by what nobody may forge, and do what their author means; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Level, fine, some
from policy.keys import (
    DEFAULT_EXCLUDED_NAMESPACES,
    NAMESPACE_NAME,
    Enforcement,
    NamespaceLabel,
    enforcement_of,
)
from policy.profile import Profile
from policy.selection import PolicySet, select
from policy.spec import GPUPolicy, Selector
from reaper.standing import remarks

GUARDED: Final = frozenset(
    {NAMESPACE_NAME, NamespaceLabel.POLICY, NamespaceLabel.QUOTA, NamespaceLabel.ENFORCEMENT}
)
"""Labels of namespaces that only administrators can change."""
UNGUARDED: Final = "whoever may change the labels of a namespace chooses what holds in it"
BY_GUARDED: Final = (
    "select by gpu-tenure.io/policy, gpu-tenure.io/quota or kubernetes.io/metadata.name, which are guarded"
)


def check(facts: Facts) -> Iterator[Finding]:
    """Goes through policies, then through the namespaces that they are for."""
    if facts.policies.value is not None:
        policies = facts.policies.value
        yield from _invalid(policies)
        yield from _selectors(facts, policies)
        for policy in policies.valid:
            yield from _remarks(policy, facts.profile)
        yield from _priority_classes(facts, policies)
        yield from _without(facts, policies)
    yield from _excluded(facts)


def _invalid(policies: PolicySet) -> Iterator[Finding]:
    for name, broken in policies.invalid.items():
        yield Finding(
            "policies.valid",
            Level.ERROR,
            f"GPUPolicy {name} is invalid",
            "where it would hold nothing is acted on, and pods get no deadline",
            "correct these fields; gpu-tenure explain --policy FILE checks it before you apply it",
            some(map(str, broken.errors)),
        )
    if not policies.invalid:
        yield fine("policies.valid", f"all GPUPolicies are valid: {len(policies.valid)}")


def _selectors(facts: Facts, policies: PolicySet) -> Iterator[Finding]:
    chosen = {f"GPUPolicy {one.name}": unguarded(one.namespace_selector) for one in policies.valid}
    stored = facts.quotas.value or ()
    chosen |= {f"GPUQuota {one.name}": unguarded(one.quota.namespace_selector) for one in stored}
    loose = {name: keys for name, keys in chosen.items() if keys}
    for name, keys in loose.items():
        what = f"{name} selects namespaces by labels that no guard protects"
        yield Finding("policies.selectors", Level.WARNING, what, UNGUARDED, BY_GUARDED, some(keys))
    if not loose:
        yield fine("policies.selectors", "namespaces are selected by guarded labels only")


def unguarded(selector: Selector | None) -> frozenset[str]:
    """Gives the keys of a selector that anybody may set who may change the namespace."""
    if selector is None:
        return frozenset()
    keys = {*selector.match_labels, *(one.key for one in selector.match_expressions)}
    return frozenset(keys - GUARDED)


def _remarks(policy: GPUPolicy, profile: Profile) -> Iterator[Finding]:
    name = (policy.name,)
    for remark in remarks(policy):
        what = f"GPUPolicy {policy.name}: {remark}"
        why = "a model server that nobody asks anything is idle by its nature, and is taken away"
        todo = "say so if it is meant, or add classes: {serving: {idle: {action: warn, after: 24h}}}"
        yield Finding("policies.serving", Level.WARNING, what, why, todo, name)
    allowed = policy.images.allowed
    if allowed is not None and not allowed:
        what = f"GPUPolicy {policy.name} allows no image at all"
        yield Finding(
            "policies.images",
            Level.WARNING,
            what,
            "no GPU pod can be created",
            "list registries in images.allowed, or leave it out",
            name,
        )
    demands = [
        *(["images.allowed"] if allowed is not None else []),
        *(["requireUse"] if policy.require_use else []),
    ]
    if demands and profile is not Profile.ENFORCE:
        what = f"GPUPolicy {policy.name} demands {' and '.join(demands)}, which only warns"
        why = f"under the profile {profile.value} nothing is refused"
        yield Finding("policies.demands", Level.INFO, what, why, "profile=enforce refuses", name)


def _priority_classes(facts: Facts, policies: PolicySet) -> Iterator[Finding]:
    if facts.priority_classes.value is None:
        return
    known = {one.name for one in facts.priority_classes.value}
    for policy in policies.valid:
        wanted = policy.scheduling.priority_class_name
        if wanted and wanted not in known:
            yield Finding(
                "policies.priority-classes",
                Level.WARNING,
                f"GPUPolicy {policy.name} gives the priority class {wanted}, which does not exist",
                "pods are admitted without it",
                f"create the PriorityClass {wanted}, or take it out of scheduling",
                (policy.name,),
            )


def _without(facts: Facts, policies: PolicySet) -> Iterator[Finding]:
    """Namespaces whose GPU pods no policy is for."""
    if facts.pods.value is None or facts.namespaces.value is None:
        return
    holding = {one.namespace for one in facts.pods.value if not one.finished}
    left_alone = set(facts.excluded)
    bare = [
        name
        for one in facts.namespaces.value
        if (name := one.metadata.name or "") in holding - left_alone
        and enforcement_of(one.metadata.labels) is not Enforcement.DISABLED
        and not _would_select(policies, name, one.metadata.labels)
    ]
    if bare:
        yield Finding(
            "policies.coverage",
            Level.WARNING,
            "namespaces with GPU pods have no GPUPolicy",
            "the built-in one holds: it observes, and gives no deadline",
            "create one without namespaceSelector, such as manifests/examples/policies/default.yaml",
            some(bare),
        )
    else:
        yield fine("policies.coverage", "every namespace with GPU pods has a GPUPolicy")


def _would_select(policies: PolicySet, namespace: str, labels: dict[str, str] | None) -> bool:
    """An invalid policy that would hold is told apart."""
    found = select(policies, namespace, labels)
    return not found.policy.is_built_in or found.problem is not None


def _excluded(facts: Facts) -> Iterator[Finding]:
    if facts.namespaces.value is None:
        return
    known = {one.metadata.name for one in facts.namespaces.value}
    # The default list names what many clusters do not have.
    usual = {*DEFAULT_EXCLUDED_NAMESPACES, facts.namespace}
    missing = [name for name in facts.excluded if name not in known and name not in usual]
    if missing:
        yield Finding(
            "policies.excluded",
            Level.WARNING,
            "excluded namespaces do not exist",
            "a misspelt one is not excluded: its pods are judged like all others",
            "correct excludedNamespaces",
            some(missing),
        )
