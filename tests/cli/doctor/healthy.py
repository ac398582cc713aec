"""The facts of an installation where nothing is wrong, and parts of it to be changed by tests."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from certs.inspection import Inspection
from certs.issue import issue_ca
from cli.doctor.admission_objects import Binding, Configuration, EndpointSlice, Guard
from cli.doctor.examination import examine
from cli.doctor.facts import Canary, Facts, Family, MetricFacts, Seen
from cli.doctor.findings import Finding
from cli.doctor.guards import BYPASS, PREFIX, actions, wanted
from cli.doctor.objects import Component, Definition, Lease, Named, Node
from policy.durations import format_time
from policy.objects import Namespace
from policy.profile import Profile
from policy.resourcequota import ResourceQuota
from policy.selection import PolicySet
from reaper.criteria import JudgeSettings
from reaper.dossier import given_terms, judge_all
from reaper.exporters import SOURCES
from reaper.observation import Observation
from reaper.pause import Pause
from reaper.pods import GpuPod
from reaper.settings import ReaperSettings
from reaper.signals import Board, Device, Signals
from reaper.switches import Switches
from runtime.quotas import StoredQuota, read_stored
from tests.reaper.judging.made import device, reading
from tests.reaper.judging.past import NOW, gpu

HOUR = 3600
COMPONENTS = ("webhook", "reaper", "quota", "certs")
KINDS = ("gpupolicies", "gpureclaims", "gpuquotas")
SPEC = {
    "idle": {"action": "evict", "after": "1h", "warmUp": "5m"},
    "classes": {"serving": {"idle": {"action": "warn", "after": "1h"}}},
}


def typed(kind: type[Any], obj: object) -> Any:
    """Reads a struct from what JSON would be."""
    return msgspec.convert(obj, kind)


def component(name: str, ready: int = 2, version: str = "1.2.3", **spec: Any) -> Component:
    """A Deployment, or what `spec` makes of it."""
    labels = {"app.kubernetes.io/version": version}
    volumes = [{"name": "receiver", "secret": {"secretName": "receiver"}}] if name == "reaper" else []
    pod = {"containers": [{"env": []}], "volumes": volumes}
    return typed(
        Component,
        {
            "metadata": {"name": f"gpu-tenure-{name}", "namespace": "gpu-tenure-system", "labels": labels},
            "spec": {"replicas": 2, "template": {"spec": pod}, **spec},
            "status": {"readyReplicas": ready},
        },
    )


def definition(name: str, established: bool = True, version: str = "1.2.3") -> Definition:
    """A definition of one of our kinds."""
    condition = {"type": "Established", "status": "True" if established else "False"}
    labels = {"app.kubernetes.io/version": version}
    return typed(
        Definition,
        {
            "metadata": {"name": f"{name}.gpu-tenure.io", "labels": labels},
            "spec": {"group": "gpu-tenure.io", "versions": [{"name": "v1alpha1", "served": True}]},
            "status": {"conditions": [condition]},
        },
    )


def lease(name: str, age: float = 2.0, holder: str = "pod-1") -> Lease:
    """A Lease that was renewed so many seconds ago."""
    renewed = format_time(NOW - timedelta(seconds=age))
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return typed(Lease, {"metadata": {"name": f"gpu-tenure-{name}"}, "spec": spec})


def authority(days: float = 700) -> str:
    """A caBundle with a CA that ends in so many days."""
    made = issue_ca("test", NOW - timedelta(days=50), timedelta(days=50 + days))
    return base64.b64encode(made.cert_pem).decode()


AUTHORITY = authority()


def configuration(
    *webhooks: tuple[str, str], bundle: str = AUTHORITY, url: str = "", namespace: str = "gpu-tenure-system"
) -> Configuration:
    """A webhook configuration; each webhook has a name and a failure policy."""
    service = {"name": "gpu-tenure-webhook", "namespace": namespace}
    target = {"url": url} if url else {"service": service}
    entries = [
        {"name": name, "failurePolicy": policy, "clientConfig": {"caBundle": bundle, **target}}
        for name, policy in webhooks
    ]
    return typed(Configuration, {"webhooks": entries})


def slices(*ready: bool) -> tuple[EndpointSlice, ...]:
    """What stands behind the Service."""
    endpoints = [{"addresses": ["10.0.0.1"], "conditions": {"ready": one}} for one in ready]
    return (typed(EndpointSlice, {"endpoints": endpoints}),)


def guards(profile: Profile, *, without: str = "", warning: str = "") -> tuple[Guard, ...]:
    """The guards of a profile."""
    found = [{"fieldRef": "spec.validations[0]", "warning": warning}] if warning else []
    status = {"typeChecking": {"expressionWarnings": found}}
    names = [BYPASS, *(PREFIX + one for one in wanted(profile))]
    return tuple(
        typed(Guard, {"metadata": {"name": one}, "status": status}) for one in names if one != without
    )


def bindings(profile: Profile, **others: list[str]) -> tuple[Binding, ...]:
    """Their bindings; `others` has other actions by guard, and none for those without a binding."""
    wished = {one: sorted(actions(one, profile)) for one in wanted(profile)} | others
    return tuple(
        typed(Binding, {"spec": {"policyName": PREFIX + name, "validationActions": does}})
        for name, does in wished.items()
        if does
    )


def policy(name: str = "default", **spec: Any) -> dict[str, Any]:
    """A GPUPolicy as JSON has it."""
    kind = {"apiVersion": "gpu-tenure.io/v1alpha1", "kind": "GPUPolicy"}
    return {**kind, "metadata": {"name": name}, "spec": {**SPEC, **spec}}


def namespaces(*names: str, **labels: str) -> tuple[Namespace, ...]:
    """Namespaces with the same labels."""
    return tuple(typed(Namespace, {"metadata": {"name": name, "labels": labels}}) for name in names)


def node(name: str, gpus: str = "8", tainted: bool = True, key: str = "nvidia.com/gpu") -> Node:
    """A node, with GPUs unless there are none."""
    taints = [{"key": key, "effect": "NoSchedule"}] if tainted else []
    has = {"cpu": "8", **({"nvidia.com/gpu": gpus} if gpus else {})}
    return typed(
        Node, {"metadata": {"name": name}, "spec": {"taints": taints}, "status": {"allocatable": has}}
    )


def resource_quota(scope: str, key: str = "requests.nvidia.com/gpu") -> ResourceQuota:
    """A ResourceQuota with a scope."""
    spec = {"hard": {key: "4"}, "scopes": [scope] if scope else []}
    return typed(ResourceQuota, {"metadata": {"name": "q", "namespace": "team"}, "spec": spec})


def stored(name: str = "q", generation: int = 1, spec: Any = None, **status: Any) -> StoredQuota:
    """A GPUQuota with its ledger."""
    body = {
        "metadata": {"name": name, "uid": "u", "generation": generation, "resourceVersion": "5"},
        "spec": {"hard": {"devices": 8}} if spec is None else spec,
        "status": {"observedGeneration": 1, "podsResourceVersion": "1", **status},
    }
    return read_stored(msgspec.json.encode(body))


def busy(name: str = "GPU-0", **more: Any) -> Device:
    """A device that computes."""
    return device(reading(maximum=80.0, average=70.0), name=name, **more)


def metric_facts(
    *devices: Device, boards: dict[str, Board] | None = None, pod: GpuPod | None = None, **more: Any
) -> MetricFacts:
    """What Prometheus says of one pod with these devices, over an hour."""
    found = Signals(HOUR, {("team", "p"): devices} if devices else {}, boards or {"GPU-0": Board(moved=5.0)})
    observation = Observation(NOW, True, windows={HOUR: found}, metrics=frozenset({"DCGM_FI_DEV_GPU_UTIL"}))
    pods = [pod or gpu("p", max(1, len(devices)))]
    terms = PolicySet.of([policy()])
    judged = judge_all([(one, given_terms(one, terms, {})) for one in pods], observation, JudgeSettings())
    labels = frozenset({"exported_namespace", "exported_pod", "namespace", "pod"})
    fields: dict[str, Any] = {
        "url": "http://prometheus:9090",
        "ahead_seconds": 1.0,
        "families": (Family("DCGM_FI_DEV_GPU_UTIL", "dcgm", labels),),
        "observation": observation,
        "judged": tuple(judged),
        "window": HOUR,
        "brake": False,
    }
    return MetricFacts(**{**fields, **more})


def healthy(profile: Profile = Profile.WARN, **more: Any) -> Facts:
    """The facts, with others in their place."""
    settings = ReaperSettings(
        prometheus_url="http://prometheus:9090", profile=profile, dry_run=False, stop=False
    )
    gate = "Fail" if profile is Profile.ENFORCE else "Ignore"
    fields: dict[str, Any] = {
        "at": NOW,
        "namespace": "gpu-tenure-system",
        "version": "1.2.3",
        "git_version": "v1.36.0",
        "settings": settings,
        "sources": SOURCES,
        "rights": {one: Seen(()) for one in COMPONENTS},
        "accounts": Seen(
            tuple(typed(Named, {"metadata": {"name": f"gpu-tenure-{one}"}}) for one in COMPONENTS)
        ),
        "switches": Seen(Switches(profile=profile, dry_run=False, excluded_namespaces=("kube-system",))),
        "pause": Seen(Pause(paused=False)),
        "definitions": Seen(tuple(definition(one) for one in KINDS)),
        "deployments": Seen(tuple(component(one) for one in COMPONENTS)),
        "cron_jobs": Seen(()),
        "leases": Seen(tuple(lease(one) for one in ("reaper", "quota", "certs"))),
        "mutating": Seen(configuration(("mutate.gpu-tenure.io", "Ignore"))),
        "validating": Seen(
            configuration(("validate.gpu-tenure.io", gate), ("images.validate.gpu-tenure.io", "Ignore"))
        ),
        "endpoints": Seen(slices(True, True)),
        "canary": Canary("default", 201, "", {"gpu-tenure.io/policy": "default"}),
        "certificates": Seen(Inspection((), (), "keep", "all is well")),
        "guards": Seen(guards(profile)),
        "bindings": Seen(bindings(profile)),
        "policies": Seen(PolicySet.of([policy()])),
        "namespaces": Seen(namespaces("default", "kube-system", "team")),
        "pods": Seen((gpu("p", 1),)),
        "nodes": Seen((node("gpu-a"), node("cpu-a", gpus="", tainted=False))),
        "priority_classes": Seen(()),
        "resource_quotas": Seen((resource_quota(""),)),
        "quotas": Seen((stored(),)),
        "secrets": {"receiver": Seen(frozenset({"token"}))},
        "alertmanagers": {"http://alertmanager:9093": ""},
        "metrics": metric_facts(busy()),
    }
    return Facts(**{**fields, **more})


def absent(**more: Any) -> Facts:
    """A cluster with GPU nodes and an exporter, and without any installation."""
    nothing = dict.fromkeys(("switches", "pause", "mutating", "validating", "certificates"), Seen[Any]())
    names = (
        "accounts",
        "definitions",
        "deployments",
        "cron_jobs",
        "leases",
        "endpoints",
        "guards",
        "bindings",
    )
    fields: dict[str, Any] = {
        **nothing,
        **dict.fromkeys(names, Seen[Any](())),
        "policies": Seen(PolicySet.of([])),
        "quotas": Seen(()),
        "rights": {},
        "secrets": {},
        "alertmanagers": {},
        "canary": Canary("default", 201),
        "metrics": metric_facts(busy(), brake=None),
    }
    return healthy(**{**fields, **more})


def found(facts: Facts, check: str) -> list[Finding]:
    """The findings of one check."""
    return [one for one in examine(facts) if one.check == check]


def with_metrics(*devices: Device, **more: Any) -> Facts:
    """The facts with another answer of Prometheus."""
    return healthy(metrics=metric_facts(*devices, **more))


def with_switches(**more: Any) -> Facts:
    """The facts with other switches."""
    facts = healthy()
    assert facts.switches.value is not None
    return replace(facts, switches=Seen(replace(facts.switches.value, **more)))
