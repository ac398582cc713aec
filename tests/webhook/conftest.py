"""Builders that the tests of the webhook share, as fixtures."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import jsonpatch
import pytest

from policy.classes import DEFAULT_TRUSTED_CONTROLLERS
from policy.objects import Namespace, ObjectMeta
from policy.profile import Profile
from policy.requester import RequesterSource
from policy.resourcequota import NO_QUOTAS
from policy.scheduling import PriorityClasses
from policy.selection import PolicySet
from sandbox.api import Reply
from sandbox.balancer import Balancer, Mode
from sandbox.deadline import wait
from sandbox.install import Installation
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
        self.namespace_annotations: dict[str, str] = {}
        self.quotas = NO_QUOTAS
        self.priority_classes = PriorityClasses()
        self.sources: tuple[RequesterSource, ...] = ()
        self.trusted = DEFAULT_TRUSTED_CONTROLLERS

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
        metadata = ObjectMeta(
            name=self.namespace, labels=self.namespace_labels, annotations=self.namespace_annotations
        )
        known = Namespace(metadata) if self.namespace_known else None
        return World(
            PolicySet.of(self.policies), known, quotas=self.quotas, priority_classes=self.priority_classes
        )

    def settings(self) -> AdmissionSettings:
        """What the administrator would have chosen."""
        return AdmissionSettings(
            profile=self.profile, trusted_controllers=self.trusted, requester_sources=self.sources
        )

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


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
SELECTED = {"webhook-tests": "yes"}
HUB = "system:serviceaccount:hub:hub"
SOURCES = {"GPU_TENURE_WEBHOOK_REQUESTER_SOURCES": f"{HUB}=annotation:hub.jupyter.org/username"}
"""Environment of the webhook: a hub that acts for others."""
POLICY_NAME = "webhook-tests"


class Site:
    """The installed chart with a running webhook, whose two paths can fail one by one."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.sandbox = installation.sandbox
        self.mutating = Balancer()
        self.validating = Balancer()
        self.profile = ""

    def set_profile(self, profile: str) -> None:
        """Changes the profile as an administrator does, and returns when all of it is in force."""
        if profile == self.profile:
            return
        self.installation.stop_webhooks(seconds=2)
        self.installation.upgrade({"profile": profile})
        self._route("mutatingwebhookconfigurations/zz-gpu-tenure", self.mutating, "/mutate")
        self._route("validatingwebhookconfigurations/gpu-tenure", self.validating, "/validate")
        self.installation.start_webhooks(1, ["--drain=2s"], SOURCES)
        self.share_backends()
        self.profile = profile
        wait(self._in_force, 30, f"the profile {profile} is in force")

    def share_backends(self) -> None:
        """Sends both paths to the replicas that run, once all of them are ready."""
        for balancer in (self.mutating, self.validating):
            balancer.set_backends(self.installation.webhooks.values())

    def set_modes(self, mutating: Mode, validating: Mode) -> None:
        """Lets the two paths fail, or work again; cuts what is connected."""
        self.mutating.mode, self.validating.mode = mutating, validating

    def create(self, path: str, obj: Object, *, dry_run: bool = False, user: str = "") -> Reply:
        """Creates an object as the administrator or somebody who may do as much; a refusal is an answer."""
        return self.send("POST", f"{path}?dryRun=All" if dry_run else path, obj, user)

    def send(self, method: str, path: str, obj: Object | None = None, user: str = "") -> Reply:
        """Sends a request as the administrator, or as somebody who may do as much."""
        headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"} if user else {}
        return self.sandbox.api().raw(method, path, obj, headers)

    def close(self) -> None:
        """Puts back what others expect."""
        self.installation.stop_webhooks(seconds=2)
        self.installation.upgrade({"profile": "observe"})
        for balancer in (self.mutating, self.validating):
            balancer.close()
        self.sandbox.api().delete(f"{POLICIES}/{POLICY_NAME}")

    def _route(self, configuration: str, balancer: Balancer, path: str) -> None:
        """Sends one path through a balancer of its own."""
        hooks = self.sandbox.api().get(f"{ADMISSION}/{configuration}")["webhooks"]
        patch = [
            {"op": "replace", "path": f"/webhooks/{index}/clientConfig/url", "value": balancer.url(path)}
            for index in range(len(hooks))
        ]
        self.sandbox.api().patch(f"{ADMISSION}/{configuration}", patch, type="json")

    def _in_force(self) -> bool:
        """Whether both paths are called, and the policy of the tests has been read."""
        reply = self.create("/api/v1/namespaces/site/pods", make_pod(), dry_run=True)
        labels = reply.json.get("metadata", {}).get("labels") or {}
        policy = labels.get("gpu-tenure.io/policy")
        return policy == POLICY_NAME and bool(self.mutating.connections and self.validating.connections)


@pytest.fixture(scope="module")
def site(installation: Installation) -> Iterator[Site]:
    """The webhook behind a real API server, with a policy that evicts and has deadlines."""
    policy = {
        "apiVersion": "gpu-tenure.io/v1alpha1",
        "kind": "GPUPolicy",
        "metadata": {"name": POLICY_NAME},
        "spec": {
            "priority": 1000,
            "namespaceSelector": {"matchLabels": SELECTED},
            "idle": {"action": "evict", "after": "2h"},
            "bounds": {"after": {"min": "1h", "max": "4h"}},
            "deadline": {},
        },
    }
    api = installation.sandbox.api()
    api.create(POLICIES, policy)
    if api.raw("GET", "/api/v1/namespaces/site").status == 404:
        api.create_namespace("site", SELECTED)
    site = Site(installation)
    try:
        yield site
    finally:
        site.close()


@pytest.fixture
def selected(make_namespace: Callable[..., str]) -> str:
    """A fresh namespace that the policy of the site selects."""
    return make_namespace(SELECTED)
