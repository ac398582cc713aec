"""`gpu-tenure explain` says offline whether a pod fits into GPUQuotas, with or without their ledgers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.main import main

GPU = "nvidia.com/gpu"
Explain = Callable[..., Any]
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "team-a"},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "x", "resources": {"limits": {GPU: 2}}}],
    },
}


def quota(hard: int, used: int | None = None, **spec: Any) -> dict[str, Any]:
    """A GPUQuota as written, or as `kubectl get` shows it."""
    body = {
        "apiVersion": "gpu-tenure.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "team", "generation": 1},
        "spec": {"hard": {"devices": hard}, **spec},
    }
    if used is None:
        return body
    holders = {"*": ["team-a/Job/train (3)"]}
    status = {
        "observedGeneration": 1,
        "namespaces": ["team-a"],
        "used": {"*": {GPU: used}},
        "holders": holders,
    }
    return {**body, "status": status}


@pytest.fixture
def explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Runs the command over a pod and a quota; gives the exit code, and what it printed or complained of."""

    def run(quota: dict[str, Any], *flags: str) -> tuple[int, str]:
        (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([POD, quota]))
        files = ["-f", str(tmp_path / "objects.yaml"), "--output=json"]
        monkeypatch.setattr(sys, "argv", ["gpu-tenure", "explain", *files, *flags])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), said.out or said.err

    return run


@pytest.mark.parametrize(
    ("given", "flags", "code", "said"),
    [
        pytest.param(quota(2), ("--profile=enforce",), 0, "", id="a quota that nobody counted is empty"),
        pytest.param(quota(1), ("--profile=enforce",), 1, "It can never fit.", id="a pod that is too large"),
        pytest.param(
            quota(4, 3),
            ("--profile=enforce",),
            1,
            "GPUQuota team has 3 of 4 devices in use, and this pod asks for 2. Held by team-a/Job/train (3).",
            id="a quota with its ledger",
        ),
        pytest.param(quota(4, 3), (), 0, "would be refused: GPUQuota team has 3 of 4", id="under observe"),
        pytest.param(
            quota(1, namespaceSelector={"matchLabels": {"team": "b"}}),
            ("--profile=enforce", "--namespace-labels=team=a"),
            0,
            "",
            id="a quota that does not select the namespace",
        ),
        pytest.param(quota(-1), (), 2, "spec.hard[devices]: must be a number", id="a quota that is wrong"),
    ],
)
def test_quotas(
    explain: Explain, given: dict[str, Any], flags: tuple[str, ...], code: int, said: str
) -> None:
    """The same words as at the door."""
    found, text = explain(given, *flags)
    assert found == code, text
    if code == 2:
        assert said in text
    else:
        (explanation,) = json.loads(text) if text.lstrip().startswith("[") else [json.loads(text)]
        assert said in " ".join((*explanation["warnings"], *explanation["reasons"]))
        assert explanation["allowed"] is (code == 0)
