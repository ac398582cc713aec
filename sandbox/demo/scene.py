"""Puts the workloads of the demo on a sandbox and reads back what became of them; not the story."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from policy.devices import devices_of
from policy.keys import API_VERSION, PREFIX
from policy.objects import Pod
from sandbox.cluster import Sandbox
from sandbox.demo import naive
from sandbox.demo.journal import Journal
from sandbox.demo.rows import Finding, Row
from sandbox.install import Installation

FOLDER = Path(__file__).parent
NODES = {
    "gpu-node-1": {"nvidia.com/gpu": 8},
    "gpu-node-2": {"nvidia.com/gpu": 8},
    "gpu-node-3": {"nvidia.com/gpu": 8, "nvidia.com/gpumem": 320000, "nvidia.com/gpucores": 800},
}
RECLAIMS, POLICIES = (f"/apis/{API_VERSION}/{plural}" for plural in ("gpureclaims", "gpupolicies"))
HUB = "system:serviceaccount:hub:hub"
TAKEN_PHASES = {"Accepted", "Gone"}
RANKS = 8


@dataclass
class Scene:
    """The cluster of the demo: everything that the story reads and moves."""

    sandbox: Sandbox
    installation: Installation
    journal: Journal = field(default_factory=Journal)
    doomed: set[tuple[str, str]] = field(default_factory=set)
    _seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def apply(self, file: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """Apply a file of this folder with kubectl, as a person would."""
        return self.sandbox.kubectl("apply", "-f", str(FOLDER / file), *flags)

    def wait_served(self) -> None:
        """Return when the API server serves our kinds; right after their definition it answers 429."""
        api = self.sandbox.api()

        def served() -> bool:
            return all(api.raw("GET", path).status == 200 for path in (RECLAIMS, POLICIES))

        api.wait(served, 30, "the API server serves GPUReclaims and GPUPolicies")

    def wait_running(self) -> None:
        """Return when every pod that the demo created runs."""
        api = self.sandbox.api()
        namespaces = self.namespaces()

        def all_run() -> bool:
            pods = [pod for name in namespaces for pod in api.list(f"/api/v1/namespaces/{name}/pods")]
            ranks = [pod for pod in pods if pod["metadata"]["name"].startswith("sweep-")]
            return len(ranks) == RANKS and all(
                pod.get("status", {}).get("phase") == "Running" for pod in pods
            )

        api.wait(all_run, 60, "all workloads of the demo run")

    def namespaces(self) -> list[str]:
        """Return the namespaces of the demo."""
        items = yaml.safe_load((FOLDER / "namespaces.yaml").read_text(encoding="utf-8"))["items"]
        return [item["metadata"]["name"] for item in items if item["kind"] == "Namespace"]

    def activity(self, namespace: str, pod: str, activity: str) -> None:
        """Change what the devices of a pod do from now on."""
        note = {"metadata": {"annotations": {"sandbox.gpu-tenure.io/activity": activity}}}
        self.sandbox.api().patch(f"/api/v1/namespaces/{namespace}/pods/{pod}", note)

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods that are there now, and remember them."""
        api = self.sandbox.api()
        found = [pod for name in self.namespaces() for pod in api.list(f"/api/v1/namespaces/{name}/pods")]
        self._seen.update({pod["metadata"]["uid"]: pod for pod in found})
        return found

    def ask_naive(self) -> None:
        """Add what the naive rule would kill at this moment."""
        self.doomed |= naive.doomed(self.sandbox.prometheus_url)

    def rows(self) -> list[Row]:
        """Return one row per GPU pod that ever was there, in the order of namespace and name."""
        self.pods()
        findings = self.journal.findings()
        phases, events = self._phases(), self._event_reasons()
        rows = [
            self._row(pod, findings.get(uid), phases.get(uid, ""), events.get(uid, set()))
            for uid, pod in self._seen.items()
        ]
        return sorted((row for row in rows if row.devices), key=lambda row: (row.namespace, row.pod))

    def _row(self, raw: dict[str, Any], finding: Finding | None, phase: str, events: set[str]) -> Row:
        pod = msgspec.convert(raw, Pod, strict=False)
        meta = raw["metadata"]
        labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
        return Row(
            namespace=meta["namespace"],
            pod=meta["name"],
            devices=devices_of(pod.spec).devices,
            pod_class=labels.get(f"{PREFIX}class", ""),
            deadline=annotations.get(f"{PREFIX}deadline", ""),
            verdict=finding.verdict if finding else "",
            reason=finding.reason if finding else "",
            skip=finding.skip if finding and not phase else "",
            parked=finding.parked if finding else False,
            reclaim_at=annotations.get(f"{PREFIX}reclaim-at", ""),
            outcome=_outcome(phase, events, finding),
            naive=(meta["namespace"], meta["name"]) in self.doomed,
        )

    def _phases(self) -> dict[str, str]:
        records = self.sandbox.api().list(RECLAIMS)
        return {
            record["spec"]["pod"]["uid"]: record.get("status", {}).get("phase", "Planned")
            for record in records
        }

    def _event_reasons(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for event in self.sandbox.api().list("/apis/events.k8s.io/v1/events"):
            found.setdefault(event.get("regarding", {}).get("uid", ""), set()).add(event["reason"])
        return found


def _outcome(phase: str, events: set[str], finding: Finding | None) -> str:
    if phase in TAKEN_PHASES:
        return "evicted"
    if phase == "Blocked":
        return "blocked"
    if "GPUIdleWarningWithdrawn" in events and finding and finding.verdict == "Active":
        return "spared"
    return "warned" if "GPUIdleWarning" in events else "untouched"
