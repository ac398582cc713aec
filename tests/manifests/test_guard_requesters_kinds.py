"""The guard of who asked, on kinds of other projects: templates in lists and mappings, and metadata alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from policy.keys import Annotation
from policy.workloads import WORKLOADS
from sandbox.api import Reply
from sandbox.cluster import Sandbox

REQUESTER = str(Annotation.REQUESTED_BY)
GUARD = "gpu-tenure-guard-requesters"
Object = dict[str, Any]
POD_SPEC = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}

pytestmark = pytest.mark.usefixtures("enforce", "kinds")


@pytest.fixture(scope="module")
def kinds(sandbox: Sandbox, install_kinds: Callable[[Sandbox], None]) -> None:
    """The kinds of other projects are there."""
    install_kinds(sandbox)


def template(name: str | None) -> Object:
    """A pod template that names somebody."""
    annotations = {"team": "a"} if name is None else {REQUESTER: name, "team": "a"}
    return {"metadata": {"labels": {"a": "b"}, "annotations": annotations}, "spec": POD_SPEC}


def cluster(first: str | None, last: str | None) -> Object:
    """Ray's cluster: the head's name, and that of the second group of workers."""
    groups = [
        {"groupName": str(index), "template": template(name)} for index, name in enumerate((first, last))
    ]
    return {"headGroupSpec": {"template": template(first)}, "workerGroupSpecs": groups}


def flow(first: str | None, last: str | None) -> Object:
    """Argo's flow: the name for all pods, and that of its second step."""
    steps = [
        {"name": "a", "steps": []},
        {"name": "b", **template(last), "container": POD_SPEC["containers"][0]},
    ]
    return {"podMetadata": template(first)["metadata"], "templates": steps}


SPECS: dict[str, Callable[[str | None, str | None], Object]] = {
    "jobset.x-k8s.io/v1alpha2/jobsets": lambda first, last: {
        "replicatedJobs": [
            {"name": name or "-", "template": {"spec": {"template": template(name)}}}
            for name in (first, last)
        ]
    },
    "leaderworkerset.x-k8s.io/v1/leaderworkersets": lambda first, last: {
        "leaderWorkerTemplate": {"leaderTemplate": template(first), "workerTemplate": template(last)}
    },
    "batch.volcano.sh/v1alpha1/jobs": lambda first, last: {
        "tasks": [{"template": template(first)}, {"template": template(last)}]
    },
    "ray.io/v1/rayclusters": cluster,
    "ray.io/v1/rayjobs": lambda first, last: {"rayClusterSpec": cluster(first, last)},
    "ray.io/v1/rayservices": lambda first, last: {"rayClusterConfig": cluster(first, last)},
    "kubeflow.org/v1/pytorchjobs": lambda first, last: {
        "pytorchReplicaSpecs": {
            "Master": {"template": template(first)},
            "Worker": {"template": template(last)},
        }
    },
    "argoproj.io/v1alpha1/workflows": flow,
    "argoproj.io/v1alpha1/cronworkflows": lambda first, last: {
        "schedule": "0 0 1 1 *",
        "workflowSpec": flow(first, last),
    },
}
"""By group, version and resource: the specification of two templates for the pods of two people."""


def body_of(place: str, spec: Object, name: str = "w") -> Object:
    """A workload."""
    version, _, plural = place.rpartition("/")
    group = version.partition("/")[0]
    kind = next(row.kind for row in WORKLOADS if (row.group, row.resource) == (group, plural))
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def path_of(place: str, namespace: str) -> str:
    """The path of a kind in a namespace."""
    version, _, plural = place.rpartition("/")
    return f"/apis/{version}/namespaces/{namespace}/{plural}"


@pytest.fixture
def update(sandbox: Sandbox, namespace: str, writer: Callable[[str], Any]) -> Callable[..., Reply]:
    """Tries to replace the specification of a workload that is made at first use."""
    made: set[str] = set()

    def call(place: str, before: Object, after: Object, user: str = "mallory") -> Reply:
        path, api = path_of(place, namespace), sandbox.api()
        name = f"w{len(made)}"
        made.add(name)
        stored = api.create(path, body_of(place, before, name))
        return writer(user).send("PUT", f"{path}/{name}?dryRun=All", {**stored, "spec": after})

    return call


def refused(reply: Reply) -> bool:
    """Whether the guard refused."""
    return reply.status == 403 and f"'{GUARD}'" in reply.text


@pytest.mark.parametrize("place", SPECS)
def test_the_requester_is_neither_changed_nor_set(update: Callable[..., Reply], place: str) -> None:
    """In none of the places, wherever it stands in a list."""
    spec = SPECS[place]
    both = spec("ann", "ann")
    assert refused(update(place, both, spec("bob", "ann")))
    assert refused(update(place, both, spec("ann", "bob")))
    assert refused(update(place, both, spec(None, "bob")))
    assert refused(update(place, spec(None, None), spec("ann", None)))
    assert refused(update(place, spec(None, None), spec(None, "ann")))
    reply = update(place, both, spec("ann", "bob"), user="terms-admin")
    assert reply.status == 200, reply.text


