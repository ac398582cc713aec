"""Builders that the tests of the webhook share, as fixtures."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest

from policy.objects import Namespace, ObjectMeta
from policy.profile import Profile
from policy.selection import PolicySet
from webhook.admission import mutate
from webhook.answers import Patched
from webhook.decision import Decision
from webhook.review import Request, read_request
from webhook.scene import AdmissionSettings, World
from webhook.subject import Memory

Object = dict[str, Any]
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


class Door:
    """Everything around one admission: policies, namespace, profile, user; and the object that comes out."""

    def __init__(self) -> None:
        self.policies: list[Object] = []
        self.namespace_labels: dict[str, str] = {}
        self.namespace_known = True
        self.profile = Profile.ENFORCE
        self.user = "dev-a"
        self.namespace = "team-a"
        self.operation = "CREATE"
        self.sub_resource = ""
        self.dry_run = False
        self.memory = Memory()

    def policy(self, name: str = "default", **spec: Any) -> Door:
        """Adds a policy."""
        self.policies.append(
            {
                "apiVersion": "gpu-tenure.io/v1alpha1",
                "kind": "GPUPolicy",
                "metadata": {"name": name},
                "spec": spec,
            }
        )
        return self

    def world(self) -> World:
        """What the caches would hold."""
        known = Namespace(ObjectMeta(name=self.namespace, labels=self.namespace_labels))
        return World(PolicySet.of(self.policies), known if self.namespace_known else None)

    def settings(self) -> AdmissionSettings:
        """What the administrator would have chosen."""
        return AdmissionSettings(profile=self.profile)

    def review(self, obj: Object) -> bytes:
        """The review that the API server would send."""
        group, _, version = str(obj["apiVersion"]).rpartition("/")
        request = {
            "uid": "0001",
            "kind": {"group": group, "version": version, "kind": obj["kind"]},
            "resource": {"group": group, "version": version, "resource": str(obj["kind"]).lower() + "s"},
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": {"username": self.user, "groups": ["system:authenticated"]},
            "object": obj,
            "oldObject": None,
            "dryRun": self.dry_run,
        }
        if self.sub_resource:
            request["subResource"] = self.sub_resource
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        return json.dumps(review).encode()

    def request(self, obj: Object) -> Request:
        """The same, read."""
        return read_request(self.review(obj))

    def decide(self, obj: Object) -> Decision:
        """What the mutating path decides."""
        return mutate(self.request(obj), self.world(), self.settings(), self.memory)

    def admit(self, obj: Object) -> tuple[Object, Decision]:
        """The object as the API server would have it after the patch, and the decision."""
        decision = self.decide(obj)
        patch = json.loads(decision.answer.patch) if isinstance(decision.answer, Patched) else []
        return jsonpatch.apply_patch(copy.deepcopy(obj), patch), decision


@pytest.fixture
def door() -> Door:
    """A door without policies, in `enforce`."""
    return Door()


@pytest.fixture
def enforced(door: Door) -> Door:
    """A door with a policy that evicts after two hours, within bounds, and has the default deadline."""
    return door.policy(
        idle={"action": "evict", "after": "2h"},
        deadline={},
        bounds={"after": {"min": "1h", "max": "4h"}, "grace": "2h", "exemption": "24h"},
    )


def make_pod(gpus: int | str = 1, /, metadata: Object | None = None, **spec: Any) -> Object:
    """A run-once pod with devices."""
    resources = {"limits": {"nvidia.com/gpu": gpus}, "requests": {"nvidia.com/gpu": gpus}} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "creationTimestamp": None} if metadata is None else metadata,
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "x", "resources": resources}],
            **spec,
        },
        "status": {},
    }


def make_job(metadata: Object | None = None, template: Object | None = None, **spec: Any) -> Object:
    """A Job of GPU pods."""
    pod = make_pod()
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"} if metadata is None else metadata,
        "spec": {"template": {**({} if template is None else template), "spec": pod["spec"]}, **spec},
    }


@pytest.fixture
def pod() -> Callable[..., Object]:
    """Makes pods."""
    return make_pod


@pytest.fixture
def job() -> Callable[..., Object]:
    """Makes Jobs."""
    return make_job


@pytest.fixture
def patch_of() -> Callable[[bytes], list[Object]]:
    """Reads the patch out of an encoded answer."""

    def read(answer: bytes) -> list[Object]:
        return json.loads(base64.b64decode(json.loads(answer)["response"]["patch"]))

    return read
