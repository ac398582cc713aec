"""Who asked, behind a real API server: workloads, their pods, and updates that lose or change it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from policy.profile import Profile

if TYPE_CHECKING:
    from tests.webhook.conftest import Site

KEY = "gpu-tenure.io/requested-by"
HUB = "system:serviceaccount:hub:hub"
NOTEBOOKS = "system:serviceaccount:kubeflow:notebook-controller"
Object = dict[str, Any]
Make = Callable[..., Object]


@pytest.fixture(autouse=True)
def enforcing(site: Site) -> None:
    """All of these run under `enforce`."""
    site.set_profile(Profile.ENFORCE)


def template_of(pod: Object, **metadata: Any) -> Object:
    """The template of pods that the scheduler leaves alone."""
    return {
        "metadata": {"labels": {"app": "d"}, **metadata},
        "spec": {**pod["spec"], "schedulerName": "nobody"},
    }


def deployment(pod: Object, **template: Any) -> Object:
    """A Deployment of one pod."""
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "d"}},
        "template": template_of(pod, **template),
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def asked_for(obj: Object) -> str | None:
    """Who asked for an object."""
    found: str | None = (obj["metadata"].get("annotations") or {}).get(KEY)
    return found


@pytest.mark.parametrize("claimed", [None, "dev-b"], ids=["nothing claimed", "forged"])
def test_a_pod_is_asked_for_by_its_creator(site: Site, selected: str, pod: Make, claimed: str | None) -> None:
    """Whatever it claims."""
    annotations = {} if claimed is None else {KEY: claimed}
    body = pod(metadata={"name": "p", "annotations": annotations}, schedulerName="nobody")
    reply = site.create(f"/api/v1/namespaces/{selected}/pods", body, user="dev-a")
    assert asked_for(reply.json) == "dev-a"


def test_the_pod_of_a_hub_is_asked_for_by_its_user(site: Site, selected: str, pod: Make) -> None:
    """The hub acts for the user whom it names."""
    body = pod(
        metadata={"name": "p", "annotations": {"hub.jupyter.org/username": "dev-c"}}, schedulerName="nobody"
    )
    reply = site.create(f"/api/v1/namespaces/{selected}/pods", body, user=HUB)
    assert asked_for(reply.json) == "dev-c"


def test_pods_of_workloads_inherit(site: Site, selected: str, pod: Make) -> None:
    """From the Deployment over its ReplicaSet, and from the CronJob over its Job."""
    api, core = site.sandbox.api(), f"/api/v1/namespaces/{selected}/pods"
    apps, batch = f"/apis/apps/v1/namespaces/{selected}", f"/apis/batch/v1/namespaces/{selected}"
    made = site.create(f"{apps}/deployments", deployment(pod(restartPolicy="Always")), user="dev-a")
    assert asked_for(made.json["spec"]["template"]) == "dev-a"
    assert any("evicts its pods" in warning for warning in made.warnings)
    found = api.wait(lambda: api.list(core), 30, "the Deployment's pod exists")[0]
    assert asked_for(found) == "dev-a"
    assert len(api.list(f"{apps}/replicasets")) == 1
    template = template_of(pod())
    cron = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": template}}}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": cron}
    kept = site.create(f"{batch}/cronjobs", body, user="dev-b").json
    assert asked_for(kept["spec"]["jobTemplate"]["spec"]["template"]) == "dev-b"
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": kept["metadata"]["uid"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "ownerReferences": [{**reference, "controller": True}]},
        "spec": kept["spec"]["jobTemplate"]["spec"],
    }
    run = site.create(f"{batch}/jobs", job, user="system:kube-controller-manager").json
    assert asked_for(run["spec"]["template"]) == "dev-b"
    assert run["metadata"]["annotations"]["gpu-tenure.io/deadline"] == "injected"

    def pods_of_the_job() -> list[Object]:
        return [one for one in api.list(core) if "job-name" in one["metadata"]["labels"]]

    assert asked_for(api.wait(pods_of_the_job, 30, "the Job's pod exists")[0]) == "dev-b"


def test_a_replace_that_loses_it_is_let_pass_and_nothing_is_stamped_again(
    site: Site, selected: str, pod: Make, tmp_path: Path
) -> None:
    """`kubectl replace` with the manifest as its author wrote it, again and again."""
    api, apps = site.sandbox.api(), f"/apis/apps/v1/namespaces/{selected}"
    manifest = tmp_path / "d.yaml"
    manifest.write_text(yaml.safe_dump(deployment(pod(restartPolicy="Always"))))
    site.sandbox.kubectl("create", "-n", selected, "-f", str(manifest))
    assert asked_for(api.get(f"{apps}/deployments/d")["spec"]["template"]) == "admin"

    def replaced() -> bool:
        # The Deployment's controller writes too, so that a replacement may come too late once.
        done = site.sandbox.kubectl("replace", "-n", selected, "-f", str(manifest), check=False)
        assert "replaced" in done.stdout or "the object has been modified" in done.stderr, done.stderr
        return done.returncode == 0

    for _ in range(3):
        api.wait(replaced, 30, "it is replaced")
    stored = api.get(f"{apps}/deployments/d")
    assert asked_for(stored["spec"]["template"]) is None

    def observed() -> bool:
        found = api.get(f"{apps}/deployments/d")
        return bool(found["status"].get("observedGeneration") == stored["metadata"]["generation"])

    api.wait(observed, 30, "the Deployment's controller has seen the last change")
    # One change of the template, the user's own: had we stamped again, each replace would restart the pods.
    assert len(api.list(f"{apps}/replicasets")) == 2


@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["by the client", "by the server"])
def test_an_apply_keeps_it(
    site: Site, selected: str, pod: Make, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """What the manifest does not name is not its author's: no restart."""
    api, path = site.sandbox.api(), f"/apis/apps/v1/namespaces/{selected}/deployments/d"
    manifest = tmp_path / "d.yaml"
    manifest.write_text(yaml.safe_dump(deployment(pod("1", restartPolicy="Always"))))
    for _ in range(3):
        site.sandbox.kubectl("apply", *flags, "-n", selected, "-f", str(manifest))
    stored = api.get(path)
    assert asked_for(stored["spec"]["template"]) == "admin"
    assert len(api.list(f"/apis/apps/v1/namespaces/{selected}/replicasets")) <= 1


