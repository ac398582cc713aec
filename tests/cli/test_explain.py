"""`gpu-tenure explain`: the answer and its forms."""

from __future__ import annotations

import io
import json
import sys

import jsonpatch
import pytest
import yaml

from cli.main import main
from tests.cli.conftest import POLICY, SPEC, P, Run, pod, workload

KEYS = {"gpuPod", "allowed", "class", "devices", "cards", "uncounted", "policy"} | {
    "patch",
    "warnings",
    "reasons",
    "bypasses",
    "pod",
}


def test_a_pod(run: Run) -> None:
    """All keys of the answer, and a patch that leads from the manifest to the pod."""
    ran = run(pod())
    answer = ran.json
    assert ran.code == 0
    assert set(answer) == KEYS
    assert answer["gpuPod"] is answer["allowed"] is True
    assert (answer["class"], answer["policy"]) == ("batch", "default")
    assert answer["devices"] == {"nvidia.com/gpu": "2"}
    assert jsonpatch.apply_patch(pod(), answer["patch"]) == answer["pod"]
    assert answer["pod"]["spec"]["activeDeadlineSeconds"] == 604800
    assert answer["pod"]["metadata"]["labels"][f"{P}idle-after"] == "2h"
    assert any("deadline: injected" in reason for reason in answer["reasons"])


def test_a_cpu_pod_is_none_of_our_business(run: Run) -> None:
    """It comes back as it was."""
    plain = pod()
    plain["spec"] = {"containers": [{"name": "main", "image": "x"}]}
    answer = run(plain).json
    assert (answer["gpuPod"], answer["allowed"]) == (False, True)
    assert answer["class"] is answer["policy"] is None
    assert (answer["patch"], answer["devices"], answer["pod"]) == ([], {}, plain)


