"""The guards of Jobs and of selectors, on a real API server, with no process of ours running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from policy.keys import Annotation, Label
from sandbox.api import Reply
from sandbox.cluster import Sandbox

DEADLINE = Annotation.DEADLINE
LIMITED = ["injected", "kept", "lowered"]

pytestmark = pytest.mark.usefixtures("enforce")


def refused(reply: Reply, guard: str, status: int = 403) -> bool:
    """Whether this guard refused."""
    return reply.status == status and f"'gpu-tenure-guard-{guard}'" in reply.json["message"]


def template(labels: dict[str, str] | None = None, restart: str = "Always") -> dict[str, Any]:
    """The template of a pod."""
    spec = {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"labels": labels or {}}, "spec": spec}


@pytest.fixture
def job(sandbox: Sandbox, namespace: str) -> Callable[..., str]:
    """Creates a suspended Job and gives its path."""

    def call(deadline: str | None, seconds: int | None) -> str:
        annotations = {} if deadline is None else {DEADLINE: deadline}
        spec: dict[str, Any] = {"suspend": True, "template": template(restart="Never")}
        if seconds is not None:
            spec["activeDeadlineSeconds"] = seconds
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        sandbox.api().create(path, {"metadata": {"name": "j", "annotations": annotations}, "spec": spec})
        return f"{path}/j"

    return call


@pytest.mark.parametrize("subresource", ["", "/status"], ids=["jobs", "jobs/status"])
@pytest.mark.parametrize(
    ("before", "after"), [("injected", "none: JobUnmarked"), ("injected", None), (None, "kept")]
)
def test_how_a_job_got_its_deadline_stays(
    job: Callable[..., str], mallory: Any, subresource: str, before: str | None, after: str | None
) -> None:
    """The annotation is neither changed, removed nor added, through either path."""
    path = job(before, 3600)
    reply = mallory.patch(f"{path}{subresource}", {"metadata": {"annotations": {DEADLINE: after}}})
    assert refused(reply, "jobs"), reply.text
    assert "terms.gpu-tenure.io" in reply.json["message"]


@pytest.mark.parametrize("deadline", LIMITED)
@pytest.mark.parametrize("seconds", [3601, None], ids=["raised", "removed"])
def test_a_deadline_is_not_lengthened(
    job: Callable[..., str], mallory: Any, deadline: str, seconds: int | None
) -> None:
    """Where it is ours, or was found within the policy."""
    reply = mallory.patch(job(deadline, 3600), {"spec": {"activeDeadlineSeconds": seconds}})
    assert refused(reply, "jobs"), reply.text
    assert "may be lowered, but not raised above 3600 or removed" in reply.json["message"]


@pytest.mark.parametrize("deadline", LIMITED)
def test_a_deadline_may_be_lowered(job: Callable[..., str], mallory: Any, deadline: str) -> None:
    """To end sooner is anybody's right."""
    assert mallory.patch(job(deadline, 3600), {"spec": {"activeDeadlineSeconds": 60}}).status == 200


@pytest.mark.parametrize("deadline", ["would-inject", "would-lower", "none: Kueue", None])
def test_deadlines_that_are_not_ours_are_free(
    job: Callable[..., str], mallory: Any, deadline: str | None
) -> None:
    """Where enforcement is off, or the rule does not reach, the field is the user's."""
    path = job(deadline, 3600)
    assert mallory.patch(path, {"spec": {"activeDeadlineSeconds": 7200}}).status == 200
    assert mallory.patch(path, {"spec": {"activeDeadlineSeconds": None}}).status == 200


def test_the_terms_right_extends_a_job(job: Callable[..., str], writer: Callable[[str], Any]) -> None:
    """An administrator can give a Job more time, and take the deadline away."""
    path, admin = job("injected", 3600), writer("terms-admin")
    assert admin.patch(path, {"spec": {"activeDeadlineSeconds": 7200}}).status == 200
    assert admin.patch(path, {"spec": {"activeDeadlineSeconds": None}}).status == 200
    assert admin.patch(path, {"metadata": {"annotations": {DEADLINE: None}}}).status == 200


@pytest.mark.parametrize("deadline", LIMITED)
def test_a_marked_job_without_a_deadline_lives_on(
    sandbox: Sandbox, job: Callable[..., str], mallory: Any, deadline: str
) -> None:
    """Its controller's reports pass: anybody can write the annotation at creation."""
    path = job(deadline, None)
    run = {"sandbox.gpu-tenure.io/run-for": "1s"}
    assert mallory.patch(path, {"metadata": {"annotations": run}}).status == 200
    assert mallory.patch(path, {"spec": {"suspend": False}}).status == 200
    api = sandbox.api()
    api.wait(lambda: api.get(path)["status"].get("startTime"), 20, "the Job controller reports a start")


@pytest.mark.parametrize("deadline", LIMITED)
def test_a_job_with_a_deadline_lives_on(
    sandbox: Sandbox, job: Callable[..., str], mallory: Any, deadline: str
) -> None:
    """Suspending and starting pass, and so does what its controller reports."""
    path = job(deadline, 3600)
    assert mallory.patch(path, {"spec": {"suspend": False}}).status == 200
    api = sandbox.api()
    api.wait(lambda: api.get(path)["status"].get("active"), 20, "the Job controller reports a pod")


