"""What is read of a pod."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from policy.objects import Pod
from reaper.pods import GpuPod, gpu_pod

OWNER = {"kind": "Job", "name": "j", "uid": "o", "apiVersion": "batch/v1", "controller": True}


def pod(**changes: Any) -> GpuPod | None:
    """A pod of two containers, of which one holds a GPU."""
    obj: dict[str, Any] = {
        "metadata": {
            "name": "p",
            "namespace": "team",
            "uid": "u",
            "creationTimestamp": "2026-01-01T08:00:00Z",
            "ownerReferences": [
                {"kind": "Job", "name": "j", "uid": "o", "apiVersion": "batch/v1", "controller": True}
            ],
        },
        "spec": {
            "priority": -1,
            "nodeName": "n",
            "containers": [
                {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}},
                {"name": "log"},
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "main", "state": {"running": {"startedAt": "2026-01-01T08:01:00Z"}}},
                {"name": "log", "state": {"running": {"startedAt": "2026-01-01T09:00:00Z"}}},
            ],
        },
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = obj
        for name in parents:
            place = place[name]
        place[last] = value
    return gpu_pod(msgspec.convert(obj, Pod))


def test_a_running_pod() -> None:
    """Facts are read once; only containers with devices tell the start."""
    found = pod()
    assert found is not None
    assert (found.namespace, found.name, found.uid, found.node, found.phase) == (
        "team",
        "p",
        "u",
        "n",
        "Running",
    )
    assert found.containers_started == datetime(2026, 1, 1, 8, 1, tzinfo=UTC)
    assert (found.devices.devices, found.priority, found.deleting, found.finished) == (2, -1, False, False)
    assert found.owner is not None
    assert found.owner.kind == "Job"


def test_a_container_that_waits_has_not_started() -> None:
    """A crash loop has no start."""
    found = pod(
        status__containerStatuses=[{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    )
    assert found is not None
    assert found.containers_started is None


def test_the_latest_start_counts() -> None:
    """A restarted container begins anew, and sidecars that hold devices count too."""
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    found = pod(
        spec__initContainers=[{"name": "side", "restartPolicy": "Always", "resources": limits}],
        status__initContainerStatuses=[
            {"name": "side", "state": {"running": {"startedAt": "2026-01-01T10:00:00.5Z"}}}
        ],
    )
    assert found is not None
    assert found.containers_started == datetime(2026, 1, 1, 10, 0, 0, 500000, tzinfo=UTC)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"spec__containers": [{"name": "main"}]}, id="no GPU"),
        pytest.param({"spec__containers": None}, id="no containers"),
        pytest.param({"metadata__creationTimestamp": None}, id="never stored"),
        pytest.param({"metadata__name": None}, id="no name"),
    ],
)
def test_what_is_no_gpu_pod(changes: dict[str, Any]) -> None:
    """Only stored pods that hold GPUs are kept."""
    assert pod(**changes) is None


def test_a_pending_pod_is_kept() -> None:
    """Without a status the pod is pending."""
    found = pod(status=None)
    assert found is not None
    assert (found.phase, found.containers_started) == ("Pending", None)
