"""The pods of the benchmark: bare, asking, of a Job, a Deployment, a notebook; pure data, knows no review."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

Object = dict[str, Any]
CONTROLLER_ACCOUNTS = "system:serviceaccount:kube-system"
UID = "00000000-0000-4000-8000-000000000000"
"""Stands wherever something differs from pod to pod: the load generator puts a fresh one in, everywhere."""
DURATION = "77777s"
"""Stands for a duration that nobody asked for before: the load generator puts another in each time."""
DEVICE = "nvidia.com/gpu"
OWNED = ("restartPolicy", "schedulerName", "securityContext", "terminationGracePeriodSeconds", "dnsPolicy")
CREATED = "2025-03-01T08:00:00Z"


class Kind(msgspec.Struct, frozen=True):
    """A kind of pod, by what admission looks at.

    Attributes:
        name: What the figures call it.
        username: Who creates it; `{variant}` stands for a number, here and in labels.
        field_manager: The program that creates it.
        restart_policy: Of the pod.
        controller: apiVersion, kind and name of its controller.
        labels: None for a pod without labels, as `kubectl create -f` sends it.
        annotations: None for a pod without annotations.
        deadline: The pod's own activeDeadlineSeconds.
    """

    name: str
    username: str
    field_manager: str
    restart_policy: str
    controller: tuple[str, str, str] | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    deadline: int | None = None


USUAL = (
    Kind("bare", "dev-{variant}@example.com", "kubectl-create", "Never"),
    Kind(
        "asking",
        "dev-{variant}@example.com",
        "kubectl-client-side-apply",
        "OnFailure",
        labels={"app": "finetune", "gpu-tenure.io/idle-after": "9{variant}m"},
        annotations={"example.com/run": UID, "example.com/settings": "lr-3e-4"},
        deadline=86_400,
    ),
    Kind(
        "job",
        f"{CONTROLLER_ACCOUNTS}:job-controller",
        "kube-controller-manager",
        "Never",
        controller=("batch/v1", "Job", "pretrain"),
        annotations={
            "gpu-tenure.io/deadline": "job",
            "gpu-tenure.io/deadline-seconds": "604800",
            "gpu-tenure.io/requested-by": "dev-{variant}@example.com",
        },
        labels={
            "batch.kubernetes.io/job-name": "pretrain-{variant}",
            "batch.kubernetes.io/controller-uid": UID,
        },
    ),
    Kind(
        "deployment",
        f"{CONTROLLER_ACCOUNTS}:replicaset-controller",
        "kube-controller-manager",
        "Always",
        controller=("apps/v1", "ReplicaSet", "server-6d4cf56db6"),
        labels={"app": "server-{variant}", "pod-template-hash": "6d4cf56db6", "release": UID},
        annotations={"prometheus.io/scrape": "true", "prometheus.io/port": "8000"},
    ),
    Kind(
        "notebook",
        f"{CONTROLLER_ACCOUNTS}:statefulset-controller",
        "kube-controller-manager",
        "Always",
        controller=("apps/v1", "StatefulSet", "lab"),
        labels={"notebook-name": "lab-{variant}", "statefulset": "lab-{variant}", "opened": UID},
    ),
)


UNLIKE = (
    msgspec.structs.replace(
        USUAL[1], name="unlike", labels={"app": "finetune", "gpu-tenure.io/idle-after": DURATION}
    ),
)
"""Pods of which no two ask for the same terms: nothing that was decided before helps with the next."""


def variant_of(kind: Kind, variant: int) -> Kind:
    """Gives the kind with another user, other labels and annotations."""

    def filled(text: str) -> str:
        return text.replace("{variant}", str(variant))

    def of_all(texts: Mapping[str, str] | None) -> Mapping[str, str] | None:
        return None if texts is None else {key: filled(value) for key, value in texts.items()}

    return msgspec.structs.replace(
        kind,
        username=filled(kind.username),
        labels=of_all(kind.labels),
        annotations=of_all(kind.annotations),
    )


def pod(kind: Kind, entries: int, namespace: str) -> Object:
    """Gives a pod of that kind with `entries` more entries of environment, and their managedFields."""
    spec = pod_spec(kind, entries)
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata(kind, namespace, managed_fields(kind, spec)),
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def metadata(kind: Kind, namespace: str, managed: Object) -> Object:
    """Gives the metadata of an object of that kind, with one entry of managedFields."""
    name: Object = {"name": f"{kind.name}-{UID}"}
    owner: Object = {}
    if kind.controller:
        version, owner_kind, owner_name = kind.controller
        name = {"generateName": f"{owner_name}-"}
        reference = {"apiVersion": version, "kind": owner_kind, "name": owner_name}
        identity = {
            "uid": "0b6f1df7-8f2b-4c5e-9a52-3f6a3a5ad3c4",
            "controller": True,
            "blockOwnerDeletion": True,
        }
        owner = {"ownerReferences": [reference | identity]}
    maps = {"labels": kind.labels, "annotations": kind.annotations}
    return {
        **name,
        "namespace": namespace,
        **{key: dict(value) for key, value in maps.items() if value is not None},
        **owner,
        "managedFields": [managed],
    }


def pod_spec(kind: Kind, entries: int) -> Object:
    """Gives the specification of a pod with `entries` more entries of environment."""
    deadline = {"activeDeadlineSeconds": kind.deadline} if kind.deadline else {}
    return {
        "volumes": _volumes(),
        "initContainers": [_container("fetch", "registry.example.com/ml/fetch:2.4", {}, 2)],
        "containers": [
            _container("trainer", "registry.example.com/ml/trainer:25.01", {DEVICE: "2"}, 6 + entries),
            _container("metrics", "registry.example.com/ml/metrics:1.9", {}, 2),
        ],
        "restartPolicy": kind.restart_policy,
        "terminationGracePeriodSeconds": 30,
        **deadline,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {"fsGroup": 2000},
        "affinity": _affinity(),
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": DEVICE, "operator": "Exists", "effect": "NoSchedule"},
            *(_toleration(key) for key in ("not-ready", "unreachable")),
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _affinity() -> Object:
    product = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A100", "H100"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [product]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _toleration(key: str) -> Object:
    untimed = {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    return {**untimed, "tolerationSeconds": 300}


def _volumes() -> list[Object]:
    projected = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    return [
        {"name": "data", "persistentVolumeClaim": {"claimName": "datasets"}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "200Gi"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
        {"name": "kube-api-access", "projected": {"sources": projected, "defaultMode": 420}},
    ]


def _container(name: str, image: str, devices: Mapping[str, str], entries: int) -> Object:
    amounts = {"cpu": "8", "memory": "64Gi", **devices}
    paths = {"data": "/data", "scratch": "/scratch", "shm": "/dev/shm"}  # noqa: S108 -- a path in a pod
    return {
        "name": name,
        "image": image,
        "command": ["python", "-m", f"{name}.main"],
        "args": ["--config", "/data/config.yaml", "--resume", "--log-every", "50"],
        "env": [_entry(index) for index in range(entries)],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in paths.items()],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _entry(index: int) -> Object:
    if index % 8 == 7:
        reference = {"name": "training-settings", "key": f"option-{index}", "optional": True}
        return {"name": f"OPTION_{index:03d}", "valueFrom": {"configMapKeyRef": reference}}
    if index % 16 == 3:
        return {"name": f"LAYOUT_{index:03d}", "value": f'{{"shard": {index}, "path": "/data/{index}"}}'}
    return {"name": f"SETTING_{index:03d}", "value": f"/data/imagenet/shard-{index:05d}/part-0.parquet"}


def managed_fields(kind: Kind, spec: Object) -> Object:
    """Gives the entry of managedFields for whoever made a pod with that specification."""
    owned = {"f:metadata": _owned_maps(kind), "f:spec": _owned_spec(spec)}
    return managed_entry(kind, "v1", owned)


def managed_template_fields(kind: Kind, spec: Object) -> Object:
    """Gives the same for a Job whose template has that specification."""
    template = {"f:metadata": _owned_maps(kind), "f:spec": _owned_spec(spec)}
    owned = {"f:metadata": _owned_maps(kind), "f:spec": {"f:backoffLimit": {}, "f:template": template}}
    return managed_entry(kind, "batch/v1", owned)


def managed_entry(kind: Kind, version: str, owned: Object) -> Object:
    """Gives an entry of managedFields with the fields that somebody owns."""
    return {
        "manager": kind.field_manager,
        "operation": "Update",
        "apiVersion": version,
        "time": CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned,
    }


def _owned_maps(kind: Kind) -> Object:
    maps = {"f:labels": kind.labels, "f:annotations": kind.annotations}
    return {key: _every(value) for key, value in maps.items() if value is not None}


def _owned_spec(spec: Object) -> Object:
    containers = {f'k:{{"name":"{one["name"]}"}}': _owned(one) for one in spec["containers"]}
    return {"f:containers": containers, **{f"f:{name}": {} for name in OWNED}}


def _owned(container: Object) -> Object:
    env: Object = {f'k:{{"name":"{entry["name"]}"}}': _every(entry) for entry in container["env"]}
    mounts: Object = {
        f'k:{{"mountPath":"{mount["mountPath"]}"}}': _every(mount) for mount in container["volumeMounts"]
    }
    plain: Object = {
        f"f:{key}": {} for key in ("command", "args", "image", "imagePullPolicy", "name", "resources")
    }
    return {".": {}, **plain, "f:env": {".": {}, **env}, "f:volumeMounts": {".": {}, **mounts}}


def _every(fields: Iterable[str]) -> Object:
    return {".": {}, **{f"f:{field}": {} for field in fields}}
