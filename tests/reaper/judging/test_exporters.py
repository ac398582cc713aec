"""Real pods, scraped by a real Prometheus from simulated exporters, judged by ten minutes of their past."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Any

import msgspec
import pytest

from policy.durations import parse_duration
from policy.objects import Pod
from policy.terms import Action, Statistic, Terms
from policy.verdicts import Reason, VerdictKind
from reaper.criteria import JudgeSettings
from reaper.evidence import Verdict
from reaper.judge import judge
from reaper.observation import observe
from reaper.pods import gpu_pod
from reaper.prometheus import HttpPrometheus, PrometheusOptions
from runtime.clock import SystemClock
from sandbox.cluster import Sandbox
from sandbox.history import write_history

PREFIX = "sandbox.gpu-tenure.io/"
GPU = {"nvidia.com/gpu": "1"}
TWO = {"nvidia.com/gpu": "2"}
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000", "nvidia.com/gpucores": "10"}
AMD = {"amd.com/gpu": "1"}
SPLIT = f"{PREFIX}split"
# Nodes of our own: what other pods did with a device within the window would be its past too.
NODES = {
    "nvidia.com/gpu": ("exporters-nvidia", {"nvidia.com/gpu": 24}, {}),
    "nvidia.com/gpumem": (
        "exporters-hami",
        {"nvidia.com/gpu": 40, "nvidia.com/gpumem": 320000, "nvidia.com/gpucores": 400},
        {SPLIT: "10"},
    ),
    "amd.com/gpu": ("exporters-amd", {"amd.com/gpu": 8}, {}),
    "nvidia.com/mig-1g.5gb": ("exporters-mig", {"nvidia.com/mig-1g.5gb": 14}, {SPLIT: "7"}),
}
NOBODY_ELSE = {"key": f"{PREFIX}exporters", "effect": "NoSchedule"}
MIG = {"nvidia.com/mig-1g.5gb": "1"}
TERMS = Terms(
    action=Action.EVICT,
    after=parse_duration("10m"),
    utilization=5,
    statistic=Statistic.MAXIMUM,
    memory=None,
    grace=parse_duration("5m"),
    warm_up=parse_duration("5m"),
)
IDLE, BUSY = Reason.BELOW_THRESHOLD, Reason.ABOVE_THRESHOLD

FIRST = {
    "dcgm-idle": (GPU, {"activity": "idle"}, IDLE),
    "dcgm-busy": (GPU, {"activity": "busy"}, BUSY),
    "dcgm-duty": (GPU, {"activity": "duty:60/60"}, BUSY),
    "dcgm-burst": (GPU, {"activity": "burst:300"}, BUSY),
    "dcgm-silent": (GPU, {"activity": "silent"}, Reason.NO_SERIES),
    "dcgm-garbage": (GPU, {"activity": "garbage"}, Reason.GARBAGE_SAMPLES),
    "dcgm-some-garbage": (GPU, {"activity": "garbage:120"}, IDLE),
    "dcgm-prof-stuck": (GPU, {"activity": "prof-stuck"}, BUSY),
    "dcgm-frozen": (GPU, {"activity": "frozen"}, Reason.FROZEN_EXPORTER),
    "dcgm-xid": (GPU, {"activity": "xid:48/300"}, Reason.DEVICE_FAULT),
    "dcgm-one-of-two": (TWO, {"activity": "idle,busy"}, BUSY),
    "dcgm-half-seen": (TWO, {"activity": "idle,silent"}, Reason.PARTIAL_DEVICES),
    "dcgm-parked": (GPU, {"activity": "idle", "memory": "20Gi"}, IDLE),
    "honored-idle": (GPU, {"activity": "idle", "exporter": "dcgm-honored"}, IDLE),
    "honored-busy": (GPU, {"activity": "busy", "exporter": "dcgm-honored"}, BUSY),
    "amd-idle": (AMD, {"activity": "idle"}, IDLE),
    "amd-busy": (AMD, {"activity": "busy", "exporter": "amd-honored"}, BUSY),
    "mig-idle": (MIG, {"activity": "idle"}, IDLE),
    "mig-busy": (MIG, {"activity": "busy"}, BUSY),
    "hami-idle": (HAMI, {"activity": "idle"}, IDLE),
    "hami-honored": (HAMI, {"activity": "idle", "exporter": "hami-honored"}, IDLE),
    "hami-legacy": (HAMI, {"activity": "idle", "exporter": "hami-legacy"}, IDLE),
}
LATER = {
    "hami-false-zero": (HAMI, {"activity": "hami-false-zero"}, Reason.RECENT_KERNEL),
    "hami-busy": (HAMI, {"activity": "busy", "exporter": "hami-legacy"}, BUSY),
    # The same card, which the others keep busy from now on.
    "hami-idle": (HAMI, {"activity": "idle"}, Reason.SHARED_DEVICE),
}
"""Pods with what they ask for, what the simulator does, and the reason that must come of it."""


def manifest(
    name: str, namespace: str, limits: Mapping[str, str], settings: Mapping[str, str]
) -> dict[str, Any]:
    """A pod that started an hour ago."""
    annotations = {f"{PREFIX}started-ago": "60m", **{PREFIX + key: value for key, value in settings.items()}}
    container = {"name": "main", "image": "registry.example/x:1", "resources": {"limits": dict(limits)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        # The cards of the HAMi node are shared; a whole device there would be shared too.
        "spec": {"restartPolicy": "Never", "containers": [container], "nodeName": NODES[max(limits)][0]},
    }


@pytest.fixture(scope="module")
def rounds(sandbox: Sandbox) -> Iterator[tuple[dict[str, Verdict], dict[str, Verdict]]]:
    """Makes the pods, gives them a past, and judges them; then makes some more and judges all again."""
    api, namespace = sandbox.api(), "judging-exporters"
    api.create_namespace(namespace)
    for node, resources, notes in NODES.values():
        sandbox.add_node(node, resources, annotations=notes, taints=[NOBODY_ELSE])
    path = f"/api/v1/namespaces/{namespace}/pods"
    found: list[dict[str, Verdict]] = []
    for pods in (FIRST, LATER):
        for name, (limits, settings, _) in pods.items():
            if not any(name in verdicts for verdicts in found):
                api.create(path, manifest(name, namespace, limits, settings))
                api.wait_running(namespace, name)
        write_history(sandbox, minutes=16, namespaces=[namespace])
        found.append(judged(sandbox, path))
    yield found[0], found[1]
    api.raw("DELETE", path, {"gracePeriodSeconds": 0})
    api.raw("DELETE", f"/api/v1/namespaces/{namespace}")
    for node, _, _ in NODES.values():
        api.raw("DELETE", f"/api/v1/nodes/{node}")


def judged(sandbox: Sandbox, path: str) -> dict[str, Verdict]:
    """The verdicts on all pods of a namespace."""
    now = SystemClock().now()
    adapter = HttpPrometheus(PrometheusOptions(sandbox.prometheus_url), monotonic)
    observation = asyncio.run(observe(adapter, [600], now, JudgeSettings()))
    adapter.close()
    assert observation.problems == ()
    found: dict[str, Verdict] = {}
    for one in sandbox.api().list(path):
        pod = gpu_pod(msgspec.convert(one, Pod))
        assert pod is not None
        found[pod.name] = judge(pod, TERMS, observation, now, JudgeSettings())
    return found


Rounds = tuple[dict[str, Verdict], dict[str, Verdict]]


@pytest.mark.parametrize("name", FIRST)
def test_each_exporter_and_activity(name: str, rounds: Rounds) -> None:
    """What the exporter says of the pod leads to its reason."""
    assert rounds[0][name].reason is FIRST[name][2], rounds[0][name]


@pytest.mark.parametrize("name", LATER)
def test_sharers_of_a_busy_card(name: str, rounds: Rounds) -> None:
    """A share with a kernel or utilization is active; one beside it cannot be told."""
    assert rounds[1][name].reason is LATER[name][2], rounds[1][name]


def test_a_parked_model_server_is_idle_and_parked(rounds: Rounds) -> None:
    """Memory without activity."""
    parked, idle = rounds[0]["dcgm-parked"], rounds[0]["dcgm-idle"]
    assert (parked.kind, parked.parked, idle.parked) == (VerdictKind.IDLE, True, False)
