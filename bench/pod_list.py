"""Pods of a large cluster as an API server lists them: many without a GPU, some with; made from templates."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bench.pods import DEVICE, UID, USUAL, Kind, Object, managed_entry, pod, pod_spec

STARTED = "2025-03-01T08:00:02Z"
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
WEB = Kind(
    "web",
    "system:serviceaccount:kube-system:replicaset-controller",
    "kube-controller-manager",
    "Always",
    controller=("apps/v1", "ReplicaSet", "web-6d4cf56db6"),
    labels={"app": "web", "pod-template-hash": "6d4cf56db6"},
    annotations={"prometheus.io/scrape": "true", "prometheus.io/port": "8000"},
)
"""A service without a GPU, as most pods of a cluster are."""

NAME, NODE, VERSION = "@name@", "@node@", "@version@"
NODES = 2_000
NAMESPACES = 300
EVERY = 15
"""One of so many pods holds GPUs."""


def _running(kind: Kind, spec: Object) -> Object:
    """Gives the object of a pod that runs, with all that a kubelet writes."""
    made = pod(kind, 0, "@namespace@")
    metadata = made["metadata"]
    metadata |= {"name": NAME, "uid": UID, "resourceVersion": VERSION, "creationTimestamp": STARTED}
    conditions = [
        {"type": name, "status": "True", "lastProbeTime": None, "lastTransitionTime": STARTED}
        for name in CONDITIONS
    ]
    statuses = [_container_status(container) for container in spec["containers"]]
    status = {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": "10.0.0.1",
        "podIP": "10.1.2.3",
        "podIPs": [{"ip": "10.1.2.3"}],
        "startTime": STARTED,
        "containerStatuses": statuses,
        "qosClass": "Burstable",
    }
    owned: Object = {f"f:{key}": {} for key in (*status, *CONDITIONS)}
    kubelet = managed_entry(kind, "v1", {"f:status": owned}) | {"manager": "kubelet", "subresource": "status"}
    metadata["managedFields"] = [*metadata["managedFields"], kubelet]
    return {"metadata": metadata, "spec": {**spec, "nodeName": NODE}, "status": status}


def _container_status(container: Object) -> Object:
    return {
        "name": container["name"],
        "state": {"running": {"startedAt": STARTED}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": container["image"],
        "imageID": f"{container['image']}@sha256:{'a' * 64}",
        "containerID": f"containerd://{'b' * 64}",
        "started": True,
    }


def _without_devices(spec: Object) -> Object:
    """The specification with one small container and no GPU."""
    small = [one for one in spec["containers"] if DEVICE not in one["resources"]["limits"]]
    return {**spec, "initContainers": [], "containers": small, "affinity": {}}


TEMPLATES: Mapping[bool, bytes] = {
    False: msgspec.json.encode(_running(WEB, _without_devices(pod_spec(WEB, 0)))),
    True: msgspec.json.encode(_running(USUAL[2], pod_spec(USUAL[2], 0))),
}
"""A pod without and one with GPUs."""


def listed_pod(number: int, version: int, every: int = EVERY) -> bytes:
    """Gives the pod of a number as JSON; each has its own name, UID, namespace and node."""
    gpu = number % every == 0
    text = TEMPLATES[gpu]
    for placeholder, value in (
        ("@namespace@", f"team-{number % NAMESPACES}"),
        (NAME, f"pod-{number:06d}"),
        (UID, f"00000000-0000-4000-8000-{number:012d}"),
        (VERSION, str(version)),
        (NODE, f"node-{number % NODES}"),
    ):
        text = text.replace(placeholder.encode(), value.encode())
    return text


def page(begin: int, end: int, total: int) -> bytes:
    """Gives the page of a list of `total` pods that begins and ends (exclusively) at these numbers."""
    more = str(end) if end < total else ""
    head = {"resourceVersion": str(total + 1), "continue": more, "remainingItemCount": total - end}
    items = b",".join(listed_pod(number, number + 1) for number in range(begin, end))
    opening = b'{"kind":"PodList","apiVersion":"v1","metadata":' + msgspec.json.encode(head)
    return opening + b',"items":[' + items + b"]}\n"


def event(number: int, version: int, every: int) -> bytes:
    """Gives the line of a watch that tells a change of one pod."""
    return b'{"type":"MODIFIED","object":' + listed_pod(number, version, every) + b"}\n"
