"""Workloads of other projects and the warnings about workloads, behind a real API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile

if TYPE_CHECKING:
    from tests.webhook.conftest import Site

P = "gpu-tenure.io/"
KEY = f"{P}requested-by"
WEEK, TWO_WEEKS = 604800, 1209600
CONTAINER = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
Object = dict[str, Any]

BOUNDED: dict[str, tuple[str, str, Object, tuple[str, ...], tuple[str, ...]]] = {
    "RayJob": (
        "ray.io/v1",
        "rayjobs",
        {"entrypoint": "x", "rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}}},
        ("activeDeadlineSeconds",),
        ("spec", "rayClusterSpec", "headGroupSpec", "template", "metadata"),
    ),
    "PyTorchJob": (
        "kubeflow.org/v1",
        "pytorchjobs",
        {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": TEMPLATE}}},
        ("runPolicy", "activeDeadlineSeconds"),
        ("spec", "pytorchReplicaSpecs", "Master", "template", "metadata"),
    ),
    "Workflow": (
        "argoproj.io/v1alpha1",
        "workflows",
        {"entrypoint": "a", "templates": [{"name": "a", "container": CONTAINER}]},
        ("activeDeadlineSeconds",),
        ("spec", "podMetadata"),
    ),
}
"""By kind: version, resource, specification, the field that ends it, the metadata that its pods inherit."""


@pytest.fixture(scope="module", autouse=True)
def kinds(site: Site, install_kinds: Callable[[Any], None]) -> None:
    """The kinds are there, and the profile is `enforce`."""
    site.set_profile(Profile.ENFORCE)
    install_kinds(site.sandbox)


def at(tree: Any, path: tuple[str, ...]) -> Any:
    """The value at a path, None where there is none."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def with_value(spec: Object, path: tuple[str, ...], value: int | None) -> Object:
    """A copy with a value at a path."""
    if value is None:
        return spec
    if len(path) == 1:
        return {**spec, path[0]: value}
    return {**spec, path[0]: with_value(spec.get(path[0], {}), path[1:], value)}


def create(site: Site, namespace: str, kind: str, own: int | None = None, **metadata: Any) -> Any:
    """Creates a workload of a kind as a developer."""
    version, resource, spec, field, _ = BOUNDED[kind]
    body = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "w", **metadata},
        "spec": with_value(spec, field, own),
    }
    return site.create(f"/apis/{version}/namespaces/{namespace}/{resource}", body, user="dev-a")


@pytest.mark.parametrize("kind", BOUNDED)
@pytest.mark.parametrize(
    ("own", "note", "seconds"),
    [(None, "injected", WEEK), (60, "kept", 60), (10 * WEEK, "lowered", TWO_WEEKS)],
    ids=["none", "shorter", "too long"],
)
def test_a_workload_is_bounded_by_its_own_field(
    site: Site, selected: str, kind: str, own: int | None, note: str, seconds: int
) -> None:
    """And its schema takes what we write, on the templates too."""
    reply = create(site, selected, kind, own)
    assert reply.status == 201, reply.text
    _, _, _, field, mark = BOUNDED[kind]
    assert at(reply.json["spec"], field) == seconds
    assert reply.json["metadata"]["annotations"][f"{P}deadline"] == note
    assert at(reply.json, mark)["annotations"] == {KEY: "dev-a"}
    assert any("activeDeadlineSeconds" in warning for warning in reply.warnings) is (note != "kept")


@pytest.mark.parametrize("kind", BOUNDED)
def test_kueue_bounds_what_it_manages(site: Site, selected: str, kind: str) -> None:
    """By its label; the field stays empty."""
    reply = create(site, selected, kind, labels={"kueue.x-k8s.io/queue-name": "q"})
    assert reply.json["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] == str(WEEK)
    assert at(reply.json["spec"], BOUNDED[kind][3]) is None


def test_a_suspended_job_in_a_queue(site: Site, selected: str) -> None:
    """Kueue's label is on the Job, its template says why the pods carry no deadline."""
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"suspend": True, "template": TEMPLATE},
    }
    stored = site.create(f"/apis/batch/v1/namespaces/{selected}/jobs", body, user="dev-a").json
    assert stored["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] == str(WEEK)
    assert "activeDeadlineSeconds" not in stored["spec"]
    marks = stored["spec"]["template"]["metadata"]["annotations"]
    assert marks == {KEY: "dev-a", f"{P}deadline": "none: Kueue"}


def test_the_jobs_of_a_job_set_are_bounded_as_they_are_made(site: Site, selected: str) -> None:
    """By their own field, where the administrator trusts its controller; else they say why not."""
    spec = {"replicatedJobs": [{"name": "a", "replicas": 1, "template": {"spec": {"template": TEMPLATE}}}]}
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s"},
        "spec": spec,
    }
    stored = site.create(
        f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{selected}/jobsets", body, user="dev-a"
    ).json
    template = stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["metadata"]["annotations"] == {KEY: "dev-a"}
    reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "controller": True}
    owner = {**reference, "uid": stored["metadata"]["uid"]}
    for user, note in (
        ("system:serviceaccount:jobset-system:manager", "none: UnknownController"),
        ("system:kube-controller-manager", "injected"),
    ):
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"generateName": "s-", "ownerReferences": [owner]},
            "spec": {"suspend": True, "template": template},
        }
        made = site.create(f"/apis/batch/v1/namespaces/{selected}/jobs", job, user=user).json
        assert made["metadata"]["annotations"][f"{P}deadline"] == note


def test_the_creator_of_a_workload_reads_what_its_quota_leaves(site: Site, selected: str) -> None:
    """And what its pods get, in two lines."""
    api = site.sandbox.api()
    quotas = f"/api/v1/namespaces/{selected}/resourcequotas"
    api.create(quotas, {"metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "5"}}})
    api.wait(lambda: api.get(f"{quotas}/gpus").get("status", {}).get("used"), 30, "the quota is counted")
    template = {**TEMPLATE, "metadata": {"labels": {"a": "b"}}}
    template["spec"] = {**TEMPLATE["spec"], "restartPolicy": "Always"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    path = f"/apis/apps/v1/namespaces/{selected}/deployments"

    def warnings() -> list[str]:
        return list(site.create(path, body, dry_run=True, user="dev-a").warnings)

    told = "its 3 pods ask for 6 nvidia.com/gpu, but ResourceQuota gpus leaves 5 of 5"
    found = api.wait(lambda: [one for one in warnings() if told in one], 20, "the webhook knows the quota")
    assert len(found) == 1
    assert any("evicts its pods once" in warning for warning in warnings())
