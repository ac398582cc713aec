"""Two reapers as processes: who follows when, and what becomes of an eviction that is under way meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from sandbox.cluster import Sandbox
from sandbox.deadline import monotonic, utc_now
from sandbox.faults import Fault, FaultProxy
from sandbox.install import Installation
from tests.reaper.end_to_end.conftest import DCGM_ALONE, WARNED

LEASES = "/apis/coordination.k8s.io"
LEASE = f"{LEASES}/v1/namespaces/gpu-tenure-system/leases/gpu-tenure-reaper"
KILLED_SECONDS = 20.0
STOPPED_SECONDS = 3.0
BUSY_MACHINE_SECONDS = 3.0
"""How much longer a machine that also runs other tests may take to see it."""


def holder(sandbox: Sandbox) -> str:
    """Gives the identity of the leader; empty if nobody leads."""
    lease = sandbox.api().find(LEASE)
    return str(lease["spec"].get("holderIdentity") or "") if lease else ""


def wait_leads(sandbox: Sandbox, identity: str, seconds: float) -> None:
    """Waits until a replica leads."""
    sandbox.api().wait(lambda: holder(sandbox) == identity, seconds, f"{identity} leads")


@pytest.mark.parametrize(
    ("how", "limit"),
    [
        pytest.param("kill", KILLED_SECONDS, id="the leader is killed"),
        pytest.param("stop", STOPPED_SECONDS, id="the leader is asked to stop"),
    ],
)
def test_another_leads_in_time(
    how: str, limit: float, reaping: Installation, start_reaper: Callable[..., Any]
) -> None:
    """The Lease is waited out after a kill, and given back on a stop."""
    sandbox = reaping.sandbox
    start_reaper(f"--identity=first-{how}", name="first")
    wait_leads(sandbox, f"first-{how}", 30)
    start_reaper(f"--identity=second-{how}", name="second")
    ended = {"kill": sandbox.kill, "stop": sandbox.stop}[how]
    begun = monotonic()
    ended("first")
    wait_leads(sandbox, f"second-{how}", limit + BUSY_MACHINE_SECONDS - (monotonic() - begun))


@pytest.fixture
def api_proxy(reaping: Installation) -> Iterator[FaultProxy]:
    """Stands between the first reaper and the API server."""
    with reaping.sandbox.api_proxy() as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        pytest.param("hang", 0.0, id="which never arrives"),
        pytest.param("delay", 12.0, id="which arrives when the Lease is lost already"),
    ],
)
def test_an_eviction_under_way_when_the_lease_is_lost(
    kind: Any,
    seconds: float,
    stage: Any,
    api_proxy: FaultProxy,
    reaping: Installation,
    start_reaper: Callable[..., Any],
) -> None:
    """The pod goes once, with one record, whoever of the two was heard; its successor of that name stays."""
    stage.pod("p")
    stage.history()
    kubeconfig = reaping.sandbox.kubeconfig("reaper", api_proxy.url)
    identity = f"--identity={stage.namespace}-1"
    first = start_reaper(f"--kubeconfig={kubeconfig}", identity, DCGM_ALONE, name="first")
    stage.wait_warned("p", seconds=40)
    # Shortly before the grace is over: the Lease is trusted for ten seconds more, which a slow machine needs.
    due = datetime.fromisoformat(stage.annotations("p")[WARNED])
    stage.api.wait(lambda: utc_now() > due - timedelta(seconds=1), 20, "the grace is nearly over")
    api_proxy.fault = Fault(kind, seconds, only=(f"{stage.pods}/p/eviction", LEASES))
    stage.api.wait(stage.records, 30, "the first reaper has begun")
    second = start_reaper(f"--identity={stage.namespace}-2", DCGM_ALONE, name="second")
    first.wait_log("lease lost, work cancelled", 30)
    assert "eviction answered" not in first.log()
    stage.wait_gone("p", seconds=60)
    stage.pod("p", annotations={"sandbox.gpu-tenure.io/started-ago": "0s"})
    stage.api.wait(
        lambda: [one.get("status", {}).get("phase") for one in stage.records()] == ["Accepted"],
        30,
        "one record is completed",
    )
    wait_leads(reaping.sandbox, f"{stage.namespace}-2", 30)
    second.wait_cycles(2)
    found = stage.find("p")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    assert len(stage.records()) == 1


def test_a_run_that_a_killed_leader_left_half_done_is_completed(
    stage: Any, api_proxy: FaultProxy, reaping: Installation, start_reaper: Callable[..., Any]
) -> None:
    """It was killed between two pods; the next leader knows the rest as the same action."""
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps"
    owner = stage.api.create(path, {"metadata": {"name": "run"}})["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "run", "uid": owner, "controller": True}
    uid = stage.pod("p-0", ownerReferences=[reference])["metadata"]["uid"]
    stage.pod("p-1", ownerReferences=[reference])
    stage.history()
    records = f"/apis/gpu-tenure.io/v1alpha1/namespaces/{stage.namespace}/gpureclaims"
    # The first pod goes, and its record is not completed for as long as requests may take.
    api_proxy.fault = Fault("hang", only=f"{records}/pod-{uid}")
    kubeconfig = reaping.sandbox.kubeconfig("reaper", api_proxy.url)
    identity = f"--identity={stage.namespace}-1"
    first = start_reaper(f"--kubeconfig={kubeconfig}", identity, DCGM_ALONE, name="first")
    stage.wait_gone("p-0", seconds=60)
    first.kill()
    left = stage.find("p-1")
    assert left is not None
    assert "deletionTimestamp" not in left["metadata"]
    assert {one["spec"]["pod"]["name"] for one in stage.records()} == {"p-0", "p-1"}
    start_reaper(f"--identity={stage.namespace}-2", DCGM_ALONE, name="second")
    stage.wait_gone("p-1", seconds=60)
    stage.api.wait(
        lambda: [one.get("status", {}).get("phase") for one in stage.records()] == ["Accepted"] * 2,
        30,
        "both records are completed",
    )
    assert len({one["spec"]["decidedAt"] for one in stage.records()}) == 1
