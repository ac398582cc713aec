"""Owners that the running reaper stops, under the profile that enforces and guards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from sandbox.install import Installation

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


@pytest.fixture(scope="module")
def stopping(reaping: Installation, install_kinds: Callable[[Any], None]) -> Iterator[Installation]:
    """The chart with the policy of these tests, further kinds, and the guards refusing."""
    install_kinds(reaping.sandbox)
    api = reaping.sandbox.api()
    path = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
    api.create(path, POLICY)
    before = {"profile": reaping.values.get("profile", "observe"), "reaper": {"stop": {"kinds": []}}}
    reaping.upgrade({"profile": "enforce", "reaper": {"stop": {"kinds": KINDS}}})
    reaping.start_webhooks(1)
    yield reaping
    reaping.stop_webhooks()
    reaping.upgrade(before)
    api.delete(f"{path}/end-to-end-stop")


@pytest.fixture
def owners(stopping: Installation, make_stage: Callable[..., Any]) -> Owners:
    """A namespace under the policy that stops."""
    assert stopping.values["profile"] == "enforce"
    return Owners(make_stage({"end-to-end": "false", "end-to-end-stop": "true"}))


def stopped_note(found: Any) -> dict[str, Any]:
    """Gives what the reaper noted on a stopped owner."""
    note: dict[str, Any] = json.loads(found["metadata"]["annotations"]["gpu-tenure.io/stopped"])
    return note


def test_owners_of_the_built_in_kinds_stay_stopped(owners: Owners, start_reaper: Callable[..., Any]) -> None:
    """Each in its way, with what it was before in its record and on itself."""
    web = owners.scaled("deployments", "web", replicas=2)
    alone = owners.scaled("replicasets", "alone")
    store = owners.scaled("statefulsets", "store")
    job = owners.job("train", activeDeadlineSeconds=7200)
    owners.running(5)
    start_reaper()
    for path in (web, alone, store):
        found = owners.wait(path, lambda one: one["spec"]["replicas"] == 0, f"{path} is at zero")
        assert stopped_note(found)["former"] == (2 if path == web else 1)
        managers = {one["manager"] for one in found["metadata"]["managedFields"]}
        assert "gpu-tenure-reaper" in managers
    owners.wait(job, lambda one: one["spec"].get("suspend") is True, "the Job is suspended")
    owners.api.wait(lambda: owners.api.list(owners.stage.pods) == [], 60, "all pods are gone")
    owners.api.wait(
        lambda: {one["status"]["phase"] for one in owners.stage.records()} == {"Accepted"},
        20,
        "all records are completed",
    )
    records = owners.records()
    assert sorted(records) == ["alone", "store", "train", "web"]
    assert records["web"]["status"]["stop"]["former"] == "2"
    assert records["train"]["status"]["stop"]["deadlineSeconds"] == 7200
    assert records["train"]["status"]["stop"]["usedSeconds"] >= 0
    assert {one["spec"]["action"] for one in records.values()} == {"stop"}
    assert "gpu-tenure resume deployment/web" in records["web"]["spec"]["howToGetBack"]
    times = [datetime.fromisoformat(one["status"]["completedAt"]) for one in records.values()]
    decided = [datetime.fromisoformat(one["spec"]["decidedAt"]) for one in records.values()]
    assert all(begun <= done for begun, done in zip(decided, times, strict=True))


def test_kinds_of_other_projects_stop_by_the_table(owners: Owners, start_reaper: Callable[..., Any]) -> None:
    """A field, a nested field or an annotation; a Notebook by Kubeflow's own."""
    pod = {
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    }
    worker = {"replicas": 1, "template": pod}
    jobs = [{"name": "w", "template": {"spec": {"template": pod}}}]
    notebook = owners.custom("kubeflow.org/v1", "Notebook", "notebooks", "book", {"template": pod})
    jobset = owners.custom("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", "set", {"replicatedJobs": jobs})
    leaders = owners.custom(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "leaderworkersets",
        "lws",
        {"replicas": 3, "leaderWorkerTemplate": {"workerTemplate": pod}},
    )
    ray = owners.custom("ray.io/v1", "RayCluster", "rayclusters", "ray", {"headGroupSpec": {"template": pod}})
    torch = owners.custom(
        "kubeflow.org/v1", "PyTorchJob", "pytorchjobs", "torch", {"pytorchReplicaSpecs": {"Worker": worker}}
    )
    service = owners.custom(
        "serving.kserve.io/v1beta1", "InferenceService", "inferenceservices", "llm", {"predictor": {}}
    )
    owners.running(6)
    start_reaper(f"--stop-kinds={json.dumps(KINDS)}")
    suspended = {jobset: ("suspend",), ray: ("suspend",), torch: ("runPolicy", "suspend")}
    for path, keys in suspended.items():

        def is_suspended(found: Any, keys: tuple[str, ...] = keys) -> bool:
            value = found["spec"]
            for key in keys:
                value = (value or {}).get(key)
            return value is True

        owners.wait(path, is_suspended, f"{path} is suspended")
    found = owners.wait(leaders, lambda one: one["spec"]["replicas"] == 0, "the LeaderWorkerSet is at zero")
    assert stopped_note(found)["former"] == 3
    key = "kubeflow-resource-stopped"
    owners.wait(
        notebook, lambda one: key in one["metadata"].get("annotations", {}), "the Notebook is stopped"
    )
    key = "serving.kserve.io/stop"
    found = owners.wait(service, lambda one: key in one["metadata"].get("annotations", {}), "it is stopped")
    assert found["metadata"]["annotations"][key] == "true"


