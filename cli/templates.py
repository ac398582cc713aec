"""Finds the pods that an object carries, and who would create them; decides nothing about them."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from policy.workloads import find, first, workload_kind

CONTROLLERS: Final = "system:serviceaccount:kube-system:"
UNLISTED_OPERATOR: Final = "system:serviceaccount:an-operator:operator"
"""Stands for the controllers of kinds that Kubernetes does not bring along."""

PERSON: Final = "a-person"

Creation = tuple[str, str, str]
"""Kind and API version of the controller that a pod refers to, and the account that creates it."""

BUILT_IN: Final[dict[str, Creation]] = {
    "Deployment": ("ReplicaSet", "apps/v1", f"{CONTROLLERS}replicaset-controller"),
    "ReplicaSet": ("ReplicaSet", "apps/v1", f"{CONTROLLERS}replicaset-controller"),
    "StatefulSet": ("StatefulSet", "apps/v1", f"{CONTROLLERS}statefulset-controller"),
    "DaemonSet": ("DaemonSet", "apps/v1", f"{CONTROLLERS}daemon-set-controller"),
    "ReplicationController": ("ReplicationController", "v1", f"{CONTROLLERS}replication-controller"),
    "Job": ("Job", "batch/v1", f"{CONTROLLERS}job-controller"),
}
CRON_JOB_CONTROLLER: Final = f"{CONTROLLERS}cronjob-controller"


class Carried(Struct, frozen=True):
    """A pod as its controller would send it; `path` is where its template lies in the object."""

    path: str
    pod: dict[str, Any]
    creator: str


def creator_of(obj: dict[str, Any]) -> str:
    """The account that creates such an object: that of the controller that it refers to, else a person's."""
    references = _mapping(obj.get("metadata")).get("ownerReferences")
    for reference in references if isinstance(references, list) else []:
        if isinstance(reference, dict) and reference.get("controller") is True:
            kind = str(reference.get("kind"))
            if kind == "CronJob":
                return CRON_JOB_CONTROLLER
            return BUILT_IN[kind][2] if kind in BUILT_IN else UNLISTED_OPERATOR
    return PERSON


def job_of(cron_job: dict[str, Any]) -> dict[str, Any] | None:
    """The Job that a CronJob makes, None where it has no template."""
    spec = cron_job.get("spec")
    template = spec.get("jobTemplate") if isinstance(spec, dict) else None
    if not isinstance(template, dict):
        return None
    metadata = _mapping(template.get("metadata"))
    name = _name(cron_job)
    reference = _reference("CronJob", "batch/v1", name)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "name": name, "ownerReferences": [reference]},
        "spec": template.get("spec"),
    }


def pods_of(kind: str, workload: dict[str, Any]) -> list[Carried]:
    """The pods that the controller of a workload creates, one per template."""
    creation = BUILT_IN.get(kind)
    if creation is None:
        api_version = str(workload.get("apiVersion", ""))
        creation = (kind, api_version, UNLISTED_OPERATOR)
    found = list(_templates(workload, "", 0)) or _containers(workload)
    return [Carried(path, _pod(template, creation, _name(workload)), creation[2]) for path, template in found]


def _containers(workload: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """One template per container, for kinds that have no pod templates but containers in their steps."""
    group = str(workload.get("apiVersion", "")).rpartition("/")[0]
    row = workload_kind(group, str(workload.get("kind", "")))
    if row is None:
        return []
    metadata = first(workload, row.mark) if row.mark else None
    return [
        (
            ".".join(path),
            {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}},
        )
        for place in row.containers
        for path, container in find(workload, place)
    ]


def pods_of_template(template: dict[str, Any], creator: str) -> list[Carried]:
    """The pod that somebody makes from a PodTemplate: nobody controls it."""
    return [
        Carried(path, {"apiVersion": "v1", "kind": "Pod", **found}, creator)
        for path, found in _templates(template, "", 0)
    ]


def _templates(value: object, path: str, depth: int) -> list[tuple[str, dict[str, Any]]]:
    """All pod templates below a value: mappings whose `spec` has containers."""
    if depth > 20:
        return []
    if isinstance(value, list):
        return [
            found
            for index, item in enumerate(value)
            for found in _templates(item, f"{path}[{index}]", depth + 1)
        ]
    if not isinstance(value, dict):
        return []
    spec = value.get("spec")
    if path and isinstance(spec, dict) and "containers" in spec:
        return [(path, {"metadata": value.get("metadata"), "spec": spec})]
    return [
        found
        for key, item in value.items()
        if key not in {"metadata", "status"}
        for found in _templates(item, f"{path}.{key}" if path else str(key), depth + 1)
    ]


def _pod(template: dict[str, Any], creation: Creation, owner: str) -> dict[str, Any]:
    """A pod from its template, owned as the controller would own it."""
    kind, api_version, _ = creation
    metadata = {
        **_mapping(template["metadata"]),
        "generateName": f"{owner}-",
        "ownerReferences": [_reference(kind, api_version, owner)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _reference(kind: str, api_version: str, name: str) -> dict[str, Any]:
    """A controller reference; its UID is not known offline."""
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": "", "controller": True}


def _mapping(value: object) -> dict[str, Any]:
    """The value if it is a mapping, else nothing."""
    return dict(value) if isinstance(value, dict) else {}


def _name(obj: dict[str, Any]) -> str:
    """The name of an object, or its generateName without the dash."""
    metadata = _mapping(obj.get("metadata"))
    return str(metadata.get("name") or str(metadata.get("generateName") or "unnamed").rstrip("-"))
