"""Who is left alone by a reaper that evicts others beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

HAMI = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}
KEPT: dict[str, tuple[str, dict[str, Any]]] = {
    "busy": ("AboveThreshold", {"activity": "busy"}),
    "one-of-two-busy": ("AboveThreshold", {"activity": "idle,busy", "limits": {"nvidia.com/gpu": 2}}),
    "profiling-stuck": ("AboveThreshold", {"activity": "prof-stuck"}),
    "hami-false-zero": ("RecentKernel", {"activity": "hami-false-zero", "limits": HAMI}),
    "silent": ("NoSeries", {"activity": "silent"}),
    "frozen": ("FrozenExporter", {"activity": "frozen"}),
    "exempt": (
        "Exempt",
        {
            "labels": {"gpu-tenure.io/idle-action": "exempt"},
            "annotations": {"gpu-tenure.io/asked": "idle-action"},
        },
    ),
    "never": ("Exempt", {"annotations": {"gpu-eviction-policy": "never"}}),
    "snoozed": ("Snoozed", {"annotations": {"gpu-tenure.io/keep-until": "2h"}}),
    "only-warned": ("WarnOnly", {"labels": {"gpu-tenure.io/idle-action": "warn"}}),
    "without-policy": ("PolicyMissing", {"labels": {"gpu-tenure.io/policy": "gone"}}),
    "with-budget": ("DisruptionBudget", {"labels": {"app": "with-budget"}}),
}
"""Pods that live on, the reason that the log names, and how they are made."""


def test_everybody_but_the_idle_is_spared(
    stage: Any, start_reaper: Callable[..., Any], make_stage: Callable[..., Any]
) -> None:
    """Idle pods and idle runs go, once; all others stay, each with its reason."""
    dry_run = make_stage({"gpu-tenure.io/enforcement": "dry-run"})
    opted_out = make_stage({"gpu-tenure.io/enforcement": "disabled"})
    _budget(stage, "with-budget")
    for name, (_, how) in KEPT.items():
        stage.pod(name, **how)
    for other in (dry_run, opted_out):
        other.pod("idle")
    stage.pod("idle")
    _run(stage, "whole", {"whole-0": "idle", "whole-1": "idle"})
    _run(stage, "puzzling", {"puzzling-0": "idle", "puzzling-1": "idle", "puzzling-2": "silent"})
    stage.history(dry_run.namespace, opted_out.namespace)
    stage.pod("little-data")
    before = {name: stage.find(name)["metadata"]["uid"] for name in [*KEPT, "little-data"]}

    reaper = start_reaper()
    stage.wait_gone("idle", "whole-0", "whole-1")
    stage.api.wait(lambda: "Blocked" in _phases(stage).values(), 20, "the budget blocks")
    reaper.wait_cycles(5)

    for name, uid in before.items():
        found = stage.find(name)
        assert found is not None, name
        assert found["metadata"]["uid"] == uid
        assert "deletionTimestamp" not in found["metadata"], name
    for name in ("puzzling-0", "puzzling-1", "puzzling-2"):
        assert stage.find(name) is not None
    said = _last_said(reaper.log())
    for name, (reason, _) in KEPT.items():
        assert reason in said[stage.namespace, name], name
    # Too few samples to prove anything, or even to tell how often they are taken.
    assert said[stage.namespace, "little-data"].strip() in {"LowCoverage", "IntervalUnknown"}
    assert "PeerNotIdle" in said[stage.namespace, "puzzling-0"]
    assert "DryRun" in said[dry_run.namespace, "idle"]
    assert "OptedOut" in said[opted_out.namespace, "idle"]
    accepted = sorted(name for name, phase in _phases(stage).items() if phase == "Accepted")
    assert accepted == ["idle", "whole-0", "whole-1"]
    assert dry_run.records() == opted_out.records() == []
    assert not [key for key in dry_run.annotations("idle") if key.startswith("gpu-tenure.io/")]
    snoozed = stage.annotations("snoozed")
    assert snoozed["gpu-tenure.io/keep-until"].endswith("Z")
    only_warned = stage.annotations("only-warned")
    assert "gpu-tenure.io/warned-uid" in only_warned
    assert "gpu-tenure.io/reclaim-at" not in only_warned
    assert sum("Not evicted" in note for note in stage.events("with-budget")) == 1


def test_a_deployment_loses_one_pod_and_is_then_only_warned(
    stage: Any, start_reaper: Callable[..., Any], terms: Mapping[str, str]
) -> None:
    """Its controller recreates the pod: a second eviction would free nothing."""
    notes = {"sandbox.gpu-tenure.io/started-ago": "60m", "sandbox.gpu-tenure.io/activity": "idle"}
    container = {
        "name": "main",
        "image": "registry.example/x:1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    body = {
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {**terms, "app": "web"}, "annotations": notes},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": stage.node},
                    "containers": [container],
                },
            },
        },
    }
    stage.api.create(f"/apis/apps/v1/namespaces/{stage.namespace}/deployments", body)
    first = _running_pod(stage, set())
    stage.history()
    reaper = start_reaper()
    stage.wait_gone(first)
    second = _running_pod(stage, {first})
    stage.history()
    stage.api.wait(
        lambda: "gpu-tenure.io/warned-uid" in stage.annotations(second), 30, "the second pod is warned"
    )
    reaper.wait_cycles(6)
    assert "gpu-tenure.io/reclaim-at" not in stage.annotations(second)
    found = stage.find(second)
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    assert len(stage.records()) == 1
    assert "OwnerRecreates" in _last_said(reaper.log())[stage.namespace, second]


def test_a_run_stays_whole_under_a_budget_that_lets_one_pod_go(
    stage: Any, start_reaper: Callable[..., Any], terms: Mapping[str, str]
) -> None:
    """Each of both ranks might go, and both might not; once there is no budget both go."""
    notes = {"sandbox.gpu-tenure.io/started-ago": "60m", "sandbox.gpu-tenure.io/activity": "idle"}
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    template = {
        "metadata": {"labels": {**terms, "app": "ranks"}, "annotations": notes},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": stage.node},
            "containers": [{"name": "main", "image": "registry.example/x:1", "resources": resources}],
        },
    }
    job = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    _budget(stage, "ranks")
    stage.api.create(
        f"/apis/batch/v1/namespaces/{stage.namespace}/jobs", {"metadata": {"name": "ranks"}, "spec": job}
    )
    budget = f"/apis/policy/v1/namespaces/{stage.namespace}/poddisruptionbudgets/ranks"
    stage.api.wait(
        lambda: stage.api.get(budget).get("status", {}).get("disruptionsAllowed") == 1,
        40,
        "the budget lets one of two pods go",
    )
    uids = {one["metadata"]["uid"] for one in stage.api.list(stage.pods)}
    assert len(uids) == 2
    stage.history()
    reaper = start_reaper("--budget-wait=2s")
    stage.api.wait(lambda: list(_phases(stage).values()) == ["Blocked"], 45, "the budget blocks")
    reaper.wait_cycles(2)
    found = stage.api.list(stage.pods)
    assert {one["metadata"]["uid"] for one in found} == uids
    assert not [one for one in found if "deletionTimestamp" in one["metadata"]]
    assert list(_phases(stage).values()) == ["Blocked"]

    stage.api.delete(budget)
    stage.api.wait(
        lambda: not uids & {one["metadata"]["uid"] for one in stage.api.list(stage.pods)}, 40, "both go"
    )
    stage.api.wait(lambda: list(_phases(stage).values()) == ["Accepted"] * 2, 20, "both are recorded")


def _running_pod(stage: Any, others: set[str]) -> str:
    def find() -> str | None:
        for pod in stage.api.list(stage.pods):
            name = pod["metadata"]["name"]
            if pod["status"].get("phase") == "Running" and name not in others:
                return str(name)
        return None

    return str(stage.api.wait(find, 20, "a pod of the Deployment runs"))


def _run(stage: Any, name: str, activities: Mapping[str, str]) -> None:
    """Makes pods that one object owns; nobody acts on that object, so that only ownership matters."""
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps"
    owner = stage.api.create(path, {"metadata": {"name": name}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    for pod, activity in activities.items():
        stage.pod(pod, activity, ownerReferences=[reference])


def _budget(stage: Any, app: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    path = f"/apis/policy/v1/namespaces/{stage.namespace}/poddisruptionbudgets"
    stage.api.create(path, {"metadata": {"name": app}, "spec": spec})


def _phases(stage: Any) -> dict[str, str]:
    return {one["spec"]["pod"]["name"]: one.get("status", {}).get("phase", "") for one in stage.records()}


def _last_said(log: str) -> dict[tuple[str, str], str]:
    """Gives what the log said last about each pod, as text."""
    said: dict[tuple[str, str], str] = {}
    for line in log.splitlines():
        fields = json.loads(line)
        if fields["event"] == "verdict changed":
            said[fields["namespace"], fields["pod"]] = f"{fields['reason']} {fields.get('skip', '')}"
    return said
