"""The reaper with its own rights under the profiles that guard: its writes pass, whatever a pod is like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox.install import Installation

MANY = {f"example.com/note-{number}": "x" for number in range(1100)}
LARGE = {"example.com/note": "x" * (256 * 1024 - 240)}


@pytest.fixture
def guarded(reaping: Installation, request: pytest.FixtureRequest) -> Iterator[str]:
    """The profile, with the whole of it installed and two replicas of the webhook."""
    before = reaping.values.get("profile", "observe")
    reaping.upgrade({"profile": request.param})
    reaping.start_webhooks(1)
    yield request.param
    reaping.stop_webhooks()
    reaping.upgrade({"profile": before})


def make_large(stage: Any) -> None:
    """Makes a pod of a megabyte, which the guards compare field by field."""
    made = stage.pod("small", annotations={"sandbox.gpu-tenure.io/activity": "silent"})
    main = made["spec"]["containers"][0]
    env = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(150)]
    others = [{"name": f"c{number}", "image": "registry.example/x:1", "env": env} for number in range(90)]
    first = {"name": "main", "image": main["image"], "resources": main["resources"]}
    notes = {"sandbox.gpu-tenure.io/started-ago": "60m", "sandbox.gpu-tenure.io/activity": "idle"}
    body = {
        "metadata": {"name": "large", "labels": made["metadata"]["labels"], "annotations": notes},
        "spec": {**made["spec"], "containers": [first, *others], "volumes": [], "nodeName": None},
    }
    stage.api.create(stage.pods, body)
    stage.api.wait_running(stage.namespace, "large")


def records_of(stage: Any) -> list[str]:
    """Gives the pods that were acted on."""
    return sorted(record["spec"]["pod"]["name"] for record in stage.records())


@pytest.mark.parametrize("guarded", ["enforce"], indirect=True)
def test_enforced_all_the_way(guarded: str, stage: Any, start_reaper: Callable[..., Any]) -> None:
    """Admitted by the webhook, warned, evicted; annotations that leave no room for a warning save no pod."""
    made = stage.pod("plain")
    stage.pod("many", annotations=MANY)
    stage.pod("full", annotations=LARGE)
    make_large(stage)
    assert made["metadata"]["annotations"]["gpu-tenure.io/deadline"] == "none: PolicyHasNone"
    stage.history()
    start_reaper(f"--profile={guarded}")
    stage.wait_warned("plain")
    assert stage.find("plain") is not None
    stage.wait_gone("plain", "many", "full", "large")
    assert records_of(stage) == ["full", "large", "many", "plain"]
    for name in ("many", "full"):
        assert any("annotations are full" in note for note in stage.events(name)), name


@pytest.mark.parametrize("guarded", ["warn"], indirect=True)
def test_warned_and_no_more(guarded: str, stage: Any, start_reaper: Callable[..., Any]) -> None:
    """The warning says that nothing will follow, and nothing does."""
    stage.pod("plain")
    stage.history()
    reaper = start_reaper(f"--profile={guarded}")
    stage.api.wait(lambda: "gpu-tenure.io/warned-uid" in stage.annotations("plain"), 25, "the pod is warned")
    reaper.wait_cycles(8)
    assert "gpu-tenure.io/reclaim-at" not in stage.annotations("plain")
    assert stage.records() == []
    assert any("only a warning" in note for note in stage.events("plain"))
