"""The webhook behind a real API server: what pods, Jobs and the pods of workloads come out as."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile
from sandbox.balancer import Mode

if TYPE_CHECKING:
    from tests.webhook.conftest import Site

P = "gpu-tenure.io/"
Object = dict[str, Any]
Make = Callable[..., Object]
WEEK = 604800


@pytest.fixture(autouse=True)
def enforcing(site: Site) -> None:
    """All of these run under `enforce`."""
    site.set_profile(Profile.ENFORCE)


def unscheduled(pod: Object) -> Object:
    """The pod, left alone by the scheduler."""
    pod["spec"]["schedulerName"] = "nobody"
    return pod


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"name": "p"}, id="labels and annotations absent"),
        pytest.param({"name": "p", "labels": None, "annotations": None}, id="null"),
        pytest.param({"name": "p", "labels": {}, "annotations": {}}, id="empty"),
        pytest.param({"name": "p", "labels": {"a": "b"}, "annotations": {"x/y": "z"}}, id="filled"),
        pytest.param({"generateName": "p-"}, id="generateName"),
    ],
)
def test_a_bare_pod(site: Site, selected: str, pod: Make, metadata: Object) -> None:
    """Terms and deadline are there whatever maps the manifest had, and what was in them stays."""
    reply = site.create(f"/api/v1/namespaces/{selected}/pods", unscheduled(pod(metadata=metadata)))
    assert reply.status == 201, reply.text
    labels, annotations = reply.json["metadata"]["labels"], reply.json["metadata"]["annotations"]
    assert labels.items() >= (metadata.get("labels") or {}).items()
    assert annotations.items() >= (metadata.get("annotations") or {}).items()
    assert labels[f"{P}policy"] == "webhook-tests"
    assert labels[f"{P}class"] == "batch"
    assert annotations[f"{P}deadline"] == "injected"
    assert reply.json["spec"]["activeDeadlineSeconds"] == WEEK


def test_a_quota_that_counts_pods_with_deadlines_keeps_them_off(site: Site, selected: str, pod: Make) -> None:
    """With a deadline the pod would be refused, and without the webhook it would not."""
    spec = {"hard": {"requests.nvidia.com/gpu": "0"}, "scopes": ["Terminating"]}
    api, pods = site.sandbox.api(), f"/api/v1/namespaces/{selected}/pods"
    api.create(f"/api/v1/namespaces/{selected}/resourcequotas", {"metadata": {"name": "q"}, "spec": spec})

    def admitted() -> bool:
        reply = site.create(pods, unscheduled(pod(metadata={"name": "p"})), dry_run=True)
        notes = reply.json["metadata"].get("annotations", {}) if reply.status == 201 else {}
        return notes.get(f"{P}deadline") == "none: ScopedQuota"

    api.wait(admitted, 20, "the pod is admitted without a deadline")


def test_the_pods_of_a_deployment(site: Site, selected: str, pod: Make) -> None:
    """Its pods get the terms of a server and no deadline; its template stays, so no pod is made twice."""
    api = site.sandbox.api()
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": unscheduled(pod(restartPolicy="Always"))["spec"],
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    created = api.create(f"/apis/apps/v1/namespaces/{selected}/deployments", body)
    pods = f"/api/v1/namespaces/{selected}/pods"
    made = api.wait(lambda: (found := api.list(pods)) and len(found) == 2 and found, 30, "two pods exist")
    metadata = created["spec"]["template"]["metadata"]
    assert metadata["labels"] == {"app": "d"}
    assert metadata["annotations"] == {f"{P}requested-by": "admin"}
    for one in made:
        assert one["metadata"]["labels"][f"{P}class"] == "serving"
        assert one["metadata"]["annotations"][f"{P}deadline"] == "none: ControllerOwned"
        assert "activeDeadlineSeconds" not in one["spec"]


def test_a_job_and_its_pods(site: Site, selected: str, job: Make) -> None:
    """The Job has the deadline, its pods say so, and people can still extend the Job."""
    api = site.sandbox.api()
    jobs = f"/apis/batch/v1/namespaces/{selected}/jobs"
    original = job()
    unscheduled(original["spec"]["template"])
    created = api.create(jobs, original)
    assert created["spec"]["activeDeadlineSeconds"] == WEEK
    assert created["metadata"]["annotations"][f"{P}deadline"] == "injected"
    pods = f"/api/v1/namespaces/{selected}/pods"
    made = api.wait(lambda: api.list(pods), 30, "the Job's pod exists")[0]
    assert made["metadata"]["annotations"][f"{P}deadline"] == "job"
    assert made["metadata"]["annotations"][f"{P}deadline-seconds"] == str(WEEK)
    assert made["metadata"]["labels"][f"{P}class"] == "batch"
    assert "activeDeadlineSeconds" not in made["spec"]
    extended = api.patch(f"{jobs}/j", {"spec": {"activeDeadlineSeconds": 2 * WEEK}})
    assert extended["spec"]["activeDeadlineSeconds"] == 2 * WEEK


def test_what_is_replaced_reaches_the_user_of_kubectl(site: Site, selected: str, tmp_path: Any) -> None:
    """Kubectl prints the warning with both values."""
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: asks, labels: {{{P}idle-after: 9h}}}}
spec:
  schedulerName: nobody
  restartPolicy: Never
  containers: [{{name: main, image: x, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]
"""
    )
    done = site.sandbox.kubectl("apply", "-n", selected, "-f", str(manifest))
    assert "idle-after: asked '9h', got 4h" in done.stderr


