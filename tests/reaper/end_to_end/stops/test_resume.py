"""`gpu-tenure resume` on a real API server, with the rights of developers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.reaper.end_to_end.stops.owners import Owners


@pytest.mark.usefixtures("roles")
def test_resume_gives_back_what_was_before_and_only_once(
    owners: Owners, start_reaper: Callable[..., Any], tenure: Callable[..., Any]
) -> None:
    """With the rights of whoever may edit the namespace; what was scaled meanwhile stays."""
    web, shop = owners.scaled("deployments", "web", replicas=2), owners.scaled("deployments", "shop")
    job = owners.job("train", activeDeadlineSeconds=7200)
    owners.running(4)
    started = owners.api.get(job)["status"]["startTime"]
    reaper = start_reaper()
    owners.wait(job, lambda one: one["spec"].get("suspend") is True, "the Job is suspended")
    for path in (web, shop):
        owners.wait(path, lambda one: one["spec"]["replicas"] == 0, f"{path} is at zero")
    owners.api.wait(
        lambda: {one.get("status", {}).get("phase") for one in owners.stage.records()} == {"Accepted"},
        20,
        "all is recorded",
    )
    owners.api.patch(shop, {"spec": {"replicas": 3}})
    dry = tenure("resume", "--since", "1h", "--dry-run", "--output", "json", user="dev-a")
    assert {one["name"]: one["result"] for one in json.loads(dry.stdout)} == {
        "web": "would-resume",
        "shop": "changed",
        "train": "would-resume",
    }
    assert owners.api.get(web)["spec"]["replicas"] == 0
    table = tenure("resume", "deployment/web", user="dev-a")
    assert "resumed" in table.stdout
    found = owners.api.get(web)
    assert found["spec"]["replicas"] == 2
    assert "gpu-tenure.io/stopped" not in found["metadata"]["annotations"]
    done = tenure("resume", "--since", "1h", "--output", "json", user="dev-a")
    assert {one["name"]: one["result"] for one in json.loads(done.stdout)} == {
        "web": "running",
        "shop": "changed",
        "train": "resumed",
    }
    resumed = owners.api.get(job)
    assert resumed["spec"]["suspend"] is False
    stop = owners.records()["train"]["status"]["stop"]
    assert resumed["spec"]["activeDeadlineSeconds"] == 7200 - stop["usedSeconds"]
    assert stop["usedSeconds"] > 0, started
    assert owners.api.get(shop)["spec"]["replicas"] == 3
    missing = tenure("resume", "deployment/none", user="dev-a", check=False)
    assert missing.returncode == 1
    assert "no stop of deployment/none" in missing.stderr
    owners.api.wait(
        lambda: owners.records()["web"]["status"]["phase"] == "Resumed",
        30,
        "the reaper sees that its stop was resumed",
    )
    assert "gpu-tenure resume" in owners.records()["web"]["status"]["message"]
    assert reaper.value("gpu_tenure_reaper_stops_reverted_total") == 1
    owners.api.patch(shop, {"spec": {"replicas": 0}})
    refused = tenure("resume", "deployment/shop", "--output", "json", user="dev-b", check=False)
    assert refused.returncode == 1
    assert "you may not change it" in refused.stdout
