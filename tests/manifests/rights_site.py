"""A sandbox where every component does its things once, and what the API server's audit log has of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

import requests

from sandbox.cluster import Sandbox
from sandbox.deadline import wait
from sandbox.history import write_history
from sandbox.install import Installation
from sandbox.ports import LOOPBACK
from sandbox.secret_volume import SecretVolume
from tests.certs.webhook_tls import AUTHORITY, SERVING

OWN = "system:serviceaccount:gpu-tenure-system:gpu-tenure-"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OURS = "/apis/gpu-tenure.io/v1alpha1"
NAMESPACE, CROWDED, TRIES = "rights", "crowded", "tries"
WARNED = "gpu-tenure.io/reclaim-at"
# Alone, two of a Deployment, of a ReplicaSet, a StatefulSet, a ReplicationController, a Job of a CronJob.
PODS = 7
LONG_AGO = "2020-01-01T00:00:00Z"
SHARES = ("--device-percent=100", "--actions-per-cycle=50", "--actions-per-namespace=50")
BRAKES = ("--brake-idle-percent=101", "--brake-unknown-percent=101", "--brake-fall-percent=101")
REAPER = ("--no-dry-run", "--cycle=1s", "--quiet=0s", *SHARES, *BRAKES, "--brake-release=0s")

VALUES = {
    "quota": {"enabled": True},
    "tls": {"source": "certs", "caBundle": ""},
    "canary": {"enabled": True, "namespace": TRIES},
    "metrics": {"protected": True},
}


class Right(NamedTuple):
    """What a rule gives, or what a request needed.

    Attributes:
        group: The API group.
        resource: The resource, with the subresource.
        verb: The verb.
        namespace: The only namespace of it; empty for all.
        name: The only object of it; empty for all.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def serves(self, needed: Right) -> bool:
        """Whether a request is let through by this."""
        same = self[:3] == needed[:3]
        return same and self.namespace in {"", needed.namespace} and self.name in {"", needed.name}


def gpu_spec(**fields: Any) -> dict[str, Any]:
    """The spec of a pod with one GPU."""
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    return {
        "containers": [{"name": "main", "image": "registry.example/x:1", "resources": resources}],
        **fields,
    }


def idle_template(app: str, **fields: Any) -> dict[str, Any]:
    """The template of pods that have done nothing for an hour."""
    notes = {"sandbox.gpu-tenure.io/started-ago": "60m", "sandbox.gpu-tenure.io/activity": "idle"}
    return {"metadata": {"labels": {"app": app}, "annotations": notes}, "spec": gpu_spec(**fields)}