@pytest.mark.parametrize("place", SPECS)
def test_it_may_be_dropped_and_templates_may_move(update: Callable[..., Reply], place: str) -> None:
    """Nothing else about the workload is of interest, and a new group of the same person is no change."""
    spec = SPECS[place]
    for before, after in [
        (("ann", "ann"), (None, None)),
        (("ann", "ann"), ("ann", None)),
        (("ann", None), (None, "ann")),
        (("ann", None), ("ann", "ann")),
        (("ann", "bob"), ("bob", "ann")),
        (("ann", "bob"), (None, "bob")),
        ((None, None), (None, None)),
    ]:
        reply = update(place, spec(*before), spec(*after))
        assert reply.status == 200, (before, after, reply.text)


@pytest.mark.parametrize("place", SPECS)
def test_nobody_creates_pods_for_somebody_else(
    sandbox: Sandbox, namespace: str, writer: Callable[[str], Any], place: str
) -> None:
    """With the webhook away nobody writes the right name over it."""
    path, spec = path_of(place, namespace), SPECS[place]
    for first, last, allowed in [
        ("ann", None, False),
        (None, "ann", False),
        ("mallory", "ann", False),
        ("mallory", "mallory", True),
        (None, None, True),
    ]:
        reply = writer("mallory").send("POST", f"{path}?dryRun=All", body_of(place, spec(first, last)))
        assert refused(reply) is not allowed, (first, last, reply.text)
        assert not allowed or reply.status == 201
    kubelet = "system:serviceaccount:kube-system:job-controller"
    assert sandbox.api().raw(
        "POST",
        f"{path}?dryRun=All",
        body_of(place, spec("ann", "ann")),
        {"Impersonate-User": kubelet, "Impersonate-Group": "system:masters"},
    ).status == 201  # fmt: skip


def test_notebooks_hand_their_own_annotations_on(sandbox: Sandbox, namespace: str, mallory: Any) -> None:
    """Their operator copies them, so the guard looks at them."""
    place = "kubeflow.org/v1/notebooks"
    path = path_of(place, namespace)
    notebook = body_of(place, {"template": {"spec": {}}}, "n")
    notebook["metadata"]["annotations"] = {REQUESTER: "dev-a", "a": "b"}
    assert refused(mallory.send("POST", path, notebook))
    sandbox.api().create(path, notebook)
    assert refused(mallory.patch(f"{path}/n", {"metadata": {"annotations": {REQUESTER: "x"}}}))
    assert mallory.patch(f"{path}/n", {"metadata": {"annotations": {"a": "c"}}}).status == 200
    assert mallory.patch(f"{path}/n", {"metadata": {"annotations": {REQUESTER: None}}}).status == 200


def test_a_job_that_is_submitted_to_ray(update: Callable[..., Reply]) -> None:
    """The pod that submits has a template of its own."""
    place = "ray.io/v1/rayjobs"
    before, after = ({"submitterPodTemplate": template(name)} for name in ("ann", "bob"))
    assert refused(update(place, before, after))
    assert update(place, before, before).status == 200


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"tasks": [None, {"template": template("bob")}]}, id="nothing in a list"),
        pytest.param({"tasks": ["x", {"template": template("bob")}]}, id="a text in a list"),
        pytest.param({"tasks": [{"template": None}, {"template": template("bob")}]}, id="no template"),
        pytest.param(
            {"tasks": [{"template": {"metadata": "x"}}, {"template": template("bob")}]},
            id="a text for metadata",
        ),
        pytest.param(
            {"tasks": [{"template": {"metadata": {"annotations": None}}}, {"template": template("bob")}]},
            id="no annotations",
        ),
    ],
)
def test_odd_values_hide_nothing(update: Callable[..., Reply], odd: Object) -> None:
    """A definition that lets anything in does not make the guard fail."""
    place = "batch.volcano.sh/v1alpha1/jobs"
    assert refused(update(place, SPECS[place]("ann", "ann"), odd))


def test_very_many_templates_cost_little(sandbox: Sandbox, namespace: str, mallory: Any) -> None:
    """Thousands neither get past the guard nor slow it; those of several people stay as they are."""
    place = "batch.volcano.sh/v1alpha1/jobs"
    path = path_of(place, namespace)

    def tasks(*names: str) -> Object:
        carriers = [{"metadata": {"annotations": {REQUESTER: name}}} for name in names]
        return {"tasks": [{"template": carrier} for carrier in carriers]}

    many = ["ann"] * 5_000
    sandbox.api().create(path, body_of(place, tasks(*many), "many"))
    seconds = {}
    for who, status in (("ann", 200), ("bob", 403)):
        started = time.monotonic()
        reply = mallory.patch(f"{path}/many?dryRun=All", {"spec": tasks(*many[1:], who)})
        seconds[who] = time.monotonic() - started
        assert reply.status == status, reply.text[:300]
    assert max(seconds.values()) < 10
    sandbox.api().create(path, body_of(place, tasks(*many[2:], "bob"), "mixed"))
    assert mallory.patch(f"{path}/mixed?dryRun=All", {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert refused(mallory.patch(f"{path}/mixed?dryRun=All", {"spec": tasks("bob", *many[2:])}))
