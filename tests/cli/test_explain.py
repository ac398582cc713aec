"""`gpu-tenure explain`: the answer, its forms, and what is said about bad input."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml

from cli.main import main

P = "gpu-tenure.io/"
POLICY = """
apiVersion: gpu-tenure.io/v1alpha1
kind: GPUPolicy
metadata: {name: default}
spec:
  deadline: {}
  idle: {action: evict, after: 2h}
  bounds: {after: {min: 1h, max: 4h}}
"""
SPEC: dict[str, Any] = {
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 2, "cpu": 1}}}],
}
KEYS = {"gpuPod", "allowed", "class", "devices", "cards", "uncounted", "policy"} | {
    "patch",
    "warnings",
    "reasons",
    "bypasses",
    "pod",
}


def pod(**metadata: Any) -> dict[str, Any]:
    """A pod that asks for two devices."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": SPEC}


def workload(kind: str, api_version: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    """A workload of such pods."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "w"},
        "spec": spec or {"template": template},
    }


class Ran:
    """What a run printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        """The output, parsed."""
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `gpu-tenure explain` over objects or text, with the policy above unless told otherwise."""

    def run(
        *objects: Any, flags: tuple[str, ...] = (), policy: str | None = POLICY, output: str = "json"
    ) -> Ran:
        raw = objects[0] if len(objects) == 1 and isinstance(objects[0], str | bytes) else None
        if raw is None:
            raw = yaml.safe_dump_all(objects)
        path = tmp_path / "objects.yaml"
        path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
        arguments = ["gpu-tenure", "explain", "-f", str(path), "--profile", "enforce", "--output", output]
        if policy is not None:
            (tmp_path / "policy.yaml").write_text(policy)
            arguments += ["--policy", str(tmp_path / "policy.yaml")]
        monkeypatch.setattr(sys, "argv", [*arguments, *flags])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Ran(int(ended.value.code or 0), out, err.replace(str(tmp_path) + "/", ""))

    return run


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


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{name}: &{name} [{', '.join(['*' + below] * 9)}]"
    for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = "a: &a {x: 1}\n" + "\n".join(
    f"{name}: &{name} {{<<: [{', '.join(['*' + below] * 9)}]}}"
    for below, name in zip("abcdefghijk", "bcdefghijkl", strict=True)
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("", "objects.yaml: holds no object; expected YAML or JSON", id="an empty file"),
        pytest.param("a: [", "is neither YAML nor JSON", id="broken YAML"),
        pytest.param('{"kind": "Pod"', "is neither YAML nor JSON", id="broken JSON"),
        pytest.param(b"\x7fELF\xff\xfe\x00", "is not text", id="a binary file"),
        pytest.param(b"\x00\x01\x02", "error: objects.yaml", id="control characters"),
        pytest.param("just words", "is a single value; expected a Kubernetes object", id="a text"),
        pytest.param("- a\n- b", "is a list; expected a Kubernetes object", id="a list of no objects"),
        pytest.param("a: b", "objects.yaml: kind: is missing; expected a kind, such as Pod", id="no kind"),
        pytest.param(BOMB, "after its aliases are followed", id="a bomb of aliases"),
        pytest.param(MERGE_BOMB, "after its aliases are followed", id="a bomb of merge keys"),
        pytest.param("a: &a [*a]", "contains itself", id="a value that contains itself"),
        pytest.param("[" * 5000, "is nested more than 100 levels", id="endless nesting in YAML"),
        pytest.param(
            "[" * 50_000 + "]" * 50_000, "is nested more than 100 levels", id="endless nesting in JSON"
        ),
        pytest.param('{"a":' * 200 + "1" + "}" * 200, "is nested more than 100 levels", id="too deep JSON"),
        pytest.param("!!python/object/apply:os.system [x]", "is neither YAML nor JSON", id="a call"),
        pytest.param("kind: Service", "carries no pods; expected a Pod", id="an object without pods"),
        pytest.param("kind: Deployment\nspec: 5", "carries no pods", id="a workload without template"),
    ],
)
def test_bad_input(run: Run, content: str | bytes, expected: str) -> None:
    """One clear error, exit code 2, never a traceback."""
    ran = run(content)
    assert ran.code == 2
    assert ran.out == ""
    lines = ran.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert expected in lines[0]


def test_a_field_of_the_wrong_form_is_named_with_an_example(run: Run) -> None:
    """All documents are looked at before the end."""
    label, deadline = pod(labels={"a": 5}), pod()
    deadline["spec"] = {**SPEC, "activeDeadlineSeconds": "soon"}
    nested = workload("Deployment")
    nested["spec"]["template"] = {"spec": {"containers": [{"name": 5}]}}
    ran = run(label, deadline, nested)
    assert ran.code == 2
    text = 'expected `str`, got `int`; write it in quotes, such as "5"'
    number = "expected `int | null`, got `str`; write a whole number, such as 3600"
    assert ran.err.splitlines() == [
        f"error: objects.yaml, document 1: metadata.labels.*: {text}",
        f"error: objects.yaml, document 2: spec.activeDeadlineSeconds: {number}",
        f"error: objects.yaml, document 3: spec.template.spec.containers[0].name: {text}",
    ]


def test_all_errors_of_policies_are_told(run: Run) -> None:
    """With file and path."""
    ran = run(pod(), policy=POLICY.replace("2h", "soon").replace("4h", "x"))
    assert ran.code == 2
    assert [line.split(": ")[1:3] for line in ran.err.splitlines()] == [
        ["policy.yaml", "spec.idle.after"],
        ["policy.yaml", "spec.bounds.after.max"],
    ]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(
            ("-f", "missing.yaml"), "missing.yaml: cannot be read: No such file", id="a missing file"
        ),
        pytest.param(
            ("--namespace-labels", "a"), "must be key=value, such as team=vision; got 'a'", id="a label"
        ),
        pytest.param(("--policy", "nowhere"), "nowhere: cannot be read", id="a missing policy"),
    ],
)
def test_bad_flags(run: Run, flags: tuple[str, ...], expected: str) -> None:
    """Named like everything else."""
    ran = run(pod(), flags=flags)
    assert ran.code == 2
    assert expected in ran.err


def test_a_file_beyond_the_limit_is_not_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is said."""
    monkeypatch.setattr("cli.documents.LIMIT_BYTES", 1024 * 1024)
    assert "is larger than 1 MiB" in run(b"#" * 1024 * 1025).err


def test_refused_is_exit_code_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is printed like any answer, with its sentence among the reasons."""
    from webhook import validation
    from webhook.answers import Denied
    from webhook.stages import Finding

    finding = Finding(refusal=Denied("not today"))
    monkeypatch.setattr(validation, "check_terms", lambda *_: finding)
    ran = run(pod())
    assert ran.code == 1
    assert ran.json["allowed"] is False
    assert "not today" in ran.json["reasons"]
    assert "refused" in run(pod(), output="text").out
