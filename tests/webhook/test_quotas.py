"""Which ResourceQuotas keep deadlines off, and what admission makes of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from webhook.quotas import scoped_namespace

GPU = {"requests.nvidia.com/gpu": "4"}


def selecting(*scopes: str) -> dict[str, Any]:
    """A scope selector."""
    return {"matchExpressions": [{"scopeName": scope, "operator": "Exists"} for scope in scopes]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"hard": GPU, "scopes": ["Terminating"]}, "team", id="pods with a deadline"),
        pytest.param({"hard": GPU, "scopes": ["NotTerminating", "BestEffort"]}, "team", id="pods without"),
        pytest.param({"hard": GPU, "scopeSelector": selecting("Terminating")}, "team", id="by a selector"),
        pytest.param({"hard": {"limits.amd.com/gpu": 1}, "scopes": ["Terminating"]}, "team", id="limits"),
        pytest.param({"hard": GPU}, None, id="all pods"),
        pytest.param({"hard": GPU, "scopes": ["BestEffort"]}, None, id="another scope"),
        pytest.param({"hard": GPU, "scopeSelector": selecting("PriorityClass")}, None, id="by priority"),
        pytest.param({"hard": {"requests.cpu": "4"}, "scopes": ["Terminating"]}, None, id="no GPUs"),
        pytest.param({"hard": None, "scopes": ["Terminating"]}, None, id="nothing"),
        pytest.param({}, None, id="an empty one"),
    ],
)
def test_only_scopes_that_count_gpus_matter(spec: dict[str, Any], expected: str | None) -> None:
    """Everything else is not kept."""
    raw = msgspec.json.encode({"metadata": {"name": "q", "namespace": "team"}, "spec": spec})
    assert scoped_namespace(raw) == expected