def test_a_dry_run_gets_the_same_answer(site: Site, selected: str, pod: Make) -> None:
    """Nothing is stored, and the API server lets us answer."""
    path = f"/api/v1/namespaces/{selected}/pods"
    reply = site.create(path, pod(), dry_run=True)
    assert reply.json["metadata"]["labels"][f"{P}policy"] == "webhook-tests"
    assert site.sandbox.api().list(path) == []


def test_a_new_namespace_is_known_in_time(site: Site, make_namespace: Callable[..., str], pod: Make) -> None:
    """The first pod of a namespace gets its terms although the watch has just told of it."""
    for _ in range(3):
        namespace = make_namespace({"webhook-tests": "yes"})
        reply = site.create(f"/api/v1/namespaces/{namespace}/pods", unscheduled(pod()))
        assert reply.json["metadata"]["labels"][f"{P}policy"] == "webhook-tests"


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        pytest.param({f"{P}enforcement": "dry-run"}, "would-inject", id="dry-run: terms, and no deadline"),
        pytest.param({f"{P}enforcement": "disabled"}, None, id="disabled: untouched"),
    ],
)
def test_opting_out(
    site: Site, make_namespace: Callable[..., str], pod: Make, labels: dict[str, str], note: str | None
) -> None:
    """By the label of the namespace."""
    namespace = make_namespace({"webhook-tests": "yes", **labels})
    reply = site.create(f"/api/v1/namespaces/{namespace}/pods", unscheduled(pod()))
    annotations = reply.json["metadata"].get("annotations") or {}
    assert annotations.get(f"{P}deadline") == note
    assert "activeDeadlineSeconds" not in reply.json["spec"]
    assert (f"{P}policy" in (reply.json["metadata"].get("labels") or {})) == (note is not None)


def test_a_pod_that_missed_the_mutating_webhook_is_told_by_the_validating_one(
    site: Site, selected: str, pod: Make
) -> None:
    """It is admitted, and its creator reads why it carries no terms."""
    site.set_modes(Mode.REFUSE, Mode.PASS)
    try:
        reply = site.create(f"/api/v1/namespaces/{selected}/pods", unscheduled(pod()))
    finally:
        site.set_modes(Mode.PASS, Mode.PASS)
    assert reply.status == 201
    assert [
        warning for warning in reply.warnings if "this GPU pod lacks policy, class, idle-action" in warning
    ]


def test_a_large_cpu_pod_stays_inside_the_cel_budget(site: Site, selected: str) -> None:
    """100 containers with 1,000 environment entries each are matched without an error and without a call."""
    entries = [{"name": f"E{number}"} for number in range(1000)]
    resources = {"limits": {"cpu": "1m", "memory": "1Mi", "example.org/x": 1}}
    containers = [
        {"name": f"c{number}", "image": "x", "resources": resources, "env": entries} for number in range(100)
    ]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "large"},
        "spec": {"schedulerName": "nobody", "containers": containers},
    }
    site.set_modes(site.mutating.mode, site.validating.mode)
    # A dry run, because etcd would not take so large an object.
    reply = site.create(f"/api/v1/namespaces/{selected}/pods", body, dry_run=True)
    assert reply.status == 201, reply.text[:500]
    assert not reply.warnings
    assert site.mutating.connections == site.validating.connections == 0
