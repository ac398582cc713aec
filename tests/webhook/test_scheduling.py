"""Scheduling defaults: what the mutating path writes into pods, and what it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.resourcequota import NamespaceQuotas
from policy.scheduling import PriorityClasses
from webhook.decision import Outcome

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

Object = dict[str, Any]
Make = Callable[..., Object]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
A100 = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]}
SCHEDULING = {
    "priorityClassName": "gpu",
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "nodeSelector": {"pool": "gpu"},
    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [A100]}},
}
COMPUTED = {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
FIELDS = ("priorityClassName", "priority", "preemptionPolicy", "tolerations", "nodeSelector", "affinity")


@pytest.fixture
def scheduled(door: Door) -> Door:
    """A door whose policy has scheduling defaults, in a cluster that has its class."""
    door.priority_classes = PriorityClasses(frozenset({"gpu", "std"}), "std")
    return door.policy(deadline={}, scheduling=SCHEDULING)


def fields(pod: Object) -> Object:
    """The scheduling fields of a pod."""
    return {name: pod["spec"][name] for name in FIELDS if name in pod["spec"]}


def test_a_pod_without_any(scheduled: Door, pod: Make) -> None:
    """It gets all of them, and what the API server had computed from no class goes."""
    admitted, decision = scheduled.admit(pod(**COMPUTED))
    assert fields(admitted) == {
        "priorityClassName": "gpu",
        "tolerations": SCHEDULING["tolerations"],
        "nodeSelector": {"pool": "gpu"},
        "affinity": {"nodeAffinity": SCHEDULING["nodeAffinity"]},
    }
    told = "scheduling: priorityClassName, tolerations, nodeSelector, nodeAffinity set by the policy"
    assert told in decision.reasons


def test_the_second_call_finds_the_priority_of_the_new_class(scheduled: Door, pod: Make) -> None:
    """Removing it again would leave the pod without one, since the class is only looked up once more."""
    admitted, _ = scheduled.admit(pod(**COMPUTED))
    admitted["spec"] |= {"priority": 1000, "preemptionPolicy": "Never"}
    assert scheduled.admit(admitted)[1].outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(
    ("own", "got"),
    [
        pytest.param({"priorityClassName": "std", "priority": 7}, {"priorityClassName": "gpu"}, id="default"),
        pytest.param(
            {"priorityClassName": "mine", "priority": 7},
            {"priorityClassName": "mine", "priority": 7},
            id="own",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {"x": [1]}}},
            {"affinity": {"podAffinity": {"x": [1]}, "nodeAffinity": SCHEDULING["nodeAffinity"]}},
            id="an affinity to pods",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ZONE, ZONE]}}}},
            {
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [*ZONE["matchExpressions"], *A100["matchExpressions"]]}
                            ]
                            * 2
                        }
                    }
                }
            },
            id="terms of its own",
        ),
        pytest.param({"nodeSelector": None, "tolerations": None, "affinity": None}, {}, id="null fields"),
    ],
)
def test_what_a_pod_has_already(scheduled: Door, pod: Make, own: Object, got: Object) -> None:
    """A user's choice stays; only node affinity is narrowed."""
    admitted, _ = scheduled.admit(pod(**own))
    assert fields(admitted).items() >= got.items()
    if "priority" not in got:
        assert "priority" not in admitted["spec"]
    assert scheduled.admit(admitted)[1].outcome is Outcome.UNCHANGED


def test_a_class_that_does_not_exist_is_not_written(scheduled: Door, pod: Make) -> None:
    """The pod would be refused; the rest is written all the same."""
    scheduled.priority_classes = PriorityClasses()
    admitted, decision = scheduled.admit(pod(**COMPUTED))
    assert fields(admitted).items() >= COMPUTED.items()
    assert "priorityClassName" not in admitted["spec"]
    assert admitted["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert "PriorityClass gpu does not exist, so none is set" in decision.reasons


JOB_POD = {
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}],
    "annotations": {"gpu-tenure.io/deadline": "none: Kueue"},
}


@pytest.mark.parametrize(
    ("metadata", "user"),
    [
        pytest.param({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "dev-a", id="queued"),
        pytest.param({"labels": {"kueue.x-k8s.io/managed": "true"}}, "dev-a", id="managed"),
        pytest.param({"labels": {"kueue.x-k8s.io/podset": "main"}}, "dev-a", id="of a set of pods"),
        pytest.param(JOB_POD, "system:serviceaccount:kube-system:job-controller", id="of a queued Job"),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}]},
            "system:serviceaccount:kube-system:daemon-set-controller",
            id="of a DaemonSet, which has chosen the node",
        ),
    ],
)
def test_pods_that_others_schedule(scheduled: Door, pod: Make, metadata: Object, user: str) -> None:
    """Terms yes, scheduling fields never."""
    scheduled.user = user
    admitted, decision = scheduled.admit(pod(metadata=metadata, **COMPUTED))
    assert fields(admitted) == COMPUTED
    assert admitted["metadata"]["labels"]["gpu-tenure.io/policy"] == "default"
    assert decision.outcome is Outcome.PATCHED


@pytest.mark.parametrize("user", ["dev-a", "system:serviceaccount:kube-system:job-controller"])
def test_a_forged_mark_of_kueue_is_none(scheduled: Door, pod: Make, user: str) -> None:
    """Only a Job's controller passes on what the Job's template says; a bare pod says nothing of Kueue."""
    scheduled.user = user
    annotations = {"gpu-tenure.io/deadline": "none: Kueue"}
    admitted, _ = scheduled.admit(pod(metadata={"annotations": annotations}))
    assert admitted["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert admitted["metadata"]["annotations"]["gpu-tenure.io/deadline"] == "injected"


@pytest.mark.parametrize(
    "odd", [{"tolerations": "x"}, {"affinity": {"nodeAffinity": []}}, {"nodeSelector": [1]}]
)
def test_fields_of_a_form_that_no_api_server_sends(scheduled: Door, pod: Make, odd: Object) -> None:
    """A forged review gets an answer, without those fields in it."""
    admitted, decision = scheduled.admit(pod(**odd))
    assert decision.allowed
    assert json.dumps(admitted["spec"]).count(json.dumps(odd)[1:-1]) == 1


def test_a_scoped_quota_keeps_deadlines_away(enforced: Door, pod: Make, job: Make) -> None:
    """A deadline would move the pod from one quota to another."""
    enforced.quotas = NamespaceQuotas(scoped=True)
    for obj in (pod(), job()):
        admitted, decision = enforced.admit(obj)
        assert decision.deadline == "none: ScopedQuota"
        assert "activeDeadlineSeconds" not in admitted["spec"]
