"""Scheduling defaults and scoped quotas behind a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile

if TYPE_CHECKING:
    from tests.webhook.conftest import Site

P = "gpu-tenure.io/"
POLICIES = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LABEL = {"webhook-scheduling": "yes"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
A100 = {"key": "gpu", "operator": "In", "values": ["a100"]}
ZONE = {"key": "zone", "operator": "Exists"}
TOLERATION = {"key": "sandbox/gpu", "operator": "Exists", "effect": "NoSchedule"}
SCHEDULING = {
    "priorityClassName": "webhook-gpu",
    "tolerations": [TOLERATION],
    "nodeSelector": {"pool": "gpu"},
    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [A100]}]}},
}
Object = dict[str, Any]
Make = Callable[..., Object]


@pytest.fixture(scope="module", autouse=True)
def defaults(site: Site) -> Iterator[None]:
    """A policy with scheduling defaults, and the class that it names."""
    site.set_profile(Profile.ENFORCE)
    api = site.sandbox.api()
    api.create(CLASSES, {"metadata": {"name": "webhook-gpu"}, "value": 1000, "preemptionPolicy": "Never"})
    spec = {
        "priority": 2000,
        "namespaceSelector": {"matchLabels": LABEL},
        "deadline": {},
        "scheduling": SCHEDULING,
    }
    body = {"apiVersion": "gpu-tenure.io/v1alpha1", "kind": "GPUPolicy", "spec": spec}
    api.create(POLICIES, {**body, "metadata": {"name": "webhook-scheduling"}})
    yield
    api.delete(f"{POLICIES}/webhook-scheduling")
    api.delete(f"{CLASSES}/webhook-gpu")


@pytest.fixture
def pods(site: Site, make_namespace: Callable[..., str], pod: Make) -> str:
    """The pods of a namespace whose policy and classes the webhook has read."""
    path = f"/api/v1/namespaces/{make_namespace(LABEL)}/pods"

    def known() -> bool:
        return site.create(path, pod(), dry_run=True).json["spec"].get("priorityClassName") == "webhook-gpu"

    site.sandbox.api().wait(known, 20, "the webhook knows policy and class")
    return path


def held(pod: Object) -> Object:
    """The pod, left alone by the scheduler."""
    pod["spec"]["schedulerName"] = "nobody"
    return pod


def test_a_pod_gets_all_of_them(site: Site, pods: str, pod: Make) -> None:
    """The API server looks the class up again, in the second round, and takes the rest as it is."""
    spec = site.create(pods, held(pod())).json["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (
        "webhook-gpu",
        1000,
        "Never",
    )
    assert TOLERATION in spec["tolerations"]
    assert spec["nodeSelector"] == {"pool": "gpu"}
    assert spec["affinity"] == {"nodeAffinity": SCHEDULING["nodeAffinity"]}


def test_what_the_user_set_stays_and_affinity_is_narrowed(site: Site, pods: str, pod: Make) -> None:
    """A class of one's own with the priority that comes with it; each term demands both."""
    terms = [{"matchExpressions": [ZONE]}, {"matchFields": [{**A100, "key": "metadata.name"}]}]
    own = {
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"pool": "mine"},
        "tolerations": [TOLERATION],
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}},
    }
    spec = site.create(pods, held(pod(**own))).json["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("system-cluster-critical", 2000000000)
    assert spec["nodeSelector"] == {"pool": "mine"}
    assert spec["tolerations"].count(TOLERATION) == 1
    assert spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [ZONE, A100]},
        {**terms[1], "matchExpressions": [A100]},
    ]


def test_the_class_that_pods_get_by_themselves_counts_as_none(site: Site, pods: str, pod: Make) -> None:
    """The API server writes it into every pod before webhooks are asked."""
    api = site.sandbox.api()
    body = {"metadata": {"name": "webhook-default"}, "value": 5, "globalDefault": True}
    api.create(CLASSES, body)
    try:
        plain = site.create(pods, pod(0), dry_run=True)
        api.wait(
            lambda: (
                site.create(pods, pod(0), dry_run=True).json["spec"].get("priorityClassName")
                == "webhook-default"
            ),
            20,
            "pods get the default class",
        )
        assert plain.status == 201

        def replaced() -> bool:
            spec = site.create(pods, pod(), dry_run=True).json["spec"]
            return (spec["priorityClassName"], spec["priority"]) == ("webhook-gpu", 1000)

        api.wait(replaced, 20, "the webhook takes the default class for none")
    finally:
        api.delete(f"{CLASSES}/webhook-default")


