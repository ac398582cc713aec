"""Whole reviews, as API servers send them, and random changes of them, for the tests that send such reviews.

A change that keeps the type of a value is one that an API server could send; any other may be malformed.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonpatch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from policy.keys import KUEUE_MAX_EXEC_TIME, Annotation
from policy.objects import Namespace, ObjectMeta
from policy.profile import Profile
from policy.selection import PolicySet
from runtime.clock import SystemClock
from webhook.app import Admission
from webhook.metrics import WebhookMetrics
from webhook.own import OWN_ANNOTATIONS, OWN_LABELS
from webhook.review import UserInfo
from webhook.rights import Right
from webhook.scene import AdmissionSettings

Object = dict[str, Any]
Path = tuple[str | int, ...]
P = "gpu-tenure.io/"
POLICY: Object = {
    "idle": {"action": "evict", "after": "2h"},
    "deadline": {"default": "1h", "max": "2h"},
    "bounds": {"after": {"min": "1h", "max": "9h"}, "exemption": "24h"},
    "scheduling": {
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "nodeSelector": {"pool": "gpu"},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        },
    },
    "images": {"allowed": ["reg.example", "python:3.12"]},
    "requireUse": True,
}
TERM: Object = {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}
POD_SPEC: Object = {
    "restartPolicy": "Never",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "activeDeadlineSeconds": 3600,
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
    "nodeSelector": {"disk": "fast"},
    "runtimeClassName": "nvidia",
    "hostNetwork": False,
    "overhead": {"cpu": "100m"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}},
        "podAffinity": {},
    },
    "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
    "initContainers": [
        {"name": "side", "image": "reg.example/side:1", "restartPolicy": "Always", "resources": {}},
        {"name": "init", "image": "python", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
    ],
    "containers": [
        {
            "name": "main",
            "image": "evil.example/x@sha256:" + "0" * 64,
            "command": ["python", "-c", "pass"],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
            ],
            "resources": {
                "limits": {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "4000", "cpu": "1"},
                "requests": {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "4000", "cpu": "500m"},
            },
            "securityContext": {"privileged": True},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "ephemeralContainers": [{"name": "debug", "image": "busybox"}],
    "volumes": [
        {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "i", "image": {"reference": "reg.example/models:1"}},
    ],
}
METADATA: Object = {
    "name": "p",
    "namespace": "team-a",
    "creationTimestamp": None,
    "labels": {"app": "x", f"{P}idle-after": "3h", "kueue.x-k8s.io/queue-name": "q"},
    "annotations": {
        "note": "y",
        f"{P}deadline": "kept",
        f"{P}requested-by": "somebody",
        "gpu-fraction": "0.5",
    },
    "ownerReferences": [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "j",
            "uid": "u",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ],
    "finalizers": ["a/b"],
    "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:metadata": {}}}],
}
TEMPLATE: Object = {"metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}}, "spec": POD_SPEC}
JOB_SPEC: Object = {"template": TEMPLATE, "parallelism": 2, "completions": 4, "activeDeadlineSeconds": 99}
SPECS: dict[tuple[str, str], Object] = {
    ("v1", "Pod"): POD_SPEC,
    ("batch/v1", "Job"): JOB_SPEC,
    ("batch/v1", "CronJob"): {"schedule": "* * * * *", "jobTemplate": {"spec": JOB_SPEC}},
    ("apps/v1", "Deployment"): {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "x"}},
        "template": TEMPLATE,
    },
    ("apps/v1", "StatefulSet"): {"replicas": 3, "serviceName": "s", "template": TEMPLATE},
    ("kubeflow.org/v1", "PyTorchJob"): {
        "runPolicy": {"activeDeadlineSeconds": 50},
        "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}},
    },
    ("ray.io/v1", "RayJob"): {
        "activeDeadlineSeconds": 50,
        "rayClusterSpec": {
            "headGroupSpec": {"template": TEMPLATE},
            "workerGroupSpecs": [{"replicas": 2, "template": TEMPLATE}],
        },
    },
    ("kubeflow.org/v1", "Notebook"): {"template": TEMPLATE},
    ("argoproj.io/v1alpha1", "Workflow"): {
        "templates": [{"name": "a", "container": POD_SPEC["containers"][0]}, {"name": "b", "steps": [[]]}]
    },
}
BUILT_IN = [kind for kind in SPECS if kind[0] in {"v1", "batch/v1", "apps/v1"}]
TEXTS = st.sampled_from(
    [
        "",
        "x" * 64,
        "9h",
        "exempt",
        "evict",
        "1500m",
        "1e3",
        "-1",
        "reg.example.evil/x",
        "a b",
        "\u2028",
        "é",
        "\x00",
    ]
)
NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, 60])
KEYS = st.sampled_from(
    [*OWN_LABELS, *OWN_ANNOTATIONS, Annotation.REQUESTED_BY.value, "unknown", "nvidia.com/gpu"]
)
WRITTEN = {*OWN_LABELS, *OWN_ANNOTATIONS, Annotation.REQUESTED_BY.value, KUEUE_MAX_EXEC_TIME}
"""Keys of maps that admission writes or removes."""
FIELDS = {"activeDeadlineSeconds", "priority", "preemptionPolicy", "priorityClassName"}


class Known:
    """Caches with one namespace and one policy."""

    synced = True

    def __init__(self, spec: Object, labels: dict[str, str]) -> None:
        policy = {"apiVersion": f"{P}v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "p"}, "spec": spec}
        self.policies = PolicySet.of([policy])
        assert not self.policies.invalid
        self._labels = labels

    def namespace(self, name: str) -> Namespace | None:
        """Any namespace."""
        return Namespace(ObjectMeta(name=name, labels=self._labels))

    async def wait_namespace(self, name: str, timeout: float) -> Namespace | None:  # noqa: ASYNC109, ARG002
        """The same, at once."""
        return self.namespace(name)


class Granted:
    """Rights that are as they were drawn."""

    def __init__(self, right: Right) -> None:
        self._right = right

    async def may_use(self, user: UserInfo, policy: str, namespace: str) -> Right:  # noqa: ARG002
        """The same for everybody."""
        return self._right


def make_door(labels: dict[str, str], profile: Profile, right: Right, fields: frozenset[str]) -> Admission:
    """The whole decision path, under a policy with some of the fields above."""
    known = Known({name: block for name, block in POLICY.items() if name in fields}, labels)
    metrics = WebhookMetrics(CollectorRegistry())
    return Admission(known, AdmissionSettings(profile=profile), metrics, SystemClock(), 0.0, Granted(right))


doors = st.builds(
    make_door,
    st.sampled_from([{}, {f"{P}enforcement": "dry-run"}]),
    st.sampled_from(list(Profile)),
    st.sampled_from(list(Right)),
    st.frozensets(st.sampled_from(sorted(POLICY))),
)
changes = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.sampled_from(["delete", "null", "text", "number", "flip", "repeat", "clear", "add"]),
        TEXTS,
        NUMBERS,
        KEYS,
    ),
    max_size=6,
)
USERS = ("dev-a", "system:serviceaccount:kube-system:job-controller", "system:serviceaccount:ops:op", "")


def make_request(kind: tuple[str, str], user: str, *, update: bool) -> Object:
    """A request as an API server sends it."""
    group, _, version = kind[0].rpartition("/")
    obj = {"apiVersion": kind[0], "kind": kind[1], "metadata": METADATA, "spec": SPECS[kind], "status": {}}
    return copy.deepcopy(
        {
            "uid": "0001",
            "kind": {"group": group, "version": version, "kind": kind[1]},
            "resource": {"group": group, "version": version, "resource": f"{kind[1].lower()}s"},
            "requestKind": {"group": group, "version": version, "kind": kind[1]},
            "name": "p",
            "namespace": "team-a",
            "operation": "UPDATE" if update else "CREATE",
            "userInfo": {"username": user, "uid": "1", "groups": ["g"], "extra": {"scope": ["a"]}},
            "object": obj,
            "oldObject": obj if update else None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        }
    )


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all values below one."""
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, item in pairs:
        yield (*path, key)
        yield from places(item, (*path, key))


