"""The control plane is real, and what kwok plays is what a kubelet would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests

from sandbox.activity import unix_time
from sandbox.api import ApiError
from sandbox.cluster import CommandError, Sandbox
from sandbox.deadline import wait, wall_clock
from sandbox.recipes import recipe
from sandbox.users import COMPONENTS

GPU = {"nvidia.com/gpu": "1"}
PREFIX = "sandbox.gpu-tenure.io/"


def pod(
    name: str, limits: dict[str, str] | None = None, spec: dict[str, Any] | None = None, **notes: str
) -> dict[str, Any]:
    """A pod of one container with these annotations of the sandbox."""
    annotations = {PREFIX + key.replace("_", "-"): value for key, value in notes.items()}
    container = {"name": "main", "image": "train:1", "resources": {"limits": limits or GPU}}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container], **(spec or {})},
    }


def pods_path(namespace: str, name: str = "") -> str:
    """The path of a pod, or of all."""
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def phase(sandbox: Sandbox, namespace: str, name: str) -> Callable[[str], dict[str, Any]]:
    """Gives a function that waits for a phase."""

    def reaches(wanted: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            obj = sandbox.api().get(pods_path(namespace, name))
            return obj if obj["status"].get("phase") == wanted else None

        return wait(found, 20, f"{name} is {wanted}")

    return reaches


def test_a_pod_runs_on_a_node_that_has_its_devices(sandbox: Sandbox, namespace: str) -> None:
    """Scheduler and kwok do their parts."""
    sandbox.api().create(pods_path(namespace), pod("amd", {"amd.com/gpu": "2"}))
    assert sandbox.api().wait_running(namespace, "amd")["spec"]["nodeName"] == "amd-a"


def test_more_devices_than_any_node_has_stay_pending(sandbox: Sandbox, namespace: str) -> None:
    """Extended resources are counted by the real scheduler."""
    sandbox.api().create(pods_path(namespace), pod("huge", {"nvidia.com/gpu": "41"}))

    def unschedulable() -> bool:
        conditions = sandbox.api().get(pods_path(namespace, "huge"))["status"].get("conditions", [])
        return any(each.get("reason") == "Unschedulable" for each in conditions)

    sandbox.api().wait(unschedulable, 15, "the scheduler has given up")


def test_a_pod_can_have_started_long_ago(sandbox: Sandbox, namespace: str) -> None:
    """Start of pod and container lie where the annotation says."""
    sandbox.api().create(pods_path(namespace), pod("ago", started_ago="90m"))
    sandbox.api().create(pods_path(namespace), pod("at", started_at="2026-01-02T03:04:05Z"))
    ago = sandbox.api().wait_running(namespace, "ago")["status"]
    assert wall_clock() - unix_time(ago["startTime"]) == pytest.approx(5400, abs=30)
    at = sandbox.api().wait_running(namespace, "at")["status"]
    started = at["containerStatuses"][0]["state"]["running"]["startedAt"]
    assert (at["startTime"], started) == ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z")


def test_a_deadline_ends_a_pod_as_the_kubelet_does(sandbox: Sandbox, namespace: str) -> None:
    """Failed with DeadlineExceeded, counted from the start."""
    made = pod("late", spec={"activeDeadlineSeconds": 3602}, started_ago="60m")
    sandbox.api().create(pods_path(namespace), made)
    assert phase(sandbox, namespace, "late")("Failed")["status"]["reason"] == "DeadlineExceeded"


def test_whichever_end_comes_first_holds(sandbox: Sandbox, namespace: str) -> None:
    """A pod that is done before its deadline succeeds."""
    sandbox.api().create(pods_path(namespace), pod("done", spec={"activeDeadlineSeconds": 600}, run_for="1s"))
    assert "reason" not in phase(sandbox, namespace, "done")("Succeeded")["status"]


def test_a_job_completes_when_its_pods_have_run(sandbox: Sandbox, namespace: str) -> None:
    """The Job controller counts the pod that kwok completes."""
    template = pod("unused", run_for="1s")
    template["metadata"].pop("name")
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    sandbox.api().create(jobs, {"metadata": {"name": "j"}, "spec": {"template": template}})
    wait(lambda: sandbox.api().get(f"{jobs}/j")["status"].get("succeeded") == 1, 20, "the job is complete")


def test_a_deployment_replaces_an_evicted_pod(sandbox: Sandbox, namespace: str) -> None:
    """The pod vanishes, and its ReplicaSet makes another under its own service account."""
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": pod("x")["spec"] | {"restartPolicy": "Always"},
    }
    body = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    sandbox.api().create(f"/apis/apps/v1/namespaces/{namespace}/deployments", body)

    def running() -> list[dict[str, Any]]:
        found = sandbox.api().list(pods_path(namespace), "app=web", "status.phase=Running")
        return [one for one in found if "deletionTimestamp" not in one["metadata"]]

    first = wait(running, 20, "a pod runs")[0]["metadata"]
    assert sandbox.api().evict(namespace, first["name"], first["uid"]).status == 201
    second = wait(
        lambda: [p for p in running() if p["metadata"]["uid"] != first["uid"]], 20, "another pod runs"
    )
    assert second[0]["metadata"]["name"] != first["name"]


def test_evictions_are_answered_by_the_real_server(sandbox: Sandbox, namespace: str) -> None:
    """409 for another UID, 429 behind a disruption budget, 201 otherwise."""
    made = pod("p")
    made["metadata"]["labels"] = {"app": "p"}
    sandbox.api().create(pods_path(namespace), made)
    sandbox.api().wait_running(namespace, "p")
    assert sandbox.api().evict(namespace, "p", "00000000-0000-0000-0000-000000000000").status == 409
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "p"}}}
    sandbox.api().create(budgets, {"metadata": {"name": "b"}, "spec": spec})
    wait(
        lambda: "observedGeneration" in sandbox.api().get(f"{budgets}/b").get("status", {}),
        10,
        "the budget counts",
    )
    assert sandbox.api().evict(namespace, "p").status == 429
    sandbox.api().delete(f"{budgets}/b")
    assert sandbox.api().evict(namespace, "p").status == 201


def test_a_deleted_pod_can_take_its_time(sandbox: Sandbox, namespace: str) -> None:
    """Terminating for as long as the annotation says, then gone."""
    sandbox.api().create(pods_path(namespace), pod("slow", stops_after="1s"))
    sandbox.api().wait_running(namespace, "slow")
    sandbox.api().delete(pods_path(namespace, "slow"))
    assert "deletionTimestamp" in sandbox.api().get(pods_path(namespace, "slow"))["metadata"]
    wait(lambda: sandbox.api().find(pods_path(namespace, "slow")) is None, 10, "the pod is gone")


def test_developers_have_the_rights_that_a_test_gives_them(
    sandbox: Sandbox, make_namespace: Callable[..., str]
) -> None:
    """RBAC is on: edit in one namespace, nothing in the next."""
    ours, theirs = make_namespace(), make_namespace()
    sandbox.api().grant_edit(ours, "dev-a")
    sandbox.api("dev-a").create(pods_path(ours), pod("mine"))
    with pytest.raises(ApiError) as refused:
        sandbox.api("dev-a").list(pods_path(theirs))
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert sandbox.api("dev-b").raw("GET", pods_path(ours)).status == 403


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_its_service_account(sandbox: Sandbox, component: str) -> None:
    """So the chart's bindings give it exactly its rights, and nothing else does."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = sandbox.api(component).create(path, review)["status"]["userInfo"]
    assert info["username"] == f"system:serviceaccount:gpu-tenure-system:gpu-tenure-{component}"
    assert {"system:serviceaccounts:gpu-tenure-system", "system:authenticated"} < set(info["groups"])
    assert "system:masters" not in info["groups"]


