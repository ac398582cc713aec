"""`gpu-tenure explain`: what a pod's devices are, what they weigh, and what is not known of them."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cli.main import main

CLASS = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "two"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]
            }
        }
    },
}
Explain = Callable[..., Any]


@pytest.fixture
def explain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Explains objects and gives what was printed: parsed, unless as text."""

    def run(*objects: Any, flags: tuple[str, ...] = (), output: str = "json", code: int = 0) -> Any:
        text = io.TextIOWrapper(io.BytesIO(yaml.safe_dump_all(objects).encode()))
        monkeypatch.setattr(sys, "stdin", text)
        monkeypatch.setattr(sys, "argv", ["gpu-tenure", "explain", "-f", "-", "-o", output, *flags])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, printed.err
        if code:
            return printed.err
        return json.loads(printed.out) if output == "json" else printed.out

    return run


def pod(limits: dict[str, Any] | None = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    container = {"name": "c", "image": "i", "resources": {"limits": limits or {}}}
    metadata = {"name": "p", "annotations": annotations}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


@pytest.mark.parametrize(
    ("body", "devices", "cards"),
    [
        pytest.param(pod({"nvidia.com/gpu": 2}), {"nvidia.com/gpu": "2"}, "2", id="devices"),
        pytest.param(pod({"nvidia.com/mig-2g.10gb": 2}), {"nvidia.com/mig-2g.10gb": "2"}, "4/7", id="slices"),
        pytest.param(
            pod({"nvidia.com/gpumem": 3000}),
            {"nvidia.com/gpumem": "3000", "gpu-tenure.io/implied-device": "1"},
            "1",
            id="a device that is only implied",
        ),
        pytest.param(
            pod(None, {"gpu-fraction": "0.25"}),
            {"kai.scheduler/gpu-fraction": "250"},
            "1/4",
            id="a part of one",
        ),
        pytest.param(
            pod({"nvidia.com/gpu": 1}, overhead={"nvidia.com/gpu": "1"}),
            {"nvidia.com/gpu": "2"},
            "2",
            id="with its overhead",
        ),
    ],
)
def test_what_devices_weigh(
    explain: Explain, body: dict[str, Any], devices: dict[str, str], cards: str
) -> None:
    """Counts are by name, and weights are exact."""
    answer = explain(body)
    assert (answer["gpuPod"], answer["devices"], answer["cards"]) == (True, devices, cards)
    assert answer["uncounted"] == []


def test_claims_of_a_template_in_the_same_file(explain: Explain) -> None:
    """They are counted under the name that ResourceQuota uses."""
    answer = explain(TEMPLATE, pod(resourceClaims=[{"name": "c", "resourceClaimTemplateName": "two"}]))
    assert (answer["gpuPod"], answer["devices"]) == (True, {CLASS: "2"})


@pytest.mark.parametrize("output", ["json", "text"])
def test_what_is_not_known_is_said(explain: Explain, output: str) -> None:
    """A claim that exists by itself, and a template that is not there, are named and not guessed."""
    claims = [
        {"name": "a", "resourceClaimName": "shared"},
        {"name": "b", "resourceClaimTemplateName": "gone"},
    ]
    answer = explain(pod(resourceClaims=claims), output=output)
    if output == "json":
        assert (answer["gpuPod"], answer["devices"], answer["cards"]) == (False, {}, "0")
        answer = " ".join(answer["uncounted"])
    words = " ".join(answer.replace("│", " ").split())
    assert "ResourceClaim shared may be shared by several pods" in words
    assert "ResourceClaimTemplate gone is not known" in words


def test_quantities_that_cannot_be_read_are_said(explain: Explain) -> None:
    """With their path, since the API server will refuse the pod."""
    answer = explain(pod({"nvidia.com/gpu": "1500m"}))
    assert answer["uncounted"] == [
        "spec.containers[0].resources.limits[nvidia.com/gpu]: must be a whole number (is 1500m)"
    ]


def test_names_of_an_administrators_own(explain: Explain) -> None:
    """The same rows as the chart's."""
    rows = json.dumps([{"pattern": r"example\.com/npu", "unit": "device", "weight": "1/3"}])
    answer = explain(pod({"example.com/npu": 1}), flags=("--gpu-resources", rows))
    assert (answer["devices"], answer["cards"]) == ({"example.com/npu": "1"}, "1/3")
    assert explain(pod({"example.com/npu": 1}))["gpuPod"] is False


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        pytest.param("{", "--gpu-resources: must be a JSON list of rows", id="no JSON"),
        pytest.param(
            '[{"pattern": "a"}]', "--gpu-resources[0]: object missing required field", id="half a row"
        ),
    ],
)
def test_bad_rows_are_refused(explain: Explain, rows: str, said: str) -> None:
    """As one line each, with exit code 2."""
    assert said in explain(pod(), flags=("--gpu-resources", rows), code=2)