def change(obj: Object, changed: list[Any], *, keeps_types: bool) -> None:
    """Changes an object in place; with `keeps_types` only as far as types allow."""
    for index, how, text, number, key in changed:
        found = [path for path in places(obj) if path not in {("apiVersion",), ("kind",)}]
        if not found:
            return
        *above, last = found[index % len(found)]
        parent: Any = obj
        for step in above:
            parent = parent[step]
        if how == "delete" or (how == "null" and (isinstance(parent[last], dict | list) or not keeps_types)):
            _remove(parent, last, how)
        elif how == "add":
            free = not keeps_types or last in {"labels", "annotations"}
            if isinstance(parent[last], dict) and free:
                parent[last][key] = text
        else:
            parent[last] = _other(parent[last], how, text, number, keeps_types=keeps_types)


def _remove(parent: Any, last: str | int, how: str) -> None:
    """Takes a field out of a mapping, or makes it null."""
    if isinstance(parent, dict) and how == "delete":
        del parent[last]
    elif isinstance(parent, dict):
        parent[last] = None


def _other(old: Any, how: str, text: str, number: int, *, keeps_types: bool) -> Any:
    """Another value in the place of one, the same where the change does not fit it."""
    is_number = isinstance(old, int) and not isinstance(old, bool)
    fitting: dict[str, tuple[bool, Any]] = {
        "text": (isinstance(old, str) or not keeps_types, text),
        "number": (is_number or not keeps_types, number),
        "flip": (isinstance(old, bool), not old),
        "repeat": (isinstance(old, list), old * 2 if isinstance(old, list) else old),
        "null": (False, old),
        "clear": (isinstance(old, dict | list), type(old)() if isinstance(old, dict | list) else old),
    }
    fits, value = fitting[how]
    return value if fits else old


async def send(door: Admission, path: str, request: Object) -> Object:
    """The response to a request."""
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = door.routes()[path](json.dumps(body).encode())
    document = answer if isinstance(answer, bytes) else await answer
    response: Object = json.loads(document)["response"]
    assert response["uid"] == request["uid"]
    assert isinstance(response["allowed"], bool)
    for warning in response.get("warnings", []):
        assert warning.isprintable()
        assert len(warning) <= 120
    return response


def patched(obj: Object, response: Object) -> Object:
    """The object after the patch of a response."""
    operations = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    result: Object = jsonpatch.apply_patch(copy.deepcopy(obj), operations)
    return result


def lost(before: Any, after: Any, path: Path = ()) -> Iterator[Path]:
    """What of a value is missing or other in another, beside what admission writes; lists may grow."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, item in before.items():
            if key in WRITTEN or key in FIELDS:
                continue
            if key not in after:
                yield (*path, key)
            else:
                yield from lost(item, after[key], (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for index, item in enumerate(before):
            yield from lost(item, after[index], (*path, index))
    elif before is None and isinstance(after, dict | list):
        return
    elif before != after:
        yield path


FAST = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