@pytest.mark.parametrize(
    ("kind", "api_version", "pod_class", "deadline"),
    [
        pytest.param("Deployment", "apps/v1", "serving", "none: ControllerOwned", id="Deployment"),
        pytest.param("ReplicaSet", "apps/v1", "serving", "none: ControllerOwned", id="ReplicaSet"),
        pytest.param("StatefulSet", "apps/v1", "serving", "none: ControllerOwned", id="StatefulSet"),
        pytest.param("DaemonSet", "apps/v1", "serving", "none: ControllerOwned", id="DaemonSet"),
        pytest.param(
            "ReplicationController", "v1", "serving", "none: ControllerOwned", id="ReplicationController"
        ),
        pytest.param("Notebook", "kubeflow.org/v1", "interactive", "none: UnknownController", id="Notebook"),
        pytest.param(
            "Odd", "example.org/v1", "serving", "none: UnknownController", id="a kind that nobody knows"
        ),
    ],
)
def test_workloads(run: Run, kind: str, api_version: str, pod_class: str, deadline: str) -> None:
    """The object says who asked, if its kind is known; its pods get what their controller lets them get."""
    obj = workload(kind, api_version)
    answer = run(obj).json
    assert set(answer) == {*KEYS, "object"}
    assert jsonpatch.apply_patch(obj, answer["patch"]) == answer["object"]
    written = f"{P}requested-by" in json.dumps(answer["patch"])
    assert written is (kind != "Odd")
    assert answer["class"] == pod_class
    made = answer["pod"]
    assert made["kind"] == "Pod"
    assert made["metadata"]["labels"]["a"] == "b"
    assert made["metadata"]["labels"][f"{P}class"] == pod_class
    assert made["metadata"]["annotations"][f"{P}deadline"] == deadline
    assert made["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_job(run: Run) -> None:
    """The Job gets the deadline, and its pods say so."""
    job = workload("Job", "batch/v1")
    answer = run(job).json
    assert jsonpatch.apply_patch(job, answer["patch"]) == answer["object"]
    assert answer["object"]["spec"]["activeDeadlineSeconds"] == 604800
    assert answer["pod"]["metadata"]["annotations"][f"{P}deadline"] == "job"
    assert "activeDeadlineSeconds" not in answer["pod"]["spec"]


def test_a_cron_job(run: Run) -> None:
    """The CronJob says who asked; each of its Jobs gets the deadline, and its pods inherit both."""
    cron = workload(
        "CronJob", "batch/v1", jobTemplate={"spec": {"template": {"spec": SPEC}}}, schedule="@daily"
    )
    answer = run(cron).json
    assert jsonpatch.apply_patch(cron, answer["patch"]) == answer["object"]
    assert "activeDeadlineSeconds" not in answer["object"]["spec"]["jobTemplate"]["spec"]
    annotations = answer["pod"]["metadata"]["annotations"]
    assert (annotations[f"{P}deadline"], annotations[f"{P}requested-by"]) == ("job", "a-person")
    assert any(reason.startswith("each Job: deadline: injected") for reason in answer["reasons"])


def test_who_is_meant_where_nobody_is_named(run: Run) -> None:
    """Beside the name; not where a person is named, a controller creates it, or no GPU is asked for."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": SPEC}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    owned = {**pod, "metadata": {"name": "p", "ownerReferences": [owner]}}
    bare = {**pod, "spec": {"containers": [{"name": "main", "image": "i"}]}}

    def stood_in(obj: dict[str, object], *flags: str) -> list[str]:
        return [one for one in run(obj, flags=flags).json["reasons"] if "stands for" in one]

    told = "requested by a-person, which stands for whoever creates it (--user NAME)"
    assert stood_in(pod) == [told]
    assert stood_in(workload("Job", "batch/v1")) == [f"Job: {told}", told]
    assert stood_in(pod, "--user", "ann") == stood_in(owned) == stood_in(bare) == []


def test_a_pod_template(run: Run) -> None:
    """Nobody controls the pod that a person makes from it."""
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "t"},
        "template": {"spec": SPEC},
    }
    answer = run(template).json
    assert answer["class"] == "batch"
    assert answer["object"] == template


def test_a_workload_with_several_templates(run: Run) -> None:
    """Each template is explained."""
    replicas = {"Master": {"template": {"spec": SPEC}}, "Worker": {"template": {"spec": SPEC}}}
    answer = run(workload("PyTorchJob", "kubeflow.org/v1", pytorchReplicaSpecs=replicas)).json
    assert [one["class"] for one in answer] == ["batch", "batch"]


def test_several_documents_and_lists_are_a_list(run: Run) -> None:
    """Objects without pods among them are passed over."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    items = {"apiVersion": "v1", "kind": "List", "items": [pod(), workload("Deployment")]}
    answer = run(service, pod(), items).json
    assert [one["class"] for one in answer] == ["batch", "batch", "serving"]


def test_json_is_read_too(run: Run) -> None:
    """As kubectl writes it."""
    assert run(json.dumps(pod())).json["class"] == "batch"


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`-` reads what kubectl pipes."""
    monkeypatch.setattr(sys, "argv", ["gpu-tenure", "explain", "-f", "-", "-o", "yaml"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(yaml.safe_dump(pod()).encode())))
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    answer = yaml.safe_load(capsys.readouterr().out)
    assert (answer["policy"], answer["class"]) == ("built-in", "batch")


@pytest.mark.parametrize(
    ("flags", "deadline"),
    [
        pytest.param((), "injected", id="enforce writes"),
        pytest.param(("--profile", "observe"), "would-inject", id="observe does not"),
        pytest.param(("--namespace-labels", f"{P}enforcement=dry-run"), "would-inject", id="nor a dry run"),
        pytest.param(("--namespace", "kube-system"), None, id="an excluded namespace is left alone"),
        pytest.param(
            ("--namespace-labels", f"a=b,{P}enforcement=disabled"), None, id="so is one that opted out"
        ),
        pytest.param(
            ("--user", "system:serviceaccount:other:op"), "injected", id="an account without reference"
        ),
    ],
)
def test_where_and_by_whom(run: Run, flags: tuple[str, ...], deadline: str | None) -> None:
    """Namespace, labels, user and profile count as they would in the cluster."""
    answer = run(pod(), flags=flags).json
    assert answer["gpuPod"] is True
    assert (answer["pod"]["metadata"].get("annotations") or {}).get(f"{P}deadline") == deadline
    assert answer["reasons"]


@pytest.mark.parametrize(
    ("kind", "flags", "pod_class"),
    [
        pytest.param("ReplicaSet", (), "serving", id="a Deployment's pod, read back"),
        pytest.param("Notebook", (), "interactive", id="an operator's pod"),
        pytest.param("ReplicaSet", ("--user", "dev-a"), "batch", id="a reference that a person wrote"),
    ],
)
def test_a_pod_with_a_controller_is_taken_for_its_work(
    run: Run, kind: str, flags: tuple[str, ...], pod_class: str
) -> None:
    """What kubectl gets from a cluster is explained as it was created there, unless a user is named."""
    version = "kubeflow.org/v1" if kind == "Notebook" else "apps/v1"
    reference = {"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": True}
    assert run(pod(ownerReferences=[reference]), flags=flags).json["class"] == pod_class


def test_the_namespace_of_the_manifest_selects_the_policy(run: Run) -> None:
    """A policy that selects another namespace does not apply."""
    selecting = POLICY + "  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}\n"
    assert run(pod(namespace="team-a"), policy=selecting).json["policy"] == "default"
    assert run(pod(), policy=selecting).json["policy"] == "built-in"
    assert run(pod(), policy=selecting, flags=("--namespace", "team-a")).json["policy"] == "default"


def test_the_text_names_what_matters(run: Run) -> None:
    """Answer, devices, class, policy, changes and warnings, for people."""
    ran = run(pod(labels={f"{P}idle-after": "9h"}), output="text")
    assert ran.code == 0
    for part in (
        "Pod p",
        "allowed",
        "2 x nvidia.com/gpu",
        "batch",
        "default",
        "activeDeadlineSeconds",
        "604800",
        "9h",
    ):
        assert part in ran.out
    hostile = run(pod(labels={"x": "[bold]y[/]"}, name="[red]n"), output="text")
    assert "Pod [red]n" in hostile.out


def test_refused_is_exit_code_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is printed like any answer, with its sentence among the reasons."""
    from webhook import validation
    from webhook.answers import Denied, RefusedBy
    from webhook.stages import Finding

    finding = Finding(refusal=Denied("not today", RefusedBy.IMAGES))
    monkeypatch.setattr(validation, "check_terms", lambda *_: finding)
    ran = run(pod())
    assert ran.code == 1
    assert ran.json["allowed"] is False
    assert "not today" in ran.json["reasons"]
    assert "refused" in run(pod(), output="text").out
