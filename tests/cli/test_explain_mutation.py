"""`gpu-tenure explain` says offline who asked, how a workload is bounded, and where its pods may run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.main import main

Object = dict[str, Any]
Explain = Callable[..., Any]
KEY = "gpu-tenure.io/requested-by"
POLICY = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "default"},
    "spec": {
        "idle": {"action": "evict"},
        "deadline": {},
        "scheduling": {
            "priorityClassName": "gpu",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "nodeSelector": {"pool": "gpu"},
        },
    },
}
CONTAINER = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 2}}}
SPEC = {"restartPolicy": "Never", "containers": [CONTAINER]}


def obj(kind: str, spec: Object, api_version: str = "v1", **metadata: Any) -> Object:
    """An object."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", **metadata}, "spec": spec}


def quota(hard: int, used: int, **spec: Any) -> Object:
    """A ResourceQuota that has been counted."""
    key = "requests.nvidia.com/gpu"
    made = obj("ResourceQuota", {"hard": {key: str(hard)}, **spec})
    return {**made, "status": {"hard": {key: str(hard)}, "used": {key: str(used)}}}


@pytest.fixture
def explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Runs the command over objects; gives its JSON, or with `fails` what it said on standard error."""

    def run(*objects: Object, flags: tuple[str, ...] = (), fails: bool = False) -> Any:
        (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
        files = ["-f", str(tmp_path / "objects.yaml"), "--policy", str(tmp_path / "policy.yaml")]
        monkeypatch.setattr(
            sys, "argv", ["gpu-tenure", "explain", *files, "--profile=enforce", "--output=json", *flags]
        )
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert ended.value.code in ({2} if fails else {0, None}), err
        return err if fails else json.loads(out)

    return run


def test_who_asked(explain: Explain) -> None:
    """A hub acts for whom its pods name; a person for herself."""
    pod = obj("Pod", SPEC, annotations={"hub/user": "dev-a"})
    assert explain(pod, flags=("--user=dev-b",))["pod"]["metadata"]["annotations"][KEY] == "dev-b"
    flags = ("--user=hub", "--requester-sources=hub=annotation:hub/user")
    answer = explain(pod, flags=flags)
    assert answer["pod"]["metadata"]["annotations"][KEY] == "dev-a"
    assert "requested by dev-a" in answer["reasons"]
    flags = ("--user=hub", "--requester-sources=hub=namespace-annotation:owner")
    owned = explain(pod, flags=(*flags, "--namespace-annotations=owner=dev-c"))
    assert owned["pod"]["metadata"]["annotations"][KEY] == "dev-c"


def test_bad_sources(explain: Explain) -> None:
    """Each is told with the form that is expected."""
    err = explain(obj("Pod", SPEC), flags=("--requester-sources=hub,x=pod:y",), fails=True)
    assert err.count("--requester-sources: must be CREATOR=PLACE:KEY") == 2


def test_where_a_pod_may_run(explain: Explain) -> None:
    """Without PriorityClasses in the files the policy's is taken to exist."""
    answer = explain(obj("Pod", {**SPEC, "priority": 0}))
    spec = answer["pod"]["spec"]
    assert spec["priorityClassName"] == "gpu"
    assert "priority" not in spec
    assert spec["nodeSelector"] == {"pool": "gpu"}
    other = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "std"},
        "value": 1,
    }
    answer = explain(obj("Pod", SPEC), other)
    assert "priorityClassName" not in answer["pod"]["spec"]
    assert "PriorityClass gpu does not exist, so none is set" in answer["reasons"]
    default = {**other, "globalDefault": True}
    known = {**other, "metadata": {"name": "gpu"}}
    answer = explain(obj("Pod", {**SPEC, "priorityClassName": "std", "priority": 1}), default, known)
    assert answer["pod"]["spec"]["priorityClassName"] == "gpu"


def test_what_a_quota_leaves(explain: Explain) -> None:
    """Said of the workload."""
    spec = {"replicas": 3, "template": {"spec": {"containers": [CONTAINER]}}}
    answer = explain(obj("Deployment", spec, "apps/v1"), quota(8, 3))
    assert answer["warnings"][0].endswith(
        "its 3 pods ask for 6 nvidia.com/gpu, but ResourceQuota w leaves 5 of 8"
    )
    assert "evicts its pods once" in answer["warnings"][1]


def test_a_scoped_quota(explain: Explain) -> None:
    """Keeps deadlines away."""
    answer = explain(obj("Pod", SPEC), quota(8, 3, scopes=["NotTerminating"]))
    assert answer["pod"]["metadata"]["annotations"]["gpu-tenure.io/deadline"] == "none: ScopedQuota"


def test_a_quota_of_the_wrong_form(explain: Explain) -> None:
    """Is named with its field."""
    broken = quota(8, 3, scopes="NotTerminating")
    assert "document 2: spec.scopes: expected" in explain(obj("Pod", SPEC), broken, fails=True)


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": SPEC}}}}),
        ("RayJob", "ray.io/v1", {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": SPEC}}}}),
        ("Workflow", "argoproj.io/v1alpha1", {"templates": [{"name": "a", "container": CONTAINER}]}),
    ],
)
def test_kinds_with_a_field_of_their_own(explain: Explain, kind: str, version: str, spec: Object) -> None:
    """The workload is bounded, its pods say why they are not."""
    answer = explain(obj(kind, spec, version))
    assert f"{kind}: deadline: injected, 604800 s" in answer["reasons"]
    assert json.dumps(answer["object"]).count('"activeDeadlineSeconds": 604800') == 1
    assert "activeDeadlineSeconds" not in answer["pod"]["spec"]
    assert answer["class"] == "batch"


def test_a_workload_whose_metadata_is_wrong(explain: Explain) -> None:
    """Is bad input, not a crash."""
    body = {**obj("RayJob", {}, "ray.io/v1"), "metadata": {"labels": ["a"]}}
    assert "metadata.labels: expected" in explain(body, fails=True)
