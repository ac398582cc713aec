"""What can be wrong with policies and the cluster: facts, check, level, and words of its todo."""

from __future__ import annotations

from typing import Any

from cli.doctor.facts import Facts, Seen
from cli.doctor.objects import Component
from tests.cli.doctor.healthy import (
    COMPONENTS,
    component,
    healthy,
    node,
    policy,
    resource_quota,
    stored,
    typed,
    with_switches,
)
from tests.cli.doctor.wrong import (
    ERROR,
    INFO,
    UNKNOWN,
    WARNING,
    Case,
    labels,
    policies,
)


def mounting(volume: str, secrets: dict[str, Seen[Any]]) -> Facts:
    """A reaper with a volume from the Secret `thanos`."""
    volumes = [{"name": volume, "secret": {"secretName": "thanos"}}]
    template = {"spec": {"containers": [{"env": []}], "volumes": volumes}}
    reaper = typed(
        Component, {"metadata": {"name": "gpu-tenure-reaper"}, "spec": {"replicas": 2, "template": template}}
    )
    others = (component(one) for one in COMPONENTS if one != "reaper")
    return healthy(deployments=Seen((reaper, *others)), secrets=secrets)


OF_POLICIES: list[Case] = [
    (
        "an invalid policy",
        healthy(policies=policies(policy(idle={"after": "soon"}))),
        "policies.valid",
        ERROR,
        "explain --policy",
    ),
    (
        "a policy by an unguarded label",
        healthy(policies=policies(policy(), policy("ml", **labels(team="ml")))),
        "policies.selectors",
        WARNING,
        "gpu-tenure.io/policy",
    ),
    (
        "a quota by an unguarded label",
        healthy(quotas=Seen((stored(spec={**labels(team="a"), "hard": {"devices": 1}}),))),
        "policies.selectors",
        WARNING,
        "gpu-tenure.io/quota",
    ),
    (
        "serving is not named",
        healthy(policies=policies(policy(classes={}))),
        "policies.serving",
        WARNING,
        "classes: {serving",
    ),
    (
        "no image is allowed",
        healthy(policies=policies(policy(images={"allowed": []}))),
        "policies.images",
        WARNING,
        "images.allowed",
    ),
    (
        "a demand that only warns",
        healthy(policies=policies(policy(requireUse=True))),
        "policies.demands",
        INFO,
        "profile=enforce",
    ),
    (
        "no such priority class",
        healthy(policies=policies(policy(scheduling={"priorityClassName": "gpu"}))),
        "policies.priority-classes",
        WARNING,
        "create the PriorityClass gpu",
    ),
    (
        "a namespace without a policy",
        healthy(policies=policies(policy(**labels(**{"gpu-tenure.io/policy": "x"})))),
        "policies.coverage",
        WARNING,
        "without namespaceSelector",
    ),
    (
        "a misspelt excluded namespace",
        with_switches(excluded_namespaces=("kubesystem",)),
        "policies.excluded",
        WARNING,
        "excludedNamespaces",
    ),
]
OF_THE_CLUSTER: list[Case] = [
    (
        "a scoped quota",
        healthy(resource_quotas=Seen((resource_quota("Terminating"),))),
        "cluster.scoped-quotas",
        WARNING,
        "GPUQuota",
    ),
    (
        "an open GPU node",
        healthy(nodes=Seen((node("g", tainted=False), node("c", gpus="", tainted=False)))),
        "cluster.taints",
        WARNING,
        "kubectl taint node",
    ),
    (
        "a taint of Kubernetes' own",
        healthy(
            nodes=Seen((node("g", key="node.kubernetes.io/not-ready"), node("c", gpus="", tainted=False)))
        ),
        "cluster.taints",
        WARNING,
        "kubectl taint node",
    ),
    (
        "GPU nodes alone",
        healthy(nodes=Seen((node("g", tainted=False),))),
        "cluster.taints",
        INFO,
        "kubectl taint node",
    ),
    (
        "an unreadable quota",
        healthy(quotas=Seen((stored(spec={"hard": {}}),))),
        "cluster.quotas-valid",
        ERROR,
        "correct it",
    ),
    (
        "a quota behind",
        healthy(quotas=Seen((stored(generation=2),))),
        "cluster.quotas-counted",
        WARNING,
        "quota.enabled",
    ),
    (
        "a quota exceeded",
        healthy(quotas=Seen((stored(over=["*"]),))),
        "cluster.quotas-over",
        WARNING,
        "raise the limit",
    ),
    (
        "Alertmanager is away",
        healthy(alertmanagers={"http://a": "refused"}),
        "alerting.alertmanager",
        UNKNOWN,
        "alerts.md",
    ),
    ("no Alertmanager", healthy(alertmanagers={}), "alerting.alertmanager", INFO, "reaper.alertmanager.urls"),
    (
        "no token Secret",
        healthy(secrets={"receiver": Seen()}),
        "alerting.receiver-secret",
        ERROR,
        "create secret",
    ),
    (
        "no Secret for Prometheus",
        mounting("prometheus", {"thanos": Seen()}),
        "alerting.prometheus-secret",
        ERROR,
        "reaper.prometheus.keys",
    ),
    (
        "no Secret for Alertmanager",
        mounting("alertmanager", {"thanos": Seen()}),
        "alerting.alertmanager-secret",
        ERROR,
        "reaper.alertmanager.keys",
    ),
    (
        "a token Secret without the key",
        healthy(secrets={"receiver": Seen(frozenset({"x"}))}),
        "alerting.receiver-secret",
        ERROR,
        "key `token`",
    ),
]
