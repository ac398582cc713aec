"""The class of a pod, from who controls it and who created it; reads no policy and no labels of ours."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from policy.objects import ObjectMeta, OwnerReference, Pod


class PodClass(StrEnum):
    """What a pod is for."""

    INTERACTIVE = "interactive"
    BATCH = "batch"
    SERVING = "serving"


class Creator(Struct, frozen=True):
    """Who sent the request that created an object."""

    username: str
    groups: tuple[str, ...] = ()


class Standing(StrEnum):
    """How far a controller reference is believed."""

    NONE = "none"
    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    IGNORED = "ignored"


class ControllerDecision(Struct, frozen=True):
    """The controller of an object (None where there is none that counts) and how far it is believed."""

    reference: OwnerReference | None
    standing: Standing


class ClassDecision(Struct, frozen=True):
    """The class of a pod, the controller that counted for it, and a sentence that says why."""

    pod_class: PodClass
    controller: OwnerReference | None
    reason: str
    standing: Standing = Standing.NONE

    @property
    def is_job(self) -> bool:
        """Whether a Job controls the pod."""
        return self.controller is not None and _key(self.controller) == JOB


_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
JOB: Final = ("batch", "Job")
STATEFUL_SET: Final = ("apps", "StatefulSet")
NOTEBOOK_LABEL: Final = "notebook-name"

DEFAULT_TRUSTED_CONTROLLERS: Final[tuple[str, ...]] = (
    "system:kube-controller-manager",
    *(
        f"{_SERVICE_ACCOUNT}kube-system:{name}-controller"
        for name in ("cronjob", "daemon-set", "deployment", "job", "replicaset", "replication", "statefulset")
    ),
)
"""The built-in controllers, with and without service accounts of their own."""

CONTROLLER_CLASSES: Final[dict[tuple[str, str], PodClass]] = {
    JOB: PodClass.BATCH,
    ("jobset.x-k8s.io", "JobSet"): PodClass.BATCH,
    ("ray.io", "RayJob"): PodClass.BATCH,
    ("ray.io", "RayCluster"): PodClass.BATCH,
    ("kubeflow.org", "JAXJob"): PodClass.BATCH,
    ("kubeflow.org", "MPIJob"): PodClass.BATCH,
    ("kubeflow.org", "MXJob"): PodClass.BATCH,
    ("kubeflow.org", "PaddleJob"): PodClass.BATCH,
    ("kubeflow.org", "PyTorchJob"): PodClass.BATCH,
    ("kubeflow.org", "TFJob"): PodClass.BATCH,
    ("kubeflow.org", "XGBoostJob"): PodClass.BATCH,
    ("trainer.kubeflow.org", "TrainJob"): PodClass.BATCH,
    ("argoproj.io", "Workflow"): PodClass.BATCH,
    ("kubeflow.org", "Notebook"): PodClass.INTERACTIVE,
}
"""(API group, kind) of an immediate controller; every other kind serves."""


class ClassSettings(Struct, frozen=True):
    """Exact user names: whose controller references are believed, and who creates interactive pods."""

    trusted_controllers: tuple[str, ...] = DEFAULT_TRUSTED_CONTROLLERS
    creators: tuple[str, ...] = ()


def controller_of(
    metadata: ObjectMeta, creator: Creator | None, namespace: str, settings: ClassSettings
) -> ControllerDecision:
    """Decides whether an object's controller reference counts.

    Anybody can write one. It counts from trusted controllers, and from service accounts of other namespaces,
    which are taken for operators. A creator of None (an object read back, without its request) is believed.
    """
    reference = metadata.controller
    if reference is None:
        return ControllerDecision(None, Standing.NONE)
    if creator is None or creator.username in settings.trusted_controllers:
        return ControllerDecision(reference, Standing.TRUSTED)
    home = _service_account_namespace(creator.username)
    if home is not None and home != namespace:
        return ControllerDecision(reference, Standing.UNKNOWN)
    return ControllerDecision(None, Standing.IGNORED)


def class_of(pod: Pod, creator: Creator | None, namespace: str, settings: ClassSettings) -> ClassDecision:
    """The class of a pod that `creator` makes in `namespace`."""
    decision = controller_of(pod.metadata, creator, namespace, settings)
    if decision.reference is not None:
        pod_class = _class_by_table(decision.reference, pod.metadata.labels or {})
        who = "an unlisted service account" if decision.standing is Standing.UNKNOWN else "a controller"
        reason = f"made by {who} for {decision.reference.kind or 'an unnamed kind'}"
        return ClassDecision(pod_class, decision.reference, reason, decision.standing)
    return _class_without_controller(pod, creator, decision.standing, settings)


def _class_by_table(reference: OwnerReference, labels: dict[str, str]) -> PodClass:
    """The class that a controller gives to its pods."""
    key = _key(reference)
    if key == STATEFUL_SET and NOTEBOOK_LABEL in labels:
        return PodClass.INTERACTIVE
    return CONTROLLER_CLASSES.get(key, PodClass.SERVING)


def _class_without_controller(
    pod: Pod, creator: Creator | None, standing: Standing, settings: ClassSettings
) -> ClassDecision:
    """The class of a pod that nobody controls, or whose reference nobody may have written."""
    forged = (
        "its controller reference was not written by a controller; " if standing is Standing.IGNORED else ""
    )
    if creator is not None and creator.username in settings.creators:
        return ClassDecision(PodClass.INTERACTIVE, None, f"{forged}made by {creator.username}", standing)
    policy = pod.spec.restart_policy or "Always"
    pod_class = PodClass.BATCH if policy in {"Never", "OnFailure"} else PodClass.SERVING
    return ClassDecision(pod_class, None, f"{forged}no controller, restartPolicy {policy}", standing)


def _key(reference: OwnerReference) -> tuple[str, str]:
    """How the tables name a kind; versions do not matter."""
    return reference.group, reference.kind


def _service_account_namespace(username: str) -> str | None:
    """The namespace of a service account's user name, None for anybody else."""
    if not username.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, colon, name = username.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return namespace if colon and namespace and name else None
