from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policy.classes import (
    DEFAULT_TRUSTED_CONTROLLERS,
    ClassSettings,
    Creator,
    PodClass,
    Standing,
    class_of,
    controller_of,
)
from policy.objects import Pod

JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
OPERATOR = "system:serviceaccount:training:operator"
HUB = "system:serviceaccount:jupyter:hub"
SETTINGS = ClassSettings(creators=(HUB,))


def pod(
    owner: tuple[str, str] | None = None,
    restart: str | None = None,
    labels: Any = None,
    controller: bool = True,
) -> Pod:
    """A pod with an owner given as (apiVersion, kind)."""
    owners = (
        [{"apiVersion": owner[0], "kind": owner[1], "name": "o", "uid": "u", "controller": controller}]
        if owner
        else None
    )
    return msgspec.convert(
        {"metadata": {"labels": labels, "ownerReferences": owners}, "spec": {"restartPolicy": restart}}, Pod
    )


@pytest.mark.parametrize(
    ("owner", "labels", "expected"),
    [
        pytest.param(("batch/v1", "Job"), None, PodClass.BATCH, id="a Job is batch"),
        pytest.param(("jobset.x-k8s.io/v1alpha2", "JobSet"), None, PodClass.BATCH, id="a JobSet is batch"),
        pytest.param(("ray.io/v1", "RayJob"), None, PodClass.BATCH, id="a RayJob is batch"),
        pytest.param(("ray.io/v1", "RayCluster"), None, PodClass.BATCH, id="a RayCluster is batch"),
        pytest.param(("kubeflow.org/v1", "PyTorchJob"), None, PodClass.BATCH, id="a PyTorchJob is batch"),
        pytest.param(
            ("kubeflow.org/v2beta1", "MPIJob"), None, PodClass.BATCH, id="an MPIJob of any version is batch"
        ),
        pytest.param(("argoproj.io/v1alpha1", "Workflow"), None, PodClass.BATCH, id="a Workflow is batch"),
        pytest.param(
            ("kubeflow.org/v1", "Notebook"), None, PodClass.INTERACTIVE, id="a Notebook is interactive"
        ),
        pytest.param(
            ("apps/v1", "StatefulSet"),
            {"notebook-name": "n"},
            PodClass.INTERACTIVE,
            id="a notebook's set too",
        ),
        pytest.param(
            ("apps/v1", "StatefulSet"), {"app": "n"}, PodClass.SERVING, id="another StatefulSet serves"
        ),
        pytest.param(
            ("apps/v1", "ReplicaSet"), {"notebook-name": "n"}, PodClass.SERVING, id="a ReplicaSet serves"
        ),
        pytest.param(
            ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
            None,
            PodClass.SERVING,
            id="a LeaderWorkerSet serves",
        ),
        pytest.param(
            ("serving.kserve.io/v1beta1", "InferenceService"),
            None,
            PodClass.SERVING,
            id="an InferenceService serves",
        ),
        pytest.param(
            ("example.com/v1", "Job"),
            None,
            PodClass.SERVING,
            id="a kind of that name in another group serves",
        ),
        pytest.param(
            ("v1", "ReplicationController"), None, PodClass.SERVING, id="a kind of the core group serves"
        ),
    ],
)
@pytest.mark.parametrize(
    "creator", [JOB_CONTROLLER, OPERATOR], ids=["by a trusted controller", "by an operator"]
)
def test_classes_by_controller(creator: str, owner: tuple[str, str], labels: Any, expected: PodClass) -> None:
    """A controller's class comes from the table, whatever the restart policy says."""
    decision = class_of(pod(owner, "Always", labels), Creator(creator), "team", SETTINGS)
    assert decision.pod_class is expected
    assert decision.controller is not None
    assert decision.standing is (Standing.TRUSTED if creator == JOB_CONTROLLER else Standing.UNKNOWN)
    assert decision.is_job is (owner == ("batch/v1", "Job"))
    assert decision.reason