SELECTING = {
    "a Deployment": ("apps", "deployments"),
    "a ReplicaSet": ("apps", "replicasets"),
    "a StatefulSet": ("apps", "statefulsets"),
    "a DaemonSet": ("apps", "daemonsets"),
}


def workload(resource: str, selector: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """A workload of no pods with this selector."""
    spec: dict[str, Any] = {"selector": selector, "template": template(labels)}
    if resource == "statefulsets":
        spec["serviceName"] = "none"
    if resource != "daemonsets":
        spec["replicas"] = 0
    return {"metadata": {"name": "w"}, "spec": spec}


def collection(namespace: str, group: str, resource: str) -> str:
    """The path of a collection; nothing is kept of what is sent there."""
    base = f"/apis/{group}/v1" if group else "/api/v1"
    return f"{base}/namespaces/{namespace}/{resource}?dryRun=All"


@pytest.mark.parametrize(("group", "resource"), SELECTING.values(), ids=SELECTING)
@pytest.mark.parametrize("key", [*Label])
def test_no_selector_uses_our_labels(
    namespace: str, mallory: Any, group: str, resource: str, key: str
) -> None:
    """Neither as a label nor in an expression, beside others or alone."""
    path = collection(namespace, group, resource)
    labels = {"app": "a", key: "x"}
    expression = {"key": key, "operator": "In", "values": ["x"]}
    for selector in (
        {"matchLabels": labels},
        {"matchLabels": {"app": "a"}, "matchExpressions": [expression]},
    ):
        reply = mallory.send("POST", path, workload(resource, selector, labels))
        assert refused(reply, "selectors", 422), reply.text
        assert "the pod template may keep them" in reply.json["message"]


@pytest.mark.parametrize(("group", "resource"), SELECTING.values(), ids=SELECTING)
def test_templates_may_carry_our_labels(namespace: str, mallory: Any, group: str, resource: str) -> None:
    """That is how one asks for terms."""
    labels = {"app": "a", Label.IDLE_AFTER: "4h"}
    expressions = [{"key": "app", "operator": "Exists"}, {"key": "gone", "operator": "DoesNotExist"}]
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": expressions}
    reply = mallory.send("POST", collection(namespace, group, resource), workload(resource, selector, labels))
    assert reply.status == 201, reply.text


def test_a_replication_controller_selects_by_a_plain_map(namespace: str, mallory: Any) -> None:
    """Its selector is guarded too, written or defaulted from the template."""
    path = collection(namespace, "", "replicationcontrollers")
    ours = {"app": "a", Label.CLASS: "batch"}
    for selector, labels, status in (
        (ours, ours, 422),
        (None, ours, 422),
        ({"app": "a"}, ours, 201),
        (None, {"app": "a"}, 201),
    ):
        spec = {"replicas": 0, "template": template(labels)} | ({"selector": selector} if selector else {})
        reply = mallory.send("POST", path, {"metadata": {"name": "w"}, "spec": spec})
        assert reply.status == status, reply.text


def test_jobs_with_a_selector_of_their_own(namespace: str, mallory: Any) -> None:
    """A manual selector is guarded; a Job without one passes, whatever its template carries."""
    path = collection(namespace, "batch", "jobs")
    for key, status in ((Label.CLASS, 422), ("app", 201)):
        selector = {"manualSelector": True, "selector": {"matchLabels": {key: "x"}}}
        spec = {**selector, "template": template({key: "x"}, restart="Never")}
        reply = mallory.send("POST", path, {"metadata": {"name": "w"}, "spec": spec})
        assert reply.status == status, reply.text
    spec = {"template": template({Label.CLASS: "x"}, restart="Never")}
    assert mallory.send("POST", path, {"metadata": {"name": "w"}, "spec": spec}).status == 201


def test_very_many_expressions_are_refused_unread(namespace: str, mallory: Any) -> None:
    """Nobody hides our label behind 20,000 expressions, and nobody keeps the API server busy with them."""
    expressions = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(20_000)]
    expressions.append({"key": Label.CLASS, "operator": "Exists"})
    labels = {"app": "a", Label.CLASS: "x"}
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": expressions}
    path = collection(namespace, "apps", "deployments")
    assert refused(mallory.send("POST", path, workload("deployments", selector, labels)), "selectors", 422)


def test_ordinary_workloads_run(sandbox: Sandbox, namespace: str, mallory: Any) -> None:
    """A Deployment with our labels in its template reaches its replicas."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    body = workload("deployments", {"matchLabels": {"app": "a"}}, {"app": "a", Label.CLASS: "serving"})
    body["spec"]["replicas"] = 2
    assert mallory.send("POST", path, body).status == 201
    api = sandbox.api()
    api.wait(lambda: api.get(f"{path}/w")["status"].get("readyReplicas") == 2, 30, "both replicas are ready")
