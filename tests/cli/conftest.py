"""Manifests of GPU pods, and runs of `gpu-tenure explain` over them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