@pytest.mark.parametrize(
    ("creator", "standing"),
    [
        pytest.param(
            "system:kube-controller-manager", Standing.TRUSTED, id="the controller manager is trusted"
        ),
        pytest.param(JOB_CONTROLLER, Standing.TRUSTED, id="a built-in controller is trusted"),
        pytest.param(OPERATOR, Standing.UNKNOWN, id="a service account of another namespace is an operator"),
        pytest.param(
            "system:serviceaccount:team:default", Standing.IGNORED, id="one of the same namespace forges"
        ),
        pytest.param("jane", Standing.IGNORED, id="a person forges"),
        pytest.param("system:node:worker-1", Standing.IGNORED, id="a node's mirror pod has no controller"),
        pytest.param(f"{JOB_CONTROLLER}2", Standing.UNKNOWN, id="names are exact"),
        pytest.param("system:serviceaccount:", Standing.IGNORED, id="half a service account is a person"),
        pytest.param("system:serviceaccount:training:", Standing.IGNORED, id="a service account has a name"),
        pytest.param("", Standing.IGNORED, id="nobody is a person"),
        pytest.param(None, Standing.TRUSTED, id="an object without its request is believed"),
    ],
)
def test_whose_references_count(creator: str | None, standing: Standing) -> None:
    """Only controllers, and operators from elsewhere, may say who controls a pod."""
    who = None if creator is None else Creator(creator)
    given = pod(("batch/v1", "Job"), "Always")
    decision = controller_of(given.metadata, who, "team", SETTINGS)
    assert decision.standing is standing
    assert (decision.reference is None) is (standing is Standing.IGNORED)
    expected = PodClass.SERVING if standing is Standing.IGNORED else PodClass.BATCH
    assert class_of(given, who, "team", SETTINGS).pod_class is expected


@pytest.mark.parametrize(
    ("restart", "creator", "expected"),
    [
        pytest.param("Never", "jane", PodClass.BATCH, id="a pod that runs once is batch"),
        pytest.param("OnFailure", "jane", PodClass.BATCH, id="one that runs until it succeeds is batch"),
        pytest.param("Always", "jane", PodClass.SERVING, id="one that always runs serves"),
        pytest.param(None, "jane", PodClass.SERVING, id="the default is Always"),
        pytest.param("OnFailure", HUB, PodClass.INTERACTIVE, id="a listed creator makes interactive pods"),
        pytest.param("Always", HUB, PodClass.INTERACTIVE, id="whatever their restart policy"),
        pytest.param("Never", f"{HUB}x", PodClass.BATCH, id="creators are exact names"),
    ],
)
def test_classes_without_controller(restart: str | None, creator: str, expected: PodClass) -> None:
    """Without a controller the creator decides, else the restart policy."""
    decision = class_of(pod(None, restart), Creator(creator), "team", SETTINGS)
    assert decision.pod_class is expected
    assert decision.controller is None
    assert decision.standing is Standing.NONE


def test_an_owner_that_does_not_control_is_no_controller() -> None:
    """Only the reference with `controller: true` counts."""
    decision = class_of(
        pod(("batch/v1", "Job"), "Always", controller=False), Creator(JOB_CONTROLLER), "team", SETTINGS
    )
    assert (decision.pod_class, decision.controller) == (PodClass.SERVING, None)


def test_a_forged_reference_is_said() -> None:
    """The reason names the forgery, so that `explain` can show it."""
    decision = class_of(pod(("apps/v1", "ReplicaSet"), "Never"), Creator("jane"), "team", SETTINGS)
    assert decision.pod_class is PodClass.BATCH
    assert "not written by a controller" in decision.reason


def test_operators_are_added_by_exact_name() -> None:
    """A listed operator is trusted, also in its own namespace."""
    settings = ClassSettings(trusted_controllers=(*DEFAULT_TRUSTED_CONTROLLERS, OPERATOR))
    decision = class_of(pod(("kubeflow.org/v1", "PyTorchJob")), Creator(OPERATOR), "training", settings)
    assert (decision.pod_class, decision.standing) == (PodClass.BATCH, Standing.TRUSTED)