class Site:
    """A sandbox with the whole chart, where every component does its things once."""

    def __init__(self, sandbox: Sandbox, installation: Installation) -> None:
        self.sandbox = sandbox
        self.installation = installation
        self.api = sandbox.api()
        self.pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self.addresses: list[str] = []

    def certify(self, volume: SecretVolume) -> None:
        """Has certificates made, mended, lost and made again, by the command too, and a pod tried."""
        self.addresses.append(self.installation.start_certs("--interval=1s", "--settle=2s"))
        volume.wait_for("tls.crt")
        self.installation.tls = volume.folder
        for path in (SERVING, AUTHORITY):
            self.api.patch(path, {"data": {"ca.crt": None}})
            self.api.wait(lambda path=path: self._holds(path), 30, "the Secret is completed")
            self.api.raw("DELETE", path)
            self.api.wait(lambda path=path: self._holds(path), 30, "the Secret is back")
        tried = Right("", "pods", "create", TRIES)
        wait(lambda: any(map(tried.serves, self.used("certs"))), 30, "a pod is tried")
        self.sandbox.stop("certs")
        kubeconfig = f"--kubeconfig={self.sandbox.kubeconfig('certs')}"
        argv = [sys.executable, "-m", "cli", "certs", "ensure", kubeconfig, f"--names=localhost,{LOOPBACK}"]
        subprocess.run([*argv, "--settle=1s"], check=True, timeout=60, capture_output=True)
        self.addresses[:] = [self.installation.start_certs("--interval=1s", "--settle=2s")]

    def _holds(self, path: str) -> bool:
        return "ca.crt" in ((self.api.find(path) or {}).get("data") or {})

    def scrape(self) -> None:
        """Reads the metrics of every component as whoever may."""
        subject = {"kind": "User", "name": "dev-a", "apiGroup": "rbac.authorization.k8s.io"}
        role = {"apiGroup": subject["apiGroup"], "kind": "ClusterRole", "name": "gpu-tenure-metrics-reader"}
        body = {"metadata": {"name": "scraper"}, "roleRef": role, "subjects": [subject]}
        self.api.create(f"{RBAC}/clusterrolebindings", body)
        webhooks = [one.ready_url.removesuffix("/readyz") for one in self.installation.webhooks.values()]
        token = {"Authorization": f"Bearer {self.sandbox.users['dev-a'].token}"}
        for address in (*self.addresses, *webhooks):
            answer = requests.get(f"{address}/metrics", headers=token, timeout=10)
            assert answer.status_code == 200, answer.text

    def prepare(self) -> None:
        """Starts the components, with a policy that stops and asks for the right to use it."""
        idle = {"action": "stop", "after": "3m", "grace": "8s", "warmUp": "5s"}
        spec = {
            "priority": 1,
            "namespaceSelector": {"matchLabels": {"rights": "true"}},
            "idle": idle,
            "classes": {"serving": {"idle": {"action": "stop", "after": "3m"}}},
            "requireUse": True,
        }
        self.api.create(f"{OURS}/gpupolicies", {**_typed("GPUPolicy", "rights"), "spec": spec})
        self.api.create_namespace(NAMESPACE, labels={"rights": "true"})
        self.api.create_namespace(CROWDED)
        for name in ("a", "b"):
            body = {"metadata": {"name": name}, "spec": gpu_spec(schedulerName="nobody")}
            self.api.create(f"/api/v1/namespaces/{CROWDED}/pods", body)
        self.installation.upgrade({"profile": "enforce"})
        self.installation.start_webhooks(1)
        self.addresses.append(self.installation.start_quota("--reservation=8s", "--settle=2s"))

    def reap(self) -> None:
        """Lets the reaper warn, evict and stop every built-in kind, go on with a record, and forget one."""
        old = self._record("long-gone", "long-gone")
        self.api.create(f"{OURS}/namespaces/{NAMESPACE}/gpureclaims", old)
        self._make_workloads()
        alone = {"metadata": {"name": "alone", **idle_template("alone")["metadata"]}, "spec": gpu_spec()}
        uid = self.api.create(self.pods, alone)["metadata"]["uid"]
        self.api.wait(lambda: self._running() == PODS, 30, "a pod of every kind runs")
        write_history(self.sandbox, minutes=4, namespaces=[NAMESPACE])
        self.addresses.append(self.installation.start_reaper("--profile=enforce", *REAPER))
        self.api.wait(lambda: self._record_of("long-gone") is None, 30, "the old record is gone")
        path = f"{self.pods}/alone"
        self.api.wait(
            lambda: WARNED in self.api.get(path)["metadata"]["annotations"], 40, "the pod is warned"
        )
        begun = self._record(f"pod-{uid}", "alone", uid, self.api.get(path))
        self.api.create(f"{OURS}/namespaces/{NAMESPACE}/gpureclaims", begun)
        self.api.wait(lambda: self.api.find(path) is None, 60, "the pod is evicted")
        self.api.wait(
            lambda: (self._record_of(f"pod-{uid}") or {}).get("status", {}).get("phase") == "Accepted",
            20,
            "the record is completed",
        )
        self.api.wait(self._stopped, 60, "every owner that can be is stopped")

    def exceed(self) -> None:
        """Makes a quota that is exceeded twice over, and a reservation whose pod never comes."""
        names = {"matchLabels": {"kubernetes.io/metadata.name": CROWDED}}
        spec = {"namespaceSelector": names, "hard": {"devices": 1}}
        self.api.create(f"{OURS}/gpuquotas", {**_typed("GPUQuota", "crowded"), "spec": spec})
        self.api.wait(self._over, 30, "the quota is exceeded")
        self._set_hard(8)
        self.api.wait(lambda: not self._over(), 30, "the quota is not exceeded")
        held = f"/api/v1/namespaces/{CROWDED}/resourcequotas"
        self.api.create(held, {"metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}})
        two = f"{held}/two"
        self.api.wait(lambda: self.api.get(two).get("status", {}).get("used"), 20, "the ResourceQuota counts")
        body = {"metadata": {"name": "never"}, "spec": gpu_spec(schedulerName="nobody")}
        self.api.wait(
            lambda: "exceeded quota" in self.api.raw("POST", f"/api/v1/namespaces/{CROWDED}/pods", body).text,
            20,
            "the pod is refused after it was reserved for",
        )
        assert self._status().get("reservations")
        self.api.wait(lambda: not self._status().get("reservations"), 40, "the reservation expires")
        self._set_hard(1)
        self.api.wait(self._over, 30, "the quota is exceeded again")

    def _make_workloads(self) -> None:
        apps, batch = (f"/apis/{group}/v1/namespaces/{NAMESPACE}" for group in ("apps", "batch"))
        for name, plural in (("web", "deployments"), ("bare", "replicasets"), ("set", "statefulsets")):
            spec = {"selector": {"matchLabels": {"app": name}}, "template": idle_template(name)}
            # Budgets are listed for what goes together.
            spec["replicas"] = 2 if name == "web" else 1
            self.api.create(f"{apps}/{plural}", {"metadata": {"name": name}, "spec": spec})
        controller = {"metadata": {"name": "rc"}, "spec": {"template": idle_template("rc"), "replicas": 1}}
        self.api.create(f"/api/v1/namespaces/{NAMESPACE}/replicationcontrollers", controller)
        job = {"template": idle_template("job", restartPolicy="Never")}
        often = {"suspend": True, "schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}
        made = self.api.create(f"{batch}/cronjobs", {"metadata": {"name": "cron"}, "spec": often})
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "cron", "controller": True}
        owners = [{**owner, "uid": made["metadata"]["uid"]}]
        self.api.create(
            f"{batch}/jobs", {"metadata": {"name": "job", "ownerReferences": owners}, "spec": job}
        )

    def _stopped(self) -> bool:
        apps, batch = (f"/apis/{group}/v1/namespaces/{NAMESPACE}" for group in ("apps", "batch"))
        scaled = [f"{apps}/deployments/web", f"{apps}/replicasets/bare", f"{apps}/statefulsets/set"]
        suspended = self.api.get(f"{batch}/jobs/job")["spec"].get("suspend")
        return bool(suspended) and all(self.api.get(path)["spec"]["replicas"] == 0 for path in scaled)

    def _running(self) -> int:
        return sum(one.get("status", {}).get("phase") == "Running" for one in self.api.list(self.pods))

    def _record(self, name: str, pod: str, uid: str = "gone", made: Any = None) -> dict[str, Any]:
        decided = made["metadata"]["creationTimestamp"] if made else LONG_AGO
        about = {"action": "evict", "pod": {"name": pod, "uid": uid}, "devices": 1, "decidedAt": decided}
        return {**_typed("GPUReclaim", name), "spec": about}

    def _record_of(self, name: str) -> Any:
        return self.api.find(f"{OURS}/namespaces/{NAMESPACE}/gpureclaims/{name}")

    def _status(self) -> dict[str, Any]:
        return self.api.get(f"{OURS}/gpuquotas/crowded").get("status") or {}

    def _over(self) -> bool:
        return bool(self._status().get("over"))

    def _set_hard(self, devices: int) -> None:
        self.api.patch(f"{OURS}/gpuquotas/crowded", {"spec": {"hard": {"devices": devices}}})

    def granted(self, component: str) -> set[Right]:
        """What the roles that are bound to a component's account give."""
        rights: set[Right] = set()
        for kind in ("clusterrolebindings", "rolebindings"):
            for binding in self.api.list(f"{RBAC}/{kind}"):
                if any(_is_account(one, component) for one in binding.get("subjects") or ()):
                    rights |= self._rights(binding)
        return rights

    def _rights(self, binding: dict[str, Any]) -> set[Right]:
        reference, space = binding["roleRef"], binding["metadata"].get("namespace")
        role = f"namespaces/{space}/roles" if reference["kind"] == "Role" else "clusterroles"
        rules = self.api.get(f"{RBAC}/{role}/{reference['name']}")["rules"]
        return {
            Right(group, resource, verb, space or "", name)
            for rule in rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            for name in rule.get("resourceNames") or ("",)
        }

    def audited(self, component: str) -> list[dict[str, Any]]:
        """What the audit log has of a component's account."""
        lines = (self.sandbox.dir / "logs" / "audit.jsonl").read_text().splitlines()
        user = f'"username":"{OWN}{component}"'
        return [json.loads(line) for line in lines if user in line]

    def used(self, component: str) -> set[Right]:
        """The rights that a component's requests needed."""
        return {right for entry in self.audited(component) if (right := right_of(entry)) is not None}

    def other_groups(self) -> set[str]:
        """The groups of other projects' kinds, whose objects the reaper may read or stop."""
        values = json.loads(
            self.sandbox.helm(
                "get", "values", "gpu-tenure", "--all", "--output=json", "--namespace=gpu-tenure-system"
            ).stdout
        )
        return {"kueue.x-k8s.io", *(one["apiGroup"] for one in values["reaper"]["ownerResources"])}


def _typed(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "gpu-tenure.io/v1alpha1", "kind": kind, "metadata": {"name": name}}


def _is_account(subject: dict[str, Any], component: str) -> bool:
    wanted = ("ServiceAccount", "gpu-tenure-system", f"gpu-tenure-{component}")
    return (subject["kind"], subject.get("namespace"), subject["name"]) == wanted


def right_of(entry: dict[str, Any]) -> Right | None:
    """The right that a request in the audit log used; None if it asked for no object."""
    about = entry.get("objectRef")
    if about is None or "resource" not in about:
        return None
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    where = about.get("namespace", ""), about.get("name", "")
    return Right(about.get("apiGroup", ""), resource, entry["verb"], *where)
