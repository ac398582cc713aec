"""What of the cluster itself gets in the way: scoped quotas, open GPU nodes, lagging quotas; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Level, fine, some
from cli.doctor.objects import Node
from policy.counting import counted
from policy.errors import FormatError
from policy.quantities import parse_quantity
from policy.resourcequota import is_scoped
from policy.resources import ResourceTable

KEEPING_OFF: Final = frozenset({"NoSchedule", "NoExecute"})
BY_KUBERNETES: Final = "node.kubernetes.io/"
"""Taints that come and go with a node's state."""


def check(facts: Facts) -> Iterator[Finding]:
    """Goes through quotas of both kinds, and nodes."""
    yield from _scoped(facts)
    yield from _nodes(facts)
    yield from _quotas(facts)


def _scoped(facts: Facts) -> Iterator[Finding]:
    if facts.resource_quotas.value is None:
        return
    table = facts.settings.table()
    scoped = [
        f"{one.metadata.namespace}/{one.metadata.name}"
        for one in facts.resource_quotas.value
        if is_scoped(one, table)
    ]
    if scoped:
        yield Finding(
            "cluster.scoped-quotas",
            Level.WARNING,
            "ResourceQuotas with the scope Terminating or NotTerminating count GPUs",
            "a deadline would move a pod from the one to the other, so that pods get none there: ScopedQuota",
            "count GPUs in a ResourceQuota without such scopes, or in a GPUQuota (docs/quota.md)",
            some(scoped),
        )
    else:
        yield fine("cluster.scoped-quotas", "no ResourceQuota counts GPUs by deadlines")


def _nodes(facts: Facts) -> Iterator[Finding]:
    if facts.nodes.value is None:
        return
    table = facts.settings.table()
    gpu = [one for one in facts.nodes.value if _has_gpus(one, table)]
    untainted = [one.metadata.name or "" for one in gpu if not _is_tainted(one)]
    others = [
        one
        for one in facts.nodes.value
        if one not in gpu and not _is_tainted(one) and not one.spec.unschedulable
    ]
    if untainted:
        # Where all nodes have GPUs there is no other place for pods without.
        yield Finding(
            "cluster.taints",
            Level.WARNING if others else Level.INFO,
            "GPU nodes have no taint",
            "pods without GPUs fill their CPUs and memory, and GPUs stand idle that nobody can use",
            "kubectl taint node NODE nvidia.com/gpu=present:NoSchedule, and tolerations in policies",
            some(untainted),
        )
    elif gpu:
        yield fine("cluster.taints", "every GPU node keeps other pods off by a taint")


def _has_gpus(node: Node, table: ResourceTable) -> bool:
    for name, amount in (node.status.allocatable or {}).items():
        try:
            if amount is not None and table.rule_of(name) is not None and parse_quantity(amount) > 0:
                return True
        except FormatError:
            continue
    return False


def _is_tainted(node: Node) -> bool:
    taints = node.spec.taints or ()
    return any(one.effect in KEEPING_OFF and not one.key.startswith(BY_KUBERNETES) for one in taints)


def _quotas(facts: Facts) -> Iterator[Finding]:
    stored = facts.quotas.value
    if stored is None:
        return
    broken = {one.name: one.problem for one in stored if one.problem}
    for name, problem in broken.items():
        yield Finding(
            "cluster.quotas-valid",
            Level.ERROR,
            f"GPUQuota {name}: {problem}",
            "GPU pods in its namespaces are made to wait until it can be read",
            "correct it; the schema of this version refuses what cannot be read",
            (name,),
        )
    readable = [one for one in stored if not one.problem]
    behind = [one.name for one in readable if one.ledger.observed_generation < one.quota.generation]
    if behind:
        yield Finding(
            "cluster.quotas-counted",
            Level.WARNING,
            "GPUQuotas have changed and have not been counted since",
            "GPU pods in their namespaces are asked to try again",
            "if it stays so: quota.enabled=true, and look at the logs of gpu-tenure-quota",
            some(behind),
        )
    over = [f"{one.name}: {subject}" for one in readable for subject in one.ledger.over]
    if over:
        yield Finding(
            "cluster.quotas-over",
            Level.WARNING,
            "GPUQuotas are exceeded",
            "they were lowered, or pods came while nothing could refuse them; nothing is stopped for it",
            "kubectl get gpuquotas; raise the limit, or ask the holders in its status",
            some(over),
        )
    if stored and not (broken or behind or over):
        are = "is" if len(stored) == 1 else "are"
        what = f"{counted(len(stored), 'GPUQuota')} {are} counted, none is exceeded"
        yield fine("cluster.quotas", what)
