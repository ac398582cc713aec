"""Workloads that the reaper stops, as the tests of this folder make them; knows no reaper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

STOP = {
    "gpu-tenure.io/policy": "end-to-end-stop",
    "gpu-tenure.io/class": "batch",
    "gpu-tenure.io/idle-action": "stop",
    "gpu-tenure.io/idle-after": "3m",
    "gpu-tenure.io/idle-utilization": "5",
    "gpu-tenure.io/idle-statistic": "maximum",
    "gpu-tenure.io/idle-grace": "4s",
    "gpu-tenure.io/idle-warm-up": "5s",
}
POLICY = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "end-to-end-stop"},
    "spec": {
        "priority": 1,
        "namespaceSelector": {"matchLabels": {"end-to-end-stop": "true"}},
        "idle": {"action": "stop", "after": "3m", "grace": "4s", "warmUp": "5s"},
        "classes": {"serving": {"idle": {"action": "stop", "after": "3m"}}},
    },
}
KINDS = [
    {
        "apiGroup": "jobset.x-k8s.io",
        "kind": "JobSet",
        "resource": "jobsets",
        "field": "/spec/suspend",
        "value": True,
    },
    {
        "apiGroup": "leaderworkerset.x-k8s.io",
        "kind": "LeaderWorkerSet",
        "resource": "leaderworkersets",
        "field": "/spec/replicas",
        "value": 0,
    },
    {
        "apiGroup": "ray.io",
        "kind": "RayCluster",
        "resource": "rayclusters",
        "field": "/spec/suspend",
        "value": True,
    },
    {
        "apiGroup": "kubeflow.org",
        "kind": "PyTorchJob",
        "resource": "pytorchjobs",
        "field": "/spec/runPolicy/suspend",
        "value": True,
    },
    {
        "apiGroup": "serving.kserve.io",
        "kind": "InferenceService",
        "resource": "inferenceservices",
        "field": "/metadata/annotations/serving.kserve.io~1stop",
        "value": "true",
    },
]


class Owners:
    """Workloads of one namespace whose pods have been idle for an hour."""

    def __init__(self, stage: Any) -> None:
        self.stage = stage
        self.api = stage.api
        self.namespace = stage.namespace

    def path(self, group: str, resource: str) -> str:
        """Gives the path of a collection."""
        return f"/apis/{group}/namespaces/{self.namespace}/{resource}"

    def template(self, name: str, activity: str = "idle", **spec: Any) -> dict[str, Any]:
        """Gives a pod template with terms that stop."""
        notes = {"sandbox.gpu-tenure.io/started-ago": "60m", "sandbox.gpu-tenure.io/activity": activity}
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        return {
            "metadata": {"labels": {"app": name, **STOP}, "annotations": notes},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self.stage.node},
                "containers": [{"name": "main", "image": "registry.example/x:1", "resources": resources}],
                **spec,
            },
        }

    def scaled(self, resource: str, name: str, replicas: int = 1, **more: Any) -> str:
        """Makes a Deployment, ReplicaSet or StatefulSet; gives its path."""
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
        body = {"metadata": {"name": name}, "spec": {**spec, "template": self.template(name), **more}}
        self.api.create(self.path("apps/v1", resource), body)
        return f"{self.path('apps/v1', resource)}/{name}"

    def job(self, name: str, labels: Any = None, **spec: Any) -> str:
        """Makes a Job; gives its path."""
        template = self.template(name, restartPolicy="Never")
        template["metadata"]["labels"].update(labels or {})
        body = {"metadata": {"name": name, "labels": labels or {}}, "spec": {"template": template, **spec}}
        self.api.create(self.path("batch/v1", "jobs"), body)
        return f"{self.path('batch/v1', 'jobs')}/{name}"

    def custom(self, version: str, kind: str, resource: str, name: str, spec: Any, **metadata: Any) -> str:
        """Makes an object of another project and a pod that it controls, as its operator would."""
        path = self.path(version, resource)
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
        made = self.api.create(path, body)
        owner = {"apiVersion": version, "kind": kind, "name": name, "uid": made["metadata"]["uid"]}
        self.stage.pod(f"{name}-0", labels=STOP, ownerReferences=[{**owner, "controller": True}])
        return f"{path}/{name}"

    def running(self, count: int) -> None:
        """Waits for so many running pods and fills their windows."""

        def run() -> bool:
            pods = self.api.list(self.stage.pods)
            return sum(one.get("status", {}).get("phase") == "Running" for one in pods) == count

        self.api.wait(run, 40, f"{count} pods run")
        self.stage.history()

    def wait(self, path: str, test: Callable[[Any], bool], what: str, seconds: float = 45) -> Any:
        """Waits until an object is as it should be, and gives it."""
        self.api.wait(lambda: test(self.api.get(path)), seconds, what)
        return self.api.get(path)

    def records(self) -> dict[str, Any]:
        """Gives the completed records by the name of what was stopped."""
        return {
            one["status"]["stop"]["name"]: one
            for one in self.stage.records()
            if "stop" in one.get("status", {})
        }
