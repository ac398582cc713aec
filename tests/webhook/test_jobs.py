"""What the mutating path decides about Jobs and about the pods that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile
from webhook.decision import Outcome

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

P = "gpu-tenure.io/"
Object = dict[str, Any]
Make = Callable[..., Object]
ASKED_BY = {f"{P}requested-by": "dev-a"}
MARKED = {f"{P}deadline": "job", f"{P}deadline-seconds": "604800", **ASKED_BY}
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(None, id="a template without metadata"),
        pytest.param({"metadata": None}, id="a template whose metadata is null"),
        pytest.param({"metadata": {}}, id="a template with empty metadata"),
        pytest.param({"metadata": {"annotations": None, "labels": {"a": "b"}}}, id="null annotations"),
        pytest.param({"metadata": {"annotations": {"x/y": "z"}}}, id="a template with annotations"),
        pytest.param({"metadata": {"annotations": {f"{P}deadline": "none: Kueue"}}}, id="a forged mark"),
    ],
)
def test_a_job_gets_a_deadline_and_its_template_a_mark(
    enforced: Door, job: Make, template: Object | None
) -> None:
    """The Job's own field bounds it; its pods only say so."""
    original = job(template=template)
    admitted, decision = enforced.admit(original)
    assert admitted["spec"]["activeDeadlineSeconds"] == 604800
    assert admitted["metadata"]["annotations"] == {f"{P}deadline": "injected"}
    annotations = admitted["spec"]["template"]["metadata"]["annotations"]
    assert {key: value for key, value in annotations.items() if key.startswith(P)} == MARKED
    assert admitted["spec"]["template"]["spec"] == original["spec"]["template"]["spec"]
    assert decision.deadline == "injected"
    assert decision.terms is None
    assert enforced.admit(admitted)[1].outcome is Outcome.UNCHANGED


def test_a_pod_of_a_marked_job_carries_the_jobs_deadline_and_none_of_its_own(
    enforced: Door, job: Make, pod: Make
) -> None:
    """Retries would multiply a deadline on pods: they only repeat what the Job has."""
    admitted, _ = enforced.admit(job())
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    template = admitted["spec"]["template"]
    enforced.user = JOB_CONTROLLER
    made, decision = enforced.admit(
        pod(metadata={**template["metadata"], "generateName": "j-", "ownerReferences": [reference]})
    )
    assert decision.deadline == "job"
    assert made["metadata"]["annotations"] == MARKED
    assert "activeDeadlineSeconds" not in made["spec"]
    assert made["metadata"]["labels"][f"{P}class"] == "batch"


@pytest.mark.parametrize(
    ("own", "note", "seconds"),
    [
        pytest.param(60, "kept", 60, id="a shorter one stays"),
        pytest.param(0, "kept", 0, id="zero is the user's own end at once"),
        pytest.param(2**40, "lowered", 1209600, id="one beyond 32 bits is lowered"),
    ],
)
def test_a_jobs_own_deadline(enforced: Door, job: Make, own: int, note: str, seconds: int) -> None:
    """The smaller of the user's and the maximum holds, and the template carries it."""
    admitted, decision = enforced.admit(job(activeDeadlineSeconds=own))
    assert decision.deadline == note
    assert admitted["spec"]["activeDeadlineSeconds"] == seconds
    assert admitted["spec"]["template"]["metadata"]["annotations"][f"{P}deadline-seconds"] == str(seconds)


def test_observe_says_what_would_be_on_the_job_and_its_pods(enforced: Door, job: Make) -> None:
    """Without enforcement nothing is written into the Job's spec but the mark of its template."""
    enforced.profile = Profile.OBSERVE
    admitted, decision = enforced.admit(job())
    assert decision.deadline == "would-inject"
    assert "activeDeadlineSeconds" not in admitted["spec"]
    marks = admitted["spec"]["template"]["metadata"]["annotations"]
    assert marks == {f"{P}deadline": "would-inject", **ASKED_BY}


def test_with_pod_deadlines_the_job_has_none_and_each_pod_its_own(door: Door, job: Make, pod: Make) -> None:
    """`deadline.jobs: pod` moves the deadline to the pods of the Job."""
    door.policy(deadline={"jobs": "pod"})
    admitted, decision = door.admit(job())
    assert decision.deadline == "none: PolicyHasNone"
    assert "activeDeadlineSeconds" not in admitted["spec"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    door.user = JOB_CONTROLLER
    template = admitted["spec"]["template"]["metadata"]
    made, _ = door.admit(pod(metadata={**template, "ownerReferences": [reference]}))
    assert made["spec"]["activeDeadlineSeconds"] == 604800


def test_without_deadlines_of_jobs_neither_job_nor_pods_have_one(door: Door, job: Make, pod: Make) -> None:
    """`deadline.jobs: none` leaves Jobs alone, but not bare pods."""
    door.policy(deadline={"jobs": "none"})
    admitted, decision = door.admit(job())
    assert decision.deadline == "none: PolicyHasNone"
    assert "activeDeadlineSeconds" not in admitted["spec"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    template = admitted["spec"]["template"]["metadata"]
    assert door.admit(pod())[0]["spec"]["activeDeadlineSeconds"] == 604800
    door.user = JOB_CONTROLLER
    made, _ = door.admit(pod(metadata={**template, "ownerReferences": [reference]}))
    assert "activeDeadlineSeconds" not in made["spec"]


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        pytest.param({"operation": "UPDATE"}, Outcome.NOT_CREATE, id="updates"),
        pytest.param({"namespace": "monitoring"}, Outcome.EXCLUDED, id="excluded namespaces"),
        pytest.param({"namespace_known": False}, Outcome.NAMESPACE_UNKNOWN, id="unknown namespaces"),
    ],
)
def test_jobs_that_are_left_alone(
    enforced: Door, job: Make, change: dict[str, Any], outcome: Outcome
) -> None:
    """The same gates stand before Jobs as before pods."""
    for name, value in change.items():
        setattr(enforced, name, value)
    assert enforced.decide(job()).outcome is outcome


def test_a_job_without_devices_or_template_is_left_alone(enforced: Door, job: Make) -> None:
    """CPU Jobs pass untouched."""
    plain = job()
    plain["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    assert enforced.decide(plain).outcome is Outcome.NOT_GPU
    assert enforced.decide({**plain, "spec": {}}).outcome is Outcome.NOT_GPU
    assert enforced.decide({**plain, "spec": None}).outcome is Outcome.NOT_GPU


def test_what_kueue_manages_keeps_its_own_limits(enforced: Door, job: Make, pod: Make) -> None:
    """Kueue has a limit of its own: its Jobs and pods get no deadline from us, but terms they do."""
    queued = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
    admitted, decision = enforced.admit(job(metadata={"name": "j", **queued}))
    assert decision.deadline == "none: Kueue"
    assert "activeDeadlineSeconds" not in admitted["spec"]
    made, decision = enforced.admit(pod(metadata=queued))
    assert decision.deadline == "none: Kueue"
    assert "activeDeadlineSeconds" not in made["spec"]
    assert made["metadata"]["labels"][f"{P}idle-after"] == "2h"