def test_every_controller_is_a_service_account_of_its_own(sandbox: Sandbox, namespace: str) -> None:
    """Otherwise all of them would be administrators and pass every guard."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"] | {"restartPolicy": "Always"}}
    body = {
        "metadata": {"name": "rs"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
    }
    sandbox.api().create(f"/apis/apps/v1/namespaces/{namespace}/replicasets", body)
    wait(lambda: sandbox.api().list(pods_path(namespace), "app=x"), 15, "the ReplicaSet has made its pod")
    wanted = f'"namespace":"{namespace}"'

    def creator() -> bool:
        audit = (sandbox.dir / "logs" / "audit.jsonl").read_text().splitlines()
        made = [
            line
            for line in audit
            if '"verb":"create"' in line and '"resource":"pods"' in line and wanted in line
        ]
        return any(
            '"username":"system:serviceaccount:kube-system:replicaset-controller"' in line for line in made
        )

    wait(creator, 10, "the audit log names the ReplicaSet controller")


def test_kubectl_and_helm_run_as_a_user(sandbox: Sandbox, namespace: str) -> None:
    """Both are the built programs, of the pinned versions."""
    assert "node-a" in sandbox.kubectl("get", "nodes").stdout
    with pytest.raises(CommandError, match="Forbidden"):
        sandbox.kubectl("get", "pods", "-n", namespace, user="dev-a")
    applied = sandbox.kubectl(
        "apply",
        "-f",
        "-",
        stdin=f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c","namespace":"{namespace}"}}}}',
    )
    assert "configmap/c created" in applied.stdout
    assert sandbox.helm("version", "--short").stdout.startswith("v3.22.0")
    release = recipe("kubectl", sandbox.options.kubernetes).version
    assert f"Client Version: {release}" in sandbox.kubectl("version").stdout


def test_warnings_of_the_server_reach_the_client(sandbox: Sandbox, namespace: str) -> None:
    """A deprecated field is a warning that the real server sends by itself."""
    made = pod("warned")
    made["metadata"]["annotations"]["seccomp.security.alpha.kubernetes.io/pod"] = "runtime/default"
    reply = sandbox.api().raw("POST", pods_path(namespace), made)
    assert reply.status == 201
    assert any("seccomp" in warning for warning in reply.warnings)


def test_a_watch_passes_through_the_proxy_of_the_api_server(sandbox: Sandbox, namespace: str) -> None:
    """The proxy has the server's own certificate, so a component sees no difference."""
    with sandbox.api_proxy() as proxy:
        path = f"{pods_path(namespace)}?watch=true&timeoutSeconds=20"
        headers = {"Authorization": f"Bearer {sandbox.users['admin'].token}"}
        with requests.get(
            proxy.url + path, headers=headers, verify=str(sandbox.layout.ca), stream=True, timeout=20
        ) as watch:
            sandbox.api().create(pods_path(namespace), pod("seen"))
            assert b'"ADDED"' in next(watch.iter_lines(chunk_size=None))
        kubeconfig = sandbox.kubeconfig("admin", proxy.url)
        assert proxy.url in kubeconfig.read_text()
