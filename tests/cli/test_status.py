"""The command `status` on a real API server and Prometheus, with the rights of an ordinary developer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from policy.durations import format_time
from reaper.published import KEY
from reaper.settings import ENV_PREFIX
from sandbox.deadline import utc_now
from sandbox.history import write_history
from sandbox.install import Installation
from tests.cli.status_stage import Stage

Run = Callable[..., subprocess.CompletedProcess[str]]
POLICY = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "status-tests"},
    "spec": {
        "namespaceSelector": {"matchLabels": {"status-tests": "true"}},
        "idle": {"action": "evict", "after": "3m", "grace": "10m", "warmUp": "5s"},
        "bounds": {"exemption": "30d"},
    },
}
SWITCHES = "/api/v1/namespaces/gpu-tenure-system/configmaps/gpu-tenure-switches"
PAUSE = "/api/v1/namespaces/gpu-tenure-system/configmaps/gpu-tenure-pause"
SETTINGS = "settings of the reaper"


@pytest.fixture(scope="module")
def policy(installation: Installation) -> Iterator[None]:
    """The policy of these tests, and switches that let it act."""
    api = installation.sandbox.api()
    path = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
    api.create(path, POLICY)
    before = api.get(SWITCHES)["data"]
    api.patch(SWITCHES, {"data": {"profile": "enforce", "dry-run": "false"}})
    yield
    api.patch(SWITCHES, {"data": before})
    api.delete(f"{path}/status-tests")


@pytest.fixture
def stage(installation: Installation, make_namespace: Callable[..., str], policy: None) -> Stage:  # noqa: ARG001
    """A namespace that a developer may edit, with a node of its own."""
    namespace = make_namespace(labels={"status-tests": "true"})
    installation.sandbox.api().grant_edit(namespace, "dev-a")
    found = Stage(installation, namespace)
    taint = {"key": "status", "effect": "PreferNoSchedule"}
    name = {"kubernetes.io/hostname": found.node}
    installation.sandbox.add_node(found.node, {"nvidia.com/gpu": 8}, labels=name, taints=[taint])
    return found


def test_a_developer_sees_what_is_next_without_prometheus(stage: Stage) -> None:
    """From what the reaper wrote; what may not be read is said, and the rest is shown."""
    warned = stage.pod("warned", devices=2)
    at = stage.warn("warned", warned)
    stage.pod("unmarked")
    found = stage.json()
    row = found["pods"]["warned"]
    assert (row["verdict"], row["reason"], row["skip"]) == ("Idle", "BelowThreshold", "WithinGrace")
    assert row["next"] == {"step": "evict", "at": at}
    assert (row["requester"], row["class"], row["devices"]) == ("ann", "batch", 2)
    assert found["pods"]["unmarked"]["verdict"] is None
    assert found["missing"]["GPUPolicies"] == "not readable with your rights"
    assert "the pause switch" not in found["missing"]
    assert found["switches"]["paused"] is False
    assert found["switches"]["brake"] is None
    assert (found["switches"]["profile"], found["switches"]["dryRun"]) == ("enforce", False)
    assert (row["switch"], row["most"]) == ("terms", "evict")
    text = stage.run("-n", stage.namespace).stdout
    assert text.index("warned") < text.index("unmarked")
    assert f"{at[11:16]}Z" in text
    assert "GPUPolicies: not readable with your rights" in text
    assert "serving" not in text


def test_with_prometheus_pods_are_judged_now(stage: Stage) -> None:
    """Idle, busy and parked pods, with utilization; the switch that decides is named."""
    stage.pod("idle")
    stage.pod("busy", "busy")
    stage.pod("parked", memory="20Gi")
    stage.pod("kept", **{"idle-action": "exempt"})
    write_history(stage.sandbox, minutes=4, namespaces=[stage.namespace])
    url = ("--prometheus-url", stage.sandbox.prometheus_url, "--early-start", "365d")
    found = stage.json(*url, user="admin")
    pods = found["pods"]
    assert (pods["busy"]["verdict"], pods["busy"]["next"]["step"]) == ("Active", "nothing")
    assert pods["busy"]["utilization"] > 50
    assert (pods["idle"]["verdict"], pods["idle"]["parked"]) == ("Idle", False)
    assert (pods["parked"]["verdict"], pods["parked"]["parked"]) == ("Idle", True)
    assert pods["idle"]["utilization"] < 5
    assert pods["kept"]["verdict"] == "Skipped"
    assert pods["kept"]["exempt"] is True
    assert pods["kept"]["exemptUntil"] > format_time(utc_now())
    assert pods["idle"]["next"] == {"step": "warn", "at": None}
    stage.api.patch(SWITCHES, {"data": {"profile": "warn"}})
    try:
        row = stage.json(*url, user="admin")["pods"]["idle"]
    finally:
        stage.api.patch(SWITCHES, {"data": {"profile": "enforce"}})
    assert (row["switch"], row["most"], row["next"]["step"]) == ("profile", "warn", "warn")
    remarks = [one for one in found["remarks"] if one.startswith("policy status-tests")]
    assert remarks
    assert "serving" in remarks[0]
    only = stage.json("--exempt", user="admin")
    assert set(only["pods"]) == {"kept"}


def test_a_developer_sees_what_the_settings_of_the_reaper_lead_to(stage: Stage) -> None:
    """As the chart publishes them; where an older one did not, the defaults are assumed, which is said."""
    # A CronJob takes no pod for its own, nor does it let one go.
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "train", "controller": True}
    path = f"/apis/batch/v1/namespaces/{stage.namespace}/cronjobs"
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example/x:1"}]}
    template = {"spec": {"template": {"spec": pod}}}
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": template}
    made = stage.api.create(path, {"metadata": {"name": "train"}, "spec": spec})
    uid = stage.pod("rank", **{"idle-action": "stop"})
    references = [{**owner, "uid": made["metadata"]["uid"]}]
    stage.api.patch(f"{stage.pods}/rank", {"metadata": {"ownerReferences": references}})
    at = stage.warn("rank", uid)
    before = stage.api.get(SWITCHES)["data"][KEY]
    found = stage.json()
    assert found["pods"]["rank"]["next"] == {"step": "stop", "at": at}
    assert (found["switches"]["stop"], found["switches"]["onPressure"]) == (True, False)
    assert SETTINGS not in found["missing"]
    try:
        settings = {f"{ENV_PREFIX}STOP": "false", f"{ENV_PREFIX}ON_PRESSURE": "true"}
        stage.api.patch(SWITCHES, {"data": {KEY: json.dumps(settings)}})
        found = stage.json()
        assert (found["pods"]["rank"]["skip"], found["pods"]["rank"]["next"]["step"]) == (
            "NotStoppable",
            "nothing",
        )
        assert (found["switches"]["stop"], found["switches"]["onPressure"]) == (False, True)
        assert "only those of one namespace" in found["missing"]["waiting pods"]
        stage.api.patch(SWITCHES, {"data": {KEY: None}})
        found = stage.json()
        assert found["pods"]["rank"]["next"] == {"step": "stop", "at": at}
        assert found["missing"][SETTINGS] == "not published by this installation; the defaults are assumed"
        assert (found["switches"]["stop"], found["switches"]["onPressure"]) == (None, None)
    finally:
        stage.api.patch(SWITCHES, {"data": {KEY: before}})


def test_after_a_start_of_the_reaper_nothing_comes_at_once(stage: Stage) -> None:
    """Everybody may read its Lease, which says since when it leads."""
    uid = stage.pod("due")
    stage.warn("due", uid, minutes_ago=30)
    leases = "/apis/coordination.k8s.io/v1/namespaces/gpu-tenure-system/leases"
    now = utc_now()
    spec = {"holderIdentity": "me", "acquireTime": f"{format_time(now)[:-1]}.000000Z"}
    stage.api.create(leases, {"metadata": {"name": "gpu-tenure-reaper"}, "spec": spec})
    stage.api.patch(PAUSE, {"data": {"resumed-at": format_time(now - timedelta(hours=1))}})
    try:
        found = stage.json()
    finally:
        stage.api.delete(f"{leases}/gpu-tenure-reaper")
        stage.api.patch(PAUSE, {"data": {"resumed-at": None}})
    assert "the start of the reaper" not in found["missing"]
    later = format_time(now + timedelta(minutes=10))
    assert found["pods"]["due"]["next"] == {"step": "evict", "at": later}
    assert found["pods"]["due"]["skip"] == "QuietTime"


def test_in_a_pipe_watch_prints_a_line_for_each_change(stage: Stage) -> None:
    """First all pods, then only what changed."""
    uid = stage.pod("a")
    argv = [sys.executable, "-m", "cli", "status", "-n", stage.namespace, "--watch", "--every", "1s"]
    kubeconfig = ("--kubeconfig", str(stage.sandbox.kubeconfig("dev-a")))
    with subprocess.Popen([*argv, *kubeconfig], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            at = stage.warn("a", uid)
            second = process.stdout.readline()
        finally:
            process.terminate()
    assert first.split("\t")[1:4] == [stage.namespace, "a", "1"]
    assert second.split("\t")[4] == "Idle"
    assert f"{at[11:16]}Z" in second


def test_watch_goes_on_when_the_api_server_comes_back(stage: Stage) -> None:
    """It says since when nothing is current, and ends with 0 at Ctrl-C; away at first it ends at once."""
    stage.pod("a")
    proxy = stage.sandbox.api_proxy()
    argv = [
        sys.executable,
        "-m",
        "cli",
        "status",
        "-n",
        stage.namespace,
        "--watch",
        "--every=1s",
        "--output=json",
    ]
    kubeconfig = ("--kubeconfig", str(stage.sandbox.kubeconfig("dev-a", proxy.url)))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    healthy, away = proxy.fault, replace(proxy.fault, kind="reset")
    with closing(proxy), subprocess.Popen([*argv, *kubeconfig], **pipes) as process:
        try:
            assert json.loads(process.stdout.readline())["pods"]
            proxy.fault = away
            told = process.stderr.readline()
            proxy.fault = healthy
            assert process.stderr.readline() == "the API server answers again\n"
            since = told.split()[9].rstrip(":")
            assert any(json.loads(line)["at"] > since for line in process.stdout)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert told.startswith("error: not current: nothing newer could be read since 2")
    proxy.fault = away
    assert stage.run("--watch", f"--kubeconfig={kubeconfig[1]}").returncode == 1


def test_whoever_may_read_no_pods_is_told(stage: Stage) -> None:
    """With a namespace to name, and exit code 1; wrong flags end with 2."""
    done = stage.run()
    assert (done.returncode, "name one with -n" in done.stderr) == (1, True)
    done = stage.run("-n", "kube-system")
    assert (done.returncode, "not readable with your rights in namespace kube-system" in done.stderr) == (
        1,
        True,
    )
    done = stage.run("--every", "soon", "--prometheus-url", "ftp://x")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2


def test_a_prometheus_that_is_away_leaves_what_was_written(stage: Stage) -> None:
    """The table is shown all the same, and the exit code says that nothing was judged."""
    at = stage.warn("a", stage.pod("a"))
    done = stage.run("-n", stage.namespace, "--prometheus-url", "http://127.0.0.1:9", user="admin")
    assert done.returncode == 1
    assert "verdicts are what the reaper wrote on pods" in done.stderr
    assert f"{at[11:16]}Z" in done.stdout
