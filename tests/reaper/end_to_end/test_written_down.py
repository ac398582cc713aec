"""What the running reaper writes down: audit log, exit codes, logs, and that an owner came back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOLD = "example.com/hold"
LOGS = "https://logs.example.com/{namespace}/{pod}?uid={uid}"
MERGE = {"Content-Type": "application/merge-patch+json"}


def test_an_eviction_is_written_down_to_its_end(
    stage: Any, start_reaper: Callable[..., Any], tmp_path: Path
) -> None:
    """From the warning to the exit code; a kubelet ends the container before the pod is gone."""
    path = tmp_path / "audit.jsonl"
    requested = {"gpu-tenure.io/requested-by": "ann"}
    made = stage.pod("notebook", annotations=requested, finalizers=[HOLD])
    stage.history()
    start_reaper(f"--audit-log={path}", f"--logs-url-template={LOGS}")
    pod = f"{stage.pods}/notebook"
    stage.api.wait(lambda: "deletionTimestamp" in stage.find("notebook")["metadata"], 40, "the pod is going")
    ended = {"exitCode": 143, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    status = {"containerStatuses": [{**_container(), "state": {"terminated": ended}}]}
    reply = stage.api.raw("PATCH", f"{pod}/status", {"status": status}, MERGE)
    assert reply.status == 200, reply.text
    stage.api.patch(pod, {"metadata": {"finalizers": None}})
    stage.wait_gone("notebook")
    stage.pod("notebook", "busy", annotations={**requested, "sandbox.gpu-tenure.io/started-ago": "0s"})
    stage.api.wait(lambda: "returnedAt" in _status(stage), 30, "the owner is seen to be back")
    (record,) = stage.records()
    uid = made["metadata"]["uid"]
    assert record["spec"]["logsURL"] == f"https://logs.example.com/{stage.namespace}/notebook?uid={uid}"
    assert record["status"]["containers"] == [{"name": "main", **ended}]
    assert record["status"]["endedAt"] >= record["status"]["completedAt"]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    entries = [line for line in lines if line.get("uid") == uid]
    assert [entry["event"] for entry in entries] == ["warning", "action"]
    assert {entry["requester"] for entry in entries} == {"ann"}
    assert entries[1]["details"]["outcome"] == "Accepted"
    assert entries[1]["evidence"]["devicesSeen"] == 1


def _container() -> dict[str, Any]:
    fields = {"name": "main", "image": "registry.example/x:1", "imageID": "x", "ready": False}
    return {**fields, "restartCount": 0, "started": False}


def _status(stage: Any) -> dict[str, Any]:
    found: dict[str, Any] = stage.records()[0].get("status", {})
    return found