def test_a_class_that_is_deleted_is_not_written_any_more(site: Site, pods: str, pod: Make) -> None:
    """The pod would be refused, by a webhook that may refuse nothing."""
    api = site.sandbox.api()
    stored = api.get(f"{CLASSES}/webhook-gpu")
    api.delete(f"{CLASSES}/webhook-gpu")
    try:

        def admitted_without() -> bool:
            reply = site.create(pods, pod(), dry_run=True)
            return reply.status == 201 and "priorityClassName" not in reply.json["spec"]

        api.wait(admitted_without, 20, "the webhook has seen the class go")
        assert site.create(pods, pod(), dry_run=True).json["spec"]["nodeSelector"] == {"pool": "gpu"}
    finally:
        api.create(
            CLASSES,
            {key: stored[key] for key in ("value", "preemptionPolicy")}
            | {"metadata": {"name": "webhook-gpu"}},
        )


def test_the_pods_of_a_daemon_set_run_where_its_controller_put_them(site: Site, pods: str, pod: Make) -> None:
    """They are bound by an affinity to one node, and would wait for ever for another."""
    namespace = pods.split("/")[4]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": held(pod(restartPolicy="Always"))["spec"]}
    body = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    api = site.sandbox.api()
    api.create(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", body)
    made = api.wait(lambda: api.list(pods), 30, "its pods exist")[0]["spec"]
    assert "nodeSelector" not in made
    (term,) = made["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert list(term) == ["matchFields"]


def test_gated_pods_of_kueue_are_left_to_kueue(
    site: Site, pods: str, pod: Make, install_kinds: Callable[[Any], None]
) -> None:
    """Terms and Kueue's limit yes; where it runs is what Kueue says when it opens the gate."""
    install_kinds(site.sandbox)
    api = site.sandbox.api()
    namespace = pods.split("/")[4]
    metadata = {"name": "p", "labels": {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/managed": "true"}}
    gated = pod(metadata=metadata, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    stored = site.create(pods, gated, user="dev-a").json
    labels, spec = stored["metadata"]["labels"], stored["spec"]
    assert labels[f"{P}policy"] == "webhook-scheduling"
    assert labels["kueue.x-k8s.io/max-exec-time-seconds"] == "604800"
    assert stored["metadata"]["annotations"][f"{P}deadline"] == "none: Kueue"
    assert "activeDeadlineSeconds" not in spec
    assert {"nodeSelector", "affinity", "priorityClassName"}.isdisjoint(spec)
    assert TOLERATION not in spec["tolerations"]
    # What Kueue does next: a Workload with the limit of the label, and at last the gate is opened.
    limit = int(labels["kueue.x-k8s.io/max-exec-time-seconds"])
    template = {"metadata": {"labels": labels}, "spec": {"containers": spec["containers"]}}
    sets = [{"name": "main", "count": 1, "template": template}]
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "p"},
        "spec": {"queueName": "q", "maximumExecutionTimeSeconds": limit, "podSets": sets},
    }
    path = f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{namespace}/workloads"
    assert api.create(path, workload)["spec"]["maximumExecutionTimeSeconds"] == 604800
    opened = {"spec": {"schedulingGates": [], "nodeSelector": {"flavor": "a"}}}
    reply = site.sandbox.api().raw(
        "PATCH", f"{pods}/p", opened, {"Content-Type": "application/merge-patch+json"}
    )
    assert reply.status == 200, reply.text
    assert reply.json["spec"]["nodeSelector"] == {"flavor": "a"}


def test_a_quota_of_pods_without_an_end_keeps_deadlines_away(
    site: Site, pods: str, pod: Make, job: Make
) -> None:
    """The pod would move out of the quota that somebody gave its namespace."""
    api, namespace = site.sandbox.api(), pods.split("/")[4]
    spec = {"hard": {"requests.nvidia.com/gpu": "4"}, "scopes": ["NotTerminating"]}
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    api.create(quotas, {"metadata": {"name": "q"}, "spec": spec})

    def note(path: str, obj: Object) -> str:
        annotations = site.create(path, obj, dry_run=True).json["metadata"]["annotations"]
        return str(annotations[f"{P}deadline"])

    api.wait(lambda: note(pods, pod()) == "none: ScopedQuota", 20, "the webhook has seen the quota")
    assert note(f"/apis/batch/v1/namespaces/{namespace}/jobs", job()) == "none: ScopedQuota"
    api.delete(f"{quotas}/q")
    api.wait(lambda: note(pods, pod()) == "injected", 20, "the webhook has seen the quota go")
