"""install.yaml is what the chart renders, and contains what it should."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import yaml

from sandbox.install import CHART

MANIFESTS = CHART.parent


def test_it_is_what_the_chart_renders() -> None:
    """Whoever changes the chart renders it again."""
    done = subprocess.run(
        [sys.executable, str(MANIFESTS / "render.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_it_holds_back_what_is_the_administrators() -> None:
    """No policy and no switch: to apply it again must change neither. No caBundle: nor a rotation."""
    objects = [obj for obj in yaml.safe_load_all((MANIFESTS / "install.yaml").read_text()) if obj]
    kinds = Counter(obj["kind"] for obj in objects)
    assert kinds["GPUPolicy"] == 0
    assert "gpu-tenure-pause" not in {
        obj["metadata"]["name"] for obj in objects if obj["kind"] == "ConfigMap"
    }
    assert (kinds["Namespace"], kinds["Deployment"]) == (1, 3)
    webhooks = [webhook for obj in objects for webhook in obj.get("webhooks", [])]
    assert webhooks
    assert all("caBundle" not in webhook["clientConfig"] for webhook in webhooks)
    assert {webhook["failurePolicy"] for webhook in webhooks} == {"Ignore"}
