"""A namespace with GPU pods, and `gpu-tenure status` as people run it there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

from policy.durations import format_time
from sandbox.deadline import utc_now
from sandbox.install import Installation

P = "gpu-tenure.io/"
TERMS = {
    f"{P}policy": "status-tests",
    f"{P}class": "batch",
    f"{P}idle-action": "evict",
    f"{P}idle-after": "3m",
    f"{P}idle-utilization": "5",
    f"{P}idle-statistic": "maximum",
    f"{P}idle-grace": "10m",
    f"{P}idle-warm-up": "5s",
}


class Stage:
    """A namespace with pods, and the command as people run it."""

    def __init__(self, installation: Installation, namespace: str) -> None:
        self.namespace = namespace
        self.sandbox = installation.sandbox
        self.api = installation.sandbox.api()
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.node = f"status-{namespace.split('-', maxsplit=1)[0]}"

    def pod(
        self, name: str, activity: str = "idle", devices: int = 1, memory: str = "", **labels: str
    ) -> str:
        """Makes a pod that has run for an hour; gives its UID."""
        notes = {"sandbox.gpu-tenure.io/started-ago": "60m", "sandbox.gpu-tenure.io/activity": activity}
        if memory:
            notes["sandbox.gpu-tenure.io/memory"] = memory
        limits = {"limits": {"nvidia.com/gpu": str(devices)}}
        body = {
            "metadata": {
                "name": name,
                "labels": {**TERMS, **{P + key: value for key, value in labels.items()}},
                "annotations": {**notes, f"{P}requested-by": "ann"},
            },
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"kubernetes.io/hostname": self.node},
                "containers": [{"name": "main", "image": "registry.example/x:1", "resources": limits}],
            },
        }
        self.api.create(self.pods, body)
        uid: str = self.api.wait_running(self.namespace, name)["metadata"]["uid"]
        return uid

    def warn(self, name: str, uid: str, minutes_ago: float = 0) -> str:
        """Writes a warning on a pod as the reaper does; gives the time of action."""
        since = utc_now() - timedelta(minutes=4 + minutes_ago)
        at = format_time(since + timedelta(minutes=16))
        notes = {"idle-since": format_time(since), "reclaim-at": at, "warned-uid": uid}
        annotations = {P + key: value for key, value in notes.items()}
        self.api.patch(f"{self.pods}/{name}", {"metadata": {"annotations": annotations}})
        return at

    def run(self, *args: str, user: str = "dev-a", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs the command."""
        argv = [
            sys.executable,
            "-m",
            "cli",
            "status",
            "--kubeconfig",
            str(self.sandbox.kubeconfig(user)),
            *args,
        ]
        wide = {**os.environ, "COLUMNS": "220"}
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout, env=wide)

    def json(self, *args: str, user: str = "dev-a") -> dict[str, Any]:
        """Runs the command and gives its answer, the pods by name."""
        done = self.run("-n", self.namespace, "--output", "json", *args, user=user)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        found["pods"] = {one["pod"]: one for one in found["pods"]}
        return found