def test_what_kueue_manages_is_stopped_through_its_workload(
    owners: Owners, start_reaper: Callable[..., Any]
) -> None:
    """The Job itself is never suspended: Kueue would start it again."""
    queue = {"kueue.x-k8s.io/queue-name": "team"}
    job = owners.job("queued", labels=queue)
    uid = owners.api.get(job)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "queued", "uid": uid, "controller": True}
    workloads = owners.path("kueue.x-k8s.io/v1beta1", "workloads")
    for name, references in (("job-queued", [owner]), ("other", [])):
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {"name": name, "ownerReferences": references},
            "spec": {"queueName": "team"},
        }
        owners.api.create(workloads, body)
    owners.running(1)
    start_reaper()
    owners.wait(
        f"{workloads}/job-queued", lambda one: one["spec"].get("active") is False, "the Workload is inactive"
    )
    assert "active" not in owners.api.get(f"{workloads}/other")["spec"]
    assert not owners.api.get(job)["spec"].get("suspend")


def test_a_budget_keeps_an_owner_running(owners: Owners, start_reaper: Callable[..., Any]) -> None:
    """A scale to zero would not ask it: the reaper does, about every pod."""
    web = owners.scaled("deployments", "web", replicas=2)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    budgets = owners.path("policy/v1", "poddisruptionbudgets")
    owners.api.create(budgets, budget)
    owners.running(2)
    owners.api.wait(
        lambda: owners.api.get(f"{budgets}/web").get("status", {}).get("currentHealthy") == 2,
        30,
        "the budget counts its pods",
    )
    start_reaper()
    owners.api.wait(
        lambda: [one.get("status", {}).get("phase") for one in owners.stage.records()] == ["Blocked"],
        45,
        "a record says that a budget refused",
    )
    assert owners.api.get(web)["spec"]["replicas"] == 2
    assert len(owners.api.list(owners.stage.pods)) == 2


def test_a_pod_that_only_names_an_owner_does_not_stop_it(
    owners: Owners, start_reaper: Callable[..., Any]
) -> None:
    """Whoever may create pods could otherwise stop any workload of the namespace."""
    api = owners.api
    template = owners.template("shop")
    del template["spec"]["containers"][0]["resources"]
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "shop"}}, "template": template}
    path = owners.path("apps/v1", "deployments")
    made = api.create(path, {"metadata": {"name": "shop"}, "spec": spec})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": made["metadata"]["uid"]}
    owners.stage.pod("forged", labels=STOP, ownerReferences=[{**owner, "controller": True}])
    owners.running(2)
    start_reaper()
    owners.api.wait(
        lambda: [one.get("status", {}).get("phase") for one in owners.stage.records()] == ["Refused"],
        45,
        "a record says that the owner makes no GPU pods",
    )
    (record,) = owners.stage.records()
    assert "makes no GPU pods" in record["status"]["message"]
    assert api.get(f"{path}/shop")["spec"]["replicas"] == 1


def test_a_stop_that_an_operator_undoes_is_named_and_not_repeated(
    owners: Owners, start_reaper: Callable[..., Any]
) -> None:
    """KEDA or GitOps apply their number again: the record and an Event on the owner say who did it."""
    web = owners.scaled("deployments", "web")
    owners.running(1)
    reaper = start_reaper("--actions-per-owner=9")
    owners.wait(web, lambda one: one["spec"]["replicas"] == 0, "the Deployment is at zero")
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1},
    }
    owners.api.patch(f"{web}?fieldManager=keda-operator&force=true", body, "apply")
    owners.api.wait(
        lambda: [one["status"]["phase"] for one in owners.stage.records()] == ["Reverted"],
        30,
        "the record says that the stop was undone",
    )
    (record,) = owners.stage.records()
    assert record["status"]["message"] == "keda-operator started it again"
    assert any("keda-operator started it again" in note for note in owners.stage.events("web"))
    assert reaper.value("gpu_tenure_reaper_stops_reverted_total") == 1
    owners.running(1)
    name = owners.api.list(owners.stage.pods)[0]["metadata"]["name"]
    owners.api.wait(
        lambda: "gpu-tenure.io/warned-uid" in owners.stage.annotations(name), 40, "the new pod is warned"
    )
    reaper.wait_cycles(8)
    assert "gpu-tenure.io/reclaim-at" not in owners.stage.annotations(name)
    assert owners.api.get(web)["spec"]["replicas"] == 1
