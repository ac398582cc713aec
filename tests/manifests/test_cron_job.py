"""The CronJob of the reaper as the chart renders it: its Jobs are made by the controller, and really run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.api import Api
from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.history import write_history
from sandbox.install import Installation, install_chart
from sandbox.kubelet.run import Kubelet
from tests.reaper.end_to_end.conftest import DCGM_ALONE, POLICY, SHORTENED, TERMS

NAMESPACE = "team"
POD = f"/api/v1/namespaces/{NAMESPACE}/pods/notebook"
JOBS = "/apis/batch/v1/namespaces/gpu-tenure-system/jobs"
POLICIES = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
# The next full minute, and a run on a machine that does other things too.
SCHEDULED_SECONDS, RUN_SECONDS = 90, 60


def _variables(*flags: str) -> dict[str, str]:
    """Flags of the reaper as variables of its container."""
    pairs = (flag.removeprefix("--").split("=", 1) for flag in flags)
    return {f"GPU_TENURE_REAPER_{name.replace('-', '_').upper()}": value for name, value in pairs}


@pytest.fixture(scope="module")
def site(kubernetes: str) -> Iterator[Installation]:
    """A cluster with an idle pod, and nothing of ours that runs."""
    with Sandbox.start(SandboxOptions(alertmanager=False, kubelet=True, kubernetes=kubernetes)) as sandbox:
        sandbox.add_node("node-a", {"nvidia.com/gpu": 8})
        installation = install_chart(sandbox)
        api = sandbox.api()
        api.create_namespace(NAMESPACE, labels={"end-to-end": "true"})
        api.create(POLICIES, POLICY)
        notes = {"sandbox.gpu-tenure.io/started-ago": "60m", "sandbox.gpu-tenure.io/activity": "idle"}
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        main = {"name": "main", "image": "registry.example/x:1", "resources": resources}
        body = {
            "metadata": {"name": "notebook", "labels": TERMS, "annotations": notes},
            "spec": {"restartPolicy": "Never", "containers": [main]},
        }
        api.create(POD.removesuffix("/notebook"), body)
        api.wait_running(NAMESPACE, "notebook")
        write_history(sandbox, minutes=4, namespaces=[NAMESPACE])
        with Kubelet(sandbox):
            yield installation


def _finished(api: Api) -> dict[str, str]:
    """How the Jobs ended that have ended, by name."""
    return {
        job["metadata"]["name"]: one["type"]
        for job in api.list(JOBS)
        for one in job.get("status", {}).get("conditions") or []
        if one["status"] == "True" and one["type"] in {"Complete", "Failed"}
    }


def _notes(api: Api) -> dict[str, Any]:
    notes: dict[str, Any] = api.get(POD)["metadata"]["annotations"]
    return notes


def test_scheduled_runs_warn_of_an_idle_pod(site: Installation) -> None:
    """The first run, which the schedule makes, sees; the next, made from the CronJob by hand, warns."""
    api = site.sandbox.api()
    env = _variables(*SHORTENED, DCGM_ALONE)
    reaper = {"mode": "CronJob", "schedule": "* * * * *", "dryRun": False, "env": env}
    site.upgrade({"profile": "enforce", "deployments": {"enabled": True}, "reaper": reaper})
    api.wait(lambda: _finished(api), SCHEDULED_SECONDS, "a run of the schedule has ended")
    # From here on only by hand, so that no other run warns.
    site.upgrade({"reaper": {"schedule": "0 0 1 1 *"}})
    (scheduled,) = _finished(api).items()
    assert scheduled[1] == "Complete", _said(site, scheduled[0])
    assert scheduled[0].startswith("gpu-tenure-reaper-")
    assert "gpu-tenure.io/idle-since" in _notes(api)
    assert "gpu-tenure.io/reclaim-at" not in _notes(api)
    make = ("create", "job", "by-hand", "--from=cronjob/gpu-tenure-reaper")
    site.sandbox.kubectl("--namespace=gpu-tenure-system", *make)
    api.wait(lambda: "by-hand" in _finished(api), RUN_SECONDS, "the run by hand has ended")
    assert _finished(api)["by-hand"] == "Complete", _said(site, "by-hand")
    assert _notes(api)["gpu-tenure.io/warned-uid"] == api.get(POD)["metadata"]["uid"]
    assert "gpu-tenure.io/reclaim-at" in _notes(api)


def test_a_run_that_can_judge_nothing_fails(site: Installation) -> None:
    """Once, without another attempt: the next one comes by the schedule, and an alert looks at failures."""
    api = site.sandbox.api()
    before = _notes(api)
    site.sandbox.stop("prometheus")
    make = ("create", "job", "in-vain", "--from=cronjob/gpu-tenure-reaper")
    site.sandbox.kubectl("--namespace=gpu-tenure-system", *make)
    api.wait(lambda: "in-vain" in _finished(api), RUN_SECONDS, "the run has ended")
    assert _finished(api)["in-vain"] == "Failed"
    assert api.get(f"{JOBS}/in-vain")["status"]["failed"] == 1
    assert _notes(api) == before


def _said(site: Installation, job: str) -> str:
    """The logs of a Job's pods."""
    return "\n".join(path.read_text() for path in site.sandbox.log("x").parent.glob(f"{job}-*.log"))
