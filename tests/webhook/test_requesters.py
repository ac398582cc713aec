"""Who asked: what the mutating path writes on pods and on the templates of workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.requester import parse_source
from webhook.decision import Outcome

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

KEY = "gpu-tenure.io/requested-by"
HUB = "system:serviceaccount:hub:hub"
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
Object = dict[str, Any]
Make = Callable[..., Object]


@pytest.mark.parametrize(
    ("user", "annotations", "requester"),
    [
        pytest.param("dev-a", {}, "dev-a", id="its creator"),
        pytest.param("dev-a", {KEY: "dev-b"}, "dev-a", id="a forged one is overwritten"),
        pytest.param("system:serviceaccount:x:y", {KEY: "dev-b"}, "system:serviceaccount:x:y", id="unlisted"),
        pytest.param(CONTROLLER, {KEY: "dev-b"}, "dev-b", id="a controller's pod inherits it"),
        pytest.param(CONTROLLER, {}, None, id="or has none to inherit"),
        pytest.param(HUB, {"hub/user": "dev-c", KEY: "dev-b"}, "dev-c", id="a hub says for whom"),
        pytest.param(HUB, {KEY: "dev-b"}, "owner-n", id="or its namespace does"),
    ],
)
def test_a_pod(
    enforced: Door, pod: Make, user: str, annotations: dict[str, str], requester: str | None
) -> None:
    """The pod says who asked for it, and saying it again changes nothing."""
    enforced.user = user
    enforced.sources = tuple(
        parse_source(f"{HUB}={place}") for place in ("annotation:hub/user", "namespace-annotation:owner")
    )
    enforced.namespace_annotations = {"owner": "owner-n"}
    admitted, decision = enforced.admit(pod(metadata={"annotations": annotations}))
    assert admitted["metadata"]["annotations"].get(KEY) == requester
    assert (f"requested by {requester}" in decision.reasons) is (requester is not None)
    assert enforced.admit(admitted)[1].outcome is Outcome.UNCHANGED


def test_a_job_of_a_cron_job_inherits_from_its_template(enforced: Door, job: Make) -> None:
    """The CronJob's controller makes it; the template says who made the CronJob."""
    enforced.user = "system:serviceaccount:kube-system:cronjob-controller"
    admitted, _ = enforced.admit(job(template={"metadata": {"annotations": {KEY: "dev-a"}}}))
    assert admitted["spec"]["template"]["metadata"]["annotations"][KEY] == "dev-a"
    assert KEY not in admitted["metadata"]["annotations"]


def test_a_job_of_a_portal_is_asked_for_by_whom_the_job_names(enforced: Door, job: Make) -> None:
    """A source may be on the Job itself, but what is forged there does not count."""
    enforced.user, enforced.sources = "portal", (parse_source("portal=label:user"),)
    original = job(metadata={"labels": {"user": "dev-c"}, "annotations": {KEY: "dev-b"}})
    admitted, _ = enforced.admit(original)
    assert admitted["spec"]["template"]["metadata"]["annotations"][KEY] == "dev-c"


def test_a_forged_value_without_a_true_one_is_removed(enforced: Door, pod: Make) -> None:
    """A hub that names nobody leaves nobody."""
    enforced.user, enforced.sources = HUB, (parse_source(f"{HUB}=label:user"),)
    admitted, _ = enforced.admit(pod(metadata={"annotations": {KEY: "dev-b"}}))
    assert KEY not in admitted["metadata"]["annotations"]


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_nothing_is_stamped_again(enforced: Door, pod: Make, operation: str) -> None:
    """Only creations are looked at: an update that lost the annotation keeps its pods as they are."""
    enforced.operation = operation
    assert enforced.decide(pod()).outcome is Outcome.NOT_CREATE


@pytest.mark.parametrize(
    ("user", "requester"),
    [
        pytest.param("dev-a", "dev-a", id="a person's is made true"),
        pytest.param(
            "system:serviceaccount:kube-system:cronjob-controller", "dev-b", id="a template's stays"
        ),
    ],
)
def test_a_step_of_a_flow_names_nobody_else(enforced: Door, pod: Make, user: str, requester: str) -> None:
    """Argo writes a step's own annotations over those that all pods have; steps that say nothing stay so."""
    enforced.user = user
    container = pod()["spec"]["containers"][0]
    steps = [
        {"container": container, "metadata": {"annotations": {KEY: "dev-b"}}},
        {"container": container, "metadata": {"annotations": {"a": "b"}}},
        {"container": container},
    ]
    flow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"}}
    admitted, _ = enforced.admit({**flow, "spec": {"templates": steps}})
    assert admitted["spec"]["templates"][0]["metadata"]["annotations"] == {KEY: requester}
    assert admitted["spec"]["templates"][1:] == steps[1:]
    assert enforced.admit(admitted)[1].outcome is Outcome.UNCHANGED
