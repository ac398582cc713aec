"""What the running reaper does to an idle pod."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sandbox.faults import Fault, FaultProxy
from tests.reaper.end_to_end.conftest import DCGM_ALONE

if TYPE_CHECKING:
    from collections.abc import Callable


def test_an_idle_pod_is_warned_then_evicted_once_by_uid(stage: Any, start_reaper: Callable[..., Any]) -> None:
    """Warning, grace, eviction, a record and Events; the successor of the same name is spared."""
    made = stage.pod("notebook", limits={"nvidia.com/gpu": 2})
    stage.history()
    reaper = start_reaper()
    stage.wait_warned("notebook")
    warned = stage.annotations("notebook")
    assert warned["gpu-tenure.io/warned-uid"] == made["metadata"]["uid"]
    assert warned["gpu-tenure.io/idle-since"] < warned["gpu-tenure.io/reclaim-at"]
    stage.wait_gone("notebook")
    successor = stage.pod(
        "notebook", limits={"nvidia.com/gpu": 2}, annotations={"sandbox.gpu-tenure.io/started-ago": "0s"}
    )
    told = " ".join(stage.events("notebook"))
    assert re.search(
        r"2 GPUs idle since \S+Z \(\d+ of \d+ samples below 5 %\)\. Will be evicted at \d\d:\d\dZ\. "
        r"To keep it: kubectl annotate pod notebook -n "
        + re.escape(stage.namespace)
        + r" gpu-tenure\.io/keep-until=4h\. Ask in gpu-help\.",
        told,
    ), told
    reaper.wait_cycles(4)
    found = stage.find("notebook")
    assert found is not None
    assert found["metadata"]["uid"] == successor["metadata"]["uid"]
    assert "deletionTimestamp" not in found["metadata"]
    (record,) = stage.records()
    assert record["spec"]["pod"]["uid"] == made["metadata"]["uid"]
    assert record["spec"]["devices"] == 2
    assert record["spec"]["verdict"]["reason"] == "BelowThreshold"
    assert record["status"]["phase"] == "Accepted"


def test_a_restart_between_warning_and_action_forgets_nothing(
    stage: Any, start_reaper: Callable[..., Any]
) -> None:
    """The reaper that comes back keeps the announced time, and the pod that became busy meanwhile."""
    stage.pod(
        "idle", labels={"gpu-tenure.io/idle-grace": "8s"}, annotations={"gpu-tenure.io/asked": "idle-grace"}
    )
    stage.history()
    first = start_reaper()
    stage.wait_warned("idle")
    announced = stage.annotations("idle")
    first.kill()
    second = start_reaper(name="reaper-again")
    second.wait_cycles(1)
    kept = stage.annotations("idle")
    assert {key: kept.get(key) for key in announced} == announced or not kept
    stage.wait_gone("idle")
    (record,) = stage.records()
    assert record["spec"]["decidedAt"] >= announced["gpu-tenure.io/reclaim-at"]
    assert record["spec"]["idleSince"] == announced["gpu-tenure.io/idle-since"]


def test_a_pod_that_turns_busy_between_warning_and_action_is_spared(
    stage: Any, start_reaper: Callable[..., Any]
) -> None:
    """Its warning is withdrawn, and it lives."""
    stage.pod("notebook")
    stage.history()
    reaper = start_reaper()
    stage.wait_warned("notebook")
    stage.active("notebook", "busy")
    stage.api.wait(
        lambda: "gpu-tenure.io/idle-since" not in stage.annotations("notebook"),
        20,
        "the warning is withdrawn",
    )
    reaper.wait_cycles(5)
    assert stage.find("notebook") is not None
    assert stage.records() == []


def test_a_paused_reaper_does_nothing(stage: Any, start_reaper: Callable[..., Any], gpu_tenure: Any) -> None:
    """Neither warning nor action while paused; after the pause warning and grace come as ever."""
    stage.pod("notebook")
    stage.history()
    assert "paused" in gpu_tenure("pause", "--reason", "maintenance", "--for", "1h").stdout
    try:
        reaper = start_reaper()
        reaper.wait_cycles(4)
        assert reaper.value("gpu_tenure_reaper_paused") == 1
        assert "gpu-tenure.io/idle-since" not in stage.annotations("notebook")
    finally:
        assert "not paused" in gpu_tenure("unpause").stdout
    stage.wait_gone("notebook")


def test_a_run_of_once_acts_only_on_what_earlier_runs_saw(stage: Any, reap_once: Callable[[], int]) -> None:
    """The first run sees, the second warns, and only a run after the grace evicts."""
    stage.pod("notebook")
    stage.history()
    assert reap_once() == 0
    seen = stage.annotations("notebook")
    assert "gpu-tenure.io/idle-since" in seen
    assert "gpu-tenure.io/warned-uid" not in seen
    assert reap_once() == 0
    warned = stage.annotations("notebook")
    assert "gpu-tenure.io/reclaim-at" in warned
    found = stage.find("notebook")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    stage.api.wait(lambda: reap_once() == 0 and stage.find("notebook") is None, 40, "a later run evicts")
    assert len(stage.records()) == 1


def test_a_dry_run_writes_nothing(stage: Any, start_reaper: Callable[..., Any]) -> None:
    """It says what it would do, to the log alone."""
    stage.pod("notebook")
    stage.history()
    reaper = start_reaper("--dry-run")
    reaper.wait_log('"outcome": "Accepted"')
    found = stage.find("notebook")
    assert found is not None
    assert not [key for key in found["metadata"]["annotations"] if key.startswith("gpu-tenure.io/")]
    assert stage.records() == []
    assert stage.events("notebook") == [] or "evicted" not in " ".join(stage.events("notebook"))


FAULTS = [
    Fault("hang"),
    Fault("status", status=503),
    Fault("html"),
    Fault("truncate"),
    Fault("reset"),
    Fault("rewrite", rewrite=lambda body: body.replace(b'"success"', b'"success","isPartial":true')),
    Fault(
        "rewrite",
        rewrite=lambda body: body.replace(b'"success"', b'"success","warnings":["a store is down"]'),
    ),
    Fault(
        "rewrite", rewrite=lambda _: b'{"status":"error","errorType":"execution","error":"too many samples"}'
    ),
]


def test_a_prometheus_that_fails_stops_every_action(
    stage: Any, start_reaper: Callable[..., Any], prometheus_proxy: FaultProxy
) -> None:
    """Whatever it answers instead: the pod stays although its time has come, and it is said once."""
    stage.pod("notebook")
    stage.history()
    limits = ("--prometheus-timeout=2s", "--observe-limit=10s", DCGM_ALONE)
    reaper = start_reaper(f"--prometheus-url={prometheus_proxy.url}", *limits)
    stage.wait_warned("notebook")
    for fault in FAULTS:
        prometheus_proxy.fault = fault
        reaper.wait_cycles(2, "held")
        assert "gpu-tenure.io/reclaim-at" in stage.annotations("notebook"), fault
        if fault.kind == "hang":
            assert reaper.log().count("cycle held") == 1
    found = stage.find("notebook")
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    assert stage.records() == []
    prometheus_proxy.fault = Fault()
    stage.wait_gone("notebook")