def test_a_notebook_controller_that_rewrites_annotations(
    site: Site, selected: str, pod: Make, install_kinds: Callable[[Any], None]
) -> None:
    """It copies what its Notebook says, and puts back what it wants on every reconcile: nobody fights it."""
    install_kinds(site.sandbox)
    api = site.sandbox.api()
    notebooks = f"/apis/kubeflow.org/v1/namespaces/{selected}/notebooks"
    sets = f"/apis/apps/v1/namespaces/{selected}/statefulsets"
    spec = {"template": {"spec": {**pod(restartPolicy="Always")["spec"], "schedulerName": "nobody"}}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": {"name": "n"}, "spec": spec}
    notebook = site.create(notebooks, body, user="dev-a").json
    assert asked_for(notebook) == "dev-a"
    copied = {KEY: asked_for(notebook)}
    wanted = deployment(pod(restartPolicy="Always"), annotations=copied)
    wanted["spec"]["template"]["metadata"]["labels"]["notebook-name"] = "n"
    reference = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": "n"}
    owner = {**reference, "uid": notebook["metadata"]["uid"], "controller": True}
    wanted |= {"kind": "StatefulSet", "metadata": {"name": "n", "ownerReferences": [owner]}}
    wanted["spec"]["serviceName"] = "n"
    made = site.create(sets, wanted, user=NOTEBOOKS).json
    # It is not among the trusted controllers: what it makes was asked for by itself.
    assert asked_for(made["spec"]["template"]) == NOTEBOOKS
    core = f"/api/v1/namespaces/{selected}/pods"
    first = api.wait(lambda: api.find(f"{core}/n-0"), 60, "its pod exists")
    for generation in (2, 2, 2):
        rewritten = {**wanted, "metadata": {**wanted["metadata"], "annotations": {"reconciled": "yes"}}}
        rewritten["spec"]["template"]["metadata"].pop("annotations", None)
        reply = site.send("PUT", f"{sets}/n", rewritten, NOTEBOOKS)
        assert reply.status == 200, reply.text
        assert asked_for(reply.json["spec"]["template"]) is None
        assert reply.json["metadata"]["generation"] == generation
    # Nothing schedules the pod, so its controller would wait for it for ever.
    site.send("DELETE", f"{core}/n-0", {"gracePeriodSeconds": 0})

    def successor() -> Object | None:
        found: Object | None = api.find(f"{core}/n-0")
        return found if found and found["metadata"]["uid"] != first["metadata"]["uid"] else None

    made = api.wait(successor, 60, "the pod of the last template exists")
    assert asked_for(made) is None
    assert made["metadata"]["labels"]["gpu-tenure.io/class"] == "interactive"
