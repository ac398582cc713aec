"""The validating path of workloads: the right of who sends one, and warnings about its pods' images."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile
from webhook.answers import Allowed, Denied
from webhook.decision import Decision, Outcome
from webhook.review import UserInfo
from webhook.rights import Right
from webhook.workload_validation import shapes_of, validate_workload

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

Object = dict[str, Any]
MakePod = Callable[..., Object]


class Given:
    """Rights as a test gives them; remembers who was asked for."""

    def __init__(self, right: Right) -> None:
        self.right = right
        self.asked: list[str] = []

    async def may_use(self, user: UserInfo, policy: str, namespace: str) -> Right:
        """The right that was given."""
        assert (policy, namespace) == ("ml", "team-a")
        self.asked.append(user.username)
        return self.right


def workload(api_version: str, kind: str, spec: Object) -> Object:
    """A workload."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}


def made_by(pod: Object) -> dict[str, Object]:
    """Workloads of many kinds that make this pod."""
    template = {"spec": pod["spec"], "metadata": {}}
    job = {"template": template}
    return {
        "Job": workload("batch/v1", "Job", job),
        "CronJob": workload("batch/v1", "CronJob", {"jobTemplate": {"spec": job}}),
        "Deployment": workload("apps/v1", "Deployment", {"template": template}),
        "ReplicaSet": workload("apps/v1", "ReplicaSet", {"template": template}),
        "StatefulSet": workload("apps/v1", "StatefulSet", {"template": template}),
        "DaemonSet": workload("apps/v1", "DaemonSet", {"template": template}),
        "ReplicationController": workload("v1", "ReplicationController", {"template": template}),
        "PyTorchJob": workload(
            "kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"template": template}}}
        ),
        "RayJob": workload(
            "ray.io/v1", "RayJob", {"rayClusterSpec": {"workerGroupSpecs": [{"template": template}]}}
        ),
        "JobSet": workload(
            "jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"template": {"spec": job}}]}
        ),
        "Workflow": workload(
            "argoproj.io/v1alpha1", "Workflow", {"templates": [{"container": pod["spec"]["containers"][0]}]}
        ),
    }


KINDS = sorted(made_by({"spec": {"containers": [{}]}}))


@pytest.fixture
def guarded(door: Door) -> Door:
    """A door whose policy wants the right, and limits images."""
    return door.policy("ml", requireUse=True, images={"allowed": ["reg.example"]})


def good(pod: MakePod, gpus: int = 1) -> Object:
    """A pod with an allowed image."""
    made = pod(gpus)
    made["spec"]["containers"][0]["image"] = "reg.example/x"
    return made


async def check(door: Door, obj: Object, given: Given) -> Decision:
    """Runs the validating path of workloads."""
    request, settings = door.request(obj), door.settings()
    shapes = shapes_of(request, door.world(), settings, door.memory)
    return await validate_workload(request, shapes, settings, given)


@pytest.mark.parametrize("kind", KINDS)
async def test_who_sends_a_workload_needs_the_right(guarded: Door, pod: MakePod, kind: str) -> None:
    """Its pods will come from a controller, which nobody asks."""
    given = Given(Right.DENIED)
    decision = await check(guarded, made_by(good(pod))[kind], given)
    assert decision.outcome is Outcome.REFUSED
    assert isinstance(decision.answer, Denied)
    assert "dev-a may not use GPUPolicy ml in namespace team-a" in decision.answer.message
    assert decision.answer.warnings == ()
    assert given.asked == ["dev-a"]


@pytest.mark.parametrize("kind", KINDS)
async def test_who_has_the_right_passes_in_silence(guarded: Door, pod: MakePod, kind: str) -> None:
    """Nothing else is refused or said."""
    decision = await check(guarded, made_by(good(pod))[kind], Given(Right.ALLOWED))
    assert (decision.outcome, decision.answer, decision.policy) == (Outcome.CHECKED, Allowed(), "ml")
    assert decision.is_gpu


@pytest.mark.parametrize("kind", KINDS)
async def test_workloads_without_gpus_are_nobodys_business(guarded: Door, pod: MakePod, kind: str) -> None:
    """They are admitted unasked."""
    given = Given(Right.DENIED)
    decision = await check(guarded, made_by(good(pod, 0))[kind], given)
    assert (decision.outcome, decision.answer, given.asked) == (Outcome.NOT_GPU, Allowed(), [])


@pytest.mark.parametrize("kind", KINDS)
async def test_images_are_only_told(guarded: Door, pod: MakePod, kind: str) -> None:
    """Another webhook may give the pods other images; whoever makes the workload is warned."""
    decision = await check(guarded, made_by(pod())[kind], Given(Right.ALLOWED))
    assert decision.allowed
    assert decision.warnings[0].startswith("gpu-tenure: its pods would not pass: GPUPolicy ml does not allow")


async def test_trusted_controllers_pass_unasked(guarded: Door, pod: MakePod) -> None:
    """A ReplicaSet of a Deployment, a Job of a CronJob."""
    guarded.user = "system:serviceaccount:kube-system:cronjob-controller"
    given = Given(Right.DENIED)
    assert (await check(guarded, made_by(good(pod))["Job"], given)).allowed
    assert given.asked == []


@pytest.mark.parametrize("profile", [Profile.OBSERVE, Profile.WARN])
async def test_where_nothing_is_enforced_a_refusal_is_a_warning(
    guarded: Door, pod: MakePod, profile: Profile
) -> None:
    """And a question without an answer is nothing."""
    guarded.profile = profile
    deployment = made_by(good(pod))["Deployment"]
    (warning,) = (await check(guarded, deployment, Given(Right.DENIED))).warnings
    assert warning.startswith("gpu-tenure: would be refused: dev-a may not use GPUPolicy ml")
    assert (await check(guarded, deployment, Given(Right.UNKNOWN))).answer == Allowed()


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        pytest.param({"operation": "UPDATE"}, Outcome.NOT_CREATE, id="updates"),
        pytest.param({"namespace": "kube-system"}, Outcome.EXCLUDED, id="excluded namespaces"),
        pytest.param(
            {"namespace_labels": {"gpu-tenure.io/enforcement": "disabled"}},
            Outcome.OPTED_OUT,
            id="disabled namespaces",
        ),
        pytest.param({"namespace_known": False}, Outcome.NAMESPACE_UNKNOWN, id="unknown namespaces"),
    ],
)
async def test_what_is_not_checked(
    guarded: Door, pod: MakePod, change: dict[str, Any], outcome: Outcome
) -> None:
    """The same gates as for pods."""
    for name, value in change.items():
        setattr(guarded, name, value)
    decision = await check(guarded, made_by(good(pod))["Deployment"], Given(Right.DENIED))
    assert (decision.outcome, decision.answer) == (outcome, Allowed())


async def test_other_kinds_are_not_ours(guarded: Door) -> None:
    """A kind that makes no pods is admitted, whatever it holds."""
    decision = await check(guarded, workload("example.com/v1", "Thing", {}), Given(Right.DENIED))
    assert (decision.outcome, decision.answer) == (Outcome.NOT_OURS, Allowed())
