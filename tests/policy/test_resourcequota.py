"""What ResourceQuotas mean for GPU pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policy.resourcequota import NO_QUOTAS, ResourceQuota, Room, is_scoped, namespace_quotas, rooms_of

GPU = "requests.nvidia.com/gpu"


def quota(spec: dict[str, Any], status: dict[str, Any] | None = None, name: str = "q") -> ResourceQuota:
    """A ResourceQuota as the API server sends it."""
    body = {"metadata": {"name": name, "namespace": "n"}, "spec": spec, "status": status or {}}
    return msgspec.json.decode(msgspec.json.encode(body), type=ResourceQuota)


@pytest.mark.parametrize(
    ("spec", "scoped"),
    [
        pytest.param({"hard": {GPU: "8"}, "scopes": ["Terminating"]}, True, id="of terminating pods"),
        pytest.param({"hard": {GPU: 8}, "scopes": ["NotTerminating"]}, True, id="of pods without an end"),
        pytest.param(
            {
                "hard": {GPU: "8"},
                "scopeSelector": {"matchExpressions": [{"scopeName": "Terminating", "operator": "Exists"}]},
            },
            True,
            id="by a selector",
        ),
        pytest.param({"hard": {"requests.cpu": "8"}, "scopes": ["Terminating"]}, False, id="of no GPUs"),
        pytest.param({"hard": {GPU: "8"}, "scopes": ["BestEffort"]}, False, id="of another scope"),
        pytest.param({"hard": {GPU: "8"}}, False, id="of all pods"),
        pytest.param({"hard": None, "scopes": ["Terminating"]}, False, id="of nothing"),
        pytest.param({"hard": {GPU: "8"}, "scopeSelector": {}, "scopes": None}, False, id="of null scopes"),
    ],
)
def test_whether_a_deadline_moves_a_pod_between_quotas(spec: dict[str, Any], scoped: bool) -> None:
    """Only quotas that count GPUs by whether pods end matter."""
    assert is_scoped(quota(spec)) is scoped
    assert namespace_quotas((quota(spec),)).scoped is scoped


@pytest.mark.parametrize(
    ("spec", "status", "rooms"),
    [
        pytest.param(
            {},
            {"hard": {GPU: "8", "cpu": "4"}, "used": {GPU: "5", "cpu": "1"}},
            (Room("ResourceQuota", "q", "nvidia.com/gpu", 8, 5),),
            id="GPUs alone are of interest",
        ),
        pytest.param(
            {},
            {"hard": {GPU: "1k"}, "used": {GPU: "0"}},
            (Room("ResourceQuota", "q", "nvidia.com/gpu", 1000, 0),),
            id="quantities are read as such",
        ),
        pytest.param({"hard": {GPU: "8"}}, {}, (), id="not counted yet"),
        pytest.param({}, {"hard": {GPU: "8"}, "used": {}}, (), id="not counted for this resource"),
        pytest.param({}, {"hard": {GPU: "x"}, "used": {GPU: "0"}}, (), id="not readable"),
        pytest.param({"scopes": ["Terminating"]}, {"hard": {GPU: "8"}, "used": {GPU: "0"}}, (), id="scoped"),
        pytest.param({}, {"hard": {"nvidia.com/gpu": "8"}, "used": {"nvidia.com/gpu": "0"}}, (), id="limits"),
    ],
)
def test_what_a_quota_leaves(spec: dict[str, Any], status: dict[str, Any], rooms: tuple[Room, ...]) -> None:
    """What is not known for sure is left out: the remark about it would be wrong."""
    assert rooms_of(quota(spec, status)) == rooms


def test_a_quota_that_was_lowered_leaves_nothing() -> None:
    """Never less than that."""
    assert Room("ResourceQuota", "q", "amd.com/gpu", 2, 5).left == 0
    assert Room("ResourceQuota", "q", "amd.com/gpu", 5, 2).left == 3


def test_a_namespace_without_quotas() -> None:
    """Leaves everything to others."""
    assert namespace_quotas(()) == NO_QUOTAS
