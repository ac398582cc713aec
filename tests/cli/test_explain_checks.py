"""What `gpu-tenure explain` says of images, the right to use a policy, and GPUs that nobody counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.main import main

Object = dict[str, Any]
POLICY = """
apiVersion: gpu-tenure.io/v1alpha1
kind: GPUPolicy
metadata: {name: ml}
spec:
  requireUse: true
  images: {allowed: [reg.example]}
"""
Run = Callable[..., tuple[int, str]]


def pod(gpus: int = 1, image: str = "reg.example/x", **spec: Any) -> Object:
    """A pod."""
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    container = {"name": "main", "image": image, "resources": {"limits": limits}}
    body = {"restartPolicy": "Never", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": body}


def deployment(made: Object) -> Object:
    """A Deployment of such pods."""
    spec = {"template": {"spec": {**made["spec"], "restartPolicy": "Always"}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Explains an object under the policy above; gives the exit code and what was printed."""
    (tmp_path / "policy.yaml").write_text(POLICY)

    def call(obj: Object, *flags: str) -> tuple[int, str]:
        (tmp_path / "object.yaml").write_text(yaml.safe_dump(obj))
        files = ["-f", str(tmp_path / "object.yaml"), "--policy", str(tmp_path / "policy.yaml")]
        monkeypatch.setattr("sys.argv", ["gpu-tenure", "explain", *files, *flags])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().out

    return call


def explained(run: Run, obj: Object, *flags: str) -> tuple[int, Any]:
    """The exit code and the JSON."""
    code, out = run(obj, "-o", "json", *flags)
    return code, json.loads(out)


@pytest.mark.parametrize("wrap", [lambda made: made, deployment], ids=["a pod", "a Deployment"])
def test_images_refuse_under_enforce_and_warn_elsewhere(run: Run, wrap: Callable[[Object], Object]) -> None:
    """The same sentence as admission's, for the pods of a workload too."""
    bad = wrap(pod(image="evil.example/x"))
    code, answer = explained(run, bad, "--profile", "enforce")
    assert (code, answer["allowed"]) == (1, False)
    assert any("GPUPolicy ml does not allow the image" in reason for reason in answer["reasons"])
    code, answer = explained(run, bad)
    assert (code, answer["allowed"]) == (0, True)
    assert any("would be refused: GPUPolicy ml" in warning for warning in answer["warnings"])
    assert explained(run, wrap(pod()), "--profile", "enforce")[1]["allowed"] is True


@pytest.mark.parametrize(
    ("obj", "flags", "who"),
    [
        pytest.param(pod(), ("--user", "dev-a"), "dev-a", id="a pod"),
        pytest.param(deployment(pod()), ("--user", "dev-a"), "dev-a", id="a Deployment"),
        pytest.param(deployment(pod()), (), "whoever creates it", id="a Deployment of nobody in particular"),
    ],
)
def test_the_right_is_told_and_not_guessed(run: Run, obj: Object, flags: tuple[str, ...], who: str) -> None:
    """Only a cluster knows it."""
    code, answer = explained(run, obj, *flags)
    assert code == 0
    expected = (
        f"{who} needs the verb use on gpupolicies.gpu-tenure.io/ml in namespace default: not checked offline"
    )
    assert expected in answer["reasons"]


def test_a_trusted_controller_needs_no_right(run: Run) -> None:
    """Whoever made the workload was asked."""
    _, answer = explained(run, pod(), "--user", "system:kube-controller-manager")
    assert not any("needs the verb" in reason for reason in answer["reasons"])


@pytest.mark.parametrize("gpus", [0, 1], ids=["a pod without GPUs", "a GPU pod"])
def test_gpus_that_nobody_counts_are_told(run: Run, gpus: int) -> None:
    """They matter most where a pod asks for nothing."""
    made = pod(gpus, nodeName="gpu-1")
    made["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    code, answer = explained(run, made)
    assert code == 0
    assert answer["bypasses"] == [
        "a variable such as NVIDIA_VISIBLE_DEVICES gives a container GPUs that nobody counts",
        "a preset nodeName takes the pod past the scheduler and the taints of GPU nodes",
    ]
    assert "bypass" in run(made)[1]
    assert explained(run, made, "--namespace", "kube-system")[1]["bypasses"] == []
    assert explained(run, pod(gpus))[1]["bypasses"] == []
