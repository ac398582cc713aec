"""What `gpu-tenure explain` says about bad input: one line per error, exit code 2, never a traceback."""

from __future__ import annotations

import pytest

from tests.cli.conftest import POLICY, SPEC, Run, pod, workload

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
        pytest.param(
            '{"kind": "Pod", "metadata": {"name": "\\ud800"}}', "half of a character", id="a lone surrogate"
        ),
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
