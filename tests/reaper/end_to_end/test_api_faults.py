"""An API server that fails at one step of an action: the pod is spared, or evicted once and recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from policy.durations import format_time
from sandbox.deadline import utc_now
from sandbox.faults import Fault, FaultProxy
from sandbox.install import Installation

GROUP = "/apis/gpu-tenure.io/v1alpha1"


@pytest.fixture
def api_proxy(reaping: Installation) -> Iterator[FaultProxy]:
    """Stands between the reaper and the API server."""
    with reaping.sandbox.api_proxy() as proxy:
        yield proxy


@pytest.fixture
def start(
    reaping: Installation, api_proxy: FaultProxy, start_reaper: Callable[..., Any]
) -> Callable[[], Any]:
    """Starts a reaper behind the proxy."""
    kubeconfig = reaping.sandbox.kubeconfig("reaper", api_proxy.url)
    return lambda: start_reaper(f"--kubeconfig={kubeconfig}")


STEPS = [
    pytest.param(
        "hang",
        f"{GROUP}/namespaces/NAMESPACE/gpureclaims",
        "record not written",
        id="the record is not written",
    ),
    pytest.param(
        "html",
        "/api/v1/namespaces/NAMESPACE/pods/p/eviction",
        '"outcome": "Unknown"',
        id="the eviction is answered by a page",
    ),
    pytest.param("hang", "/apis/coordination.k8s.io", "lease lost", id="the Lease is not renewed"),
    pytest.param(
        "html",
        "/api/v1/namespaces/gpu-tenure-system/configmaps",
        '"reason": "Paused"',
        id="the switch cannot be read",
    ),
]


@pytest.mark.parametrize(("kind", "path", "said"), STEPS)
def test_a_step_that_fails_spares_the_pod(
    kind: Any, path: str, said: str, stage: Any, api_proxy: FaultProxy, start: Callable[[], Any]
) -> None:
    """For as long as it does; afterwards the pod is evicted once."""
    # A leader trusts its Lease for ten seconds more: the grace is longer than that.
    grace, asked = {"gpu-tenure.io/idle-grace": "15s"}, {"gpu-tenure.io/asked": "idle-grace"}
    stage.pod("p", labels=grace, annotations=asked)
    stage.history()
    reaper = start()
    stage.wait_warned("p")
    due_at = stage.annotations("p")["gpu-tenure.io/reclaim-at"]
    api_proxy.fault = Fault(kind, only=path.replace("NAMESPACE", stage.namespace))
    reaper.wait_log(said, 40)
    stage.api.wait(lambda: format_time(utc_now() - timedelta(seconds=3)) > due_at, 30, "its time has come")
    found = stage.find("p")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    api_proxy.fault = Fault()
    stage.wait_gone("p", seconds=60)
    stage.api.wait(
        lambda: [one.get("status", {}).get("phase") for one in stage.records()] == ["Accepted"],
        20,
        "one record is completed",
    )


def test_an_eviction_whose_answer_is_lost_is_recorded(
    stage: Any, api_proxy: FaultProxy, start: Callable[[], Any]
) -> None:
    """The pod went; its successor stays, and the limits count the action."""
    stage.pod("p")
    stage.history()
    reaper = start()
    stage.wait_warned("p")
    api_proxy.fault = Fault("truncate", only=f"{stage.pods}/p/eviction")
    stage.wait_gone("p")
    stage.pod("p", annotations={"sandbox.gpu-tenure.io/started-ago": "0s"})
    stage.api.wait(
        lambda: stage.records()[0].get("status", {}).get("phase") == "Accepted", 20, "the record is completed"
    )
    reaper.wait_cycles(3)
    found = stage.find("p")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    assert len(stage.records()) == 1
