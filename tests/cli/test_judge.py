"""The command `gpu-tenure judge`, as people type it, against a real Prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from policy.durations import format_time
from sandbox.faults import Fault, FaultProxy
from tests.reaper.judging.past import BUSY, IDLE, NOW, Line, dcgm, prometheus_of

ROOT = Path(__file__).parents[2]
STARTED = "2026-01-15T08:00:00Z"
POLICY = """
apiVersion: gpu-tenure.io/v1alpha1
kind: GPUPolicy
metadata: {name: hourly}
spec:
  priority: 10
  namespaceSelector: {matchLabels: {team: vision}}
  idle: {action: evict, after: 1h, utilization: 5}
"""


def pod(name: str, namespace: str = "team", gpus: int = 1, **more: Any) -> dict[str, Any]:
    """A running pod as kubectl prints it."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": STARTED,
            "labels": more.pop("labels", {}),
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {
            "restartPolicy": more.pop("restart", "Never"),
            "priority": more.pop("priority", 0),
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        },
        "status": {
            "phase": more.pop("phase", "Running"),
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": STARTED}}}],
        },
    }


def terms(after: str = "1h", action: str = "evict") -> dict[str, str]:
    """The labels of admitted terms."""
    values = {
        "idle-action": action,
        "idle-after": after,
        "idle-utilization": "5",
        "idle-statistic": "maximum",
    }
    more = {"idle-grace": "30m", "idle-warm-up": "30m", "policy": "default", "class": "batch"}
    return {f"gpu-tenure.io/{key}": value for key, value in {**values, **more}.items()}


PODS = [
    pod("idle", labels=terms()),
    pod("busy", labels=terms()),
    pod("silent", labels=terms()),
    pod("plain"),
    pod("server", restart="Always"),
    pod("exempt", labels=terms(action="exempt")),
    pod("done", phase="Succeeded"),
    pod("placeholder", priority=-1),
    pod("cpu", gpus=0),
]


@dataclass
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def run(*arguments: str, stdin: str = "", **env: str) -> Ran:
    """Runs `gpu-tenure judge` in a process of its own."""
    command = [sys.executable, "-m", "cli.main", "judge", *arguments]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, cwd=ROOT, env=env, timeout=60
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def listed(*pods: dict[str, Any], kind: str = "List") -> str:
    """A list as kubectl prints it."""
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": list(pods)})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with the past of a few pods."""
    longer = Line("", {}, IDLE, since=3.5 * 3600)
    lines = [*dcgm("idle", memory=20480.0), *dcgm("busy", util=BUSY), *dcgm("plain", base=longer)]
    with prometheus_of(lines, tmp_path_factory.mktemp("cli")) as address:
        yield address


def verdicts(ran: Ran) -> dict[str, dict[str, Any]]:
    """The JSON by pod."""
    return {one["pod"]: one for one in json.loads(ran.out)}


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_json(url: str, kind: str) -> None:
    """Every GPU pod has one entry, in the documented shape."""
    arguments = ("--pods", "-", "--prometheus-url", url, "--at", format_time(NOW), "-o", "json")
    ran = run(*arguments, stdin=listed(*PODS, kind=kind))
    assert (ran.code, ran.err) == (0, "")
    found = verdicts(ran)
    assert {name: (one["verdict"], one["reason"]) for name, one in found.items()} == {
        "idle": ("Idle", "BelowThreshold"),
        "busy": ("Active", "AboveThreshold"),
        "silent": ("Unknown", "NoSeries"),
        "plain": ("Idle", "BelowThreshold"),
        "server": ("Unknown", "TooYoung"),
        "exempt": ("Skipped", "Exempt"),
        "done": ("Skipped", "Finished"),
        "placeholder": ("Skipped", "Placeholder"),
    }
    idle = found["idle"]
    assert (idle["namespace"], idle["uid"], idle["parked"]) == ("team", "uid-idle", True)
    assert idle["idleSince"].startswith("2026-01-15T10:4")
    assert idle["evidence"]["samples"] == idle["evidence"]["expectedSamples"] == 240
    assert idle["terms"] == {
        "assumed": False,
        "policy": "default",
        "class": "batch",
        "action": "evict",
        "after": "1h",
        "utilization": 5,
        "statistic": "maximum",
        "memory": None,
        "grace": "30m",
        "warmUp": "30m",
        "of": "card",
        "neverTouched": False,
    }
    assert found["busy"]["idleSince"] is None
    assert (found["plain"]["terms"]["assumed"], found["plain"]["terms"]["after"]) == (True, "2h")
    assert found["server"]["terms"]["class"] == "serving"


def test_a_policy_judges_pods_without_terms(url: str, tmp_path: Path) -> None:
    """Terms come from `--policy`, selected by the labels of namespaces that were listed too."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    namespace = {"kind": "Namespace", "metadata": {"name": "team", "labels": {"team": "vision"}}}
    arguments = ("--pods", "-", "--prometheus-url", url, "--at", format_time(NOW), "-o", "json")
    policy = ("--policy", str(tmp_path / "policy.yaml"))
    found = verdicts(run(*arguments, *policy, stdin=listed(namespace, pod("plain"))))
    assert (found["plain"]["terms"]["policy"], found["plain"]["terms"]["after"]) == ("hourly", "1h")
    found = verdicts(run(*arguments, *policy, stdin=listed(pod("plain"))))
    assert found["plain"]["terms"]["policy"] == "built-in"


def test_the_table(url: str) -> None:
    """The table ends in what the verdicts add up to, and what would help."""
    arguments = ("--pods", "-", "--prometheus-url", url, "--at", format_time(NOW))
    ran = run(*arguments, stdin=listed(*PODS), COLUMNS="150")
    assert ran.code == 0
    row = next(line for line in ran.out.splitlines() if " idle " in line)
    assert re.sub(r" +", " ", row).strip() == (
        "team idle 1 Idle (parked) 1h 17m 0 % 20.0 GiB 240 of 240 samples below 5 % evict 1h"
    )
    assert "5 devices in 5 pods, 3 seen in Prometheus:  1 Active  2 Idle  2 Unknown  3 Skipped" in ran.out
    assert "Unknown, by reason" in ran.out
    assert "DCGM_EXPORTER_KUBERNETES=true" in ran.out
    assert "terms assumed" in ran.out


def test_a_device_is_cut_short_in_the_table_only(tmp_path: Path) -> None:
    """Eight characters tell devices apart; the whole identifier would wrap every line."""
    whole = "GPU-0e6d52ef-a4fe-5006-bcc4-c586bfde44c8"
    with prometheus_of([*dcgm("busy", util=BUSY, uuid=whole)], tmp_path) as address:
        arguments = ("--pods", "-", "--prometheus-url", address, "--at", format_time(NOW))
        stdin = listed(pod("busy", labels=terms()))
        table = run(*arguments, stdin=stdin, COLUMNS="150").out
        document = run(*arguments, "-o", "json", stdin=stdin).out
    assert "on GPU-0e6d52ef… " in table
    assert whole not in table
    assert whole in document


def test_pods_from_a_file_and_url_from_the_environment(url: str, tmp_path: Path) -> None:
    """Settings may come from the environment."""
    (tmp_path / "pods.json").write_text(json.dumps(pod("idle", labels=terms())))
    ran = run(
        "--pods",
        str(tmp_path / "pods.json"),
        "--at",
        format_time(NOW),
        "-o",
        "json",
        GPU_TENURE_JUDGE_PROMETHEUS_URL=url,
    )
    assert verdicts(ran)["idle"]["verdict"] == "Idle"


def in_part(body: bytes) -> bytes:
    """An answer as Thanos gives it when a store is away."""
    return body.replace(b'"success"', b'"success","warnings":["lost"]')


def test_prometheus_trouble_is_said_once(url: str) -> None:
    """An incomplete answer: every verdict is Unknown, one line says why, exit code 1."""
    with FaultProxy(url) as proxy:
        proxy.fault = Fault("rewrite", rewrite=in_part)
        ran = run("--pods", "-", "--prometheus-url", proxy.url, "-o", "json", stdin=listed(*PODS[:3]))
    assert ran.code == 1
    assert {one["reason"] for one in verdicts(ran).values()} == {"PartialAnswer"}
    assert ran.err == f"error: {proxy.url}: answered in part: lost; all verdicts are Unknown\n"


def test_an_address_that_nothing_answers_is_named_once() -> None:
    """One sentence with one address."""
    ran = run("--pods", "-", "--prometheus-url", "http://127.0.0.1:1", stdin=listed(*PODS[:3]))
    assert ran.code == 1
    assert ran.err == "error: cannot reach http://127.0.0.1:1: Connection refused; all verdicts are Unknown\n"


def test_nothing_to_judge(url: str) -> None:
    """A cluster without GPU pods is no error."""
    ran = run("--pods", "-", "--prometheus-url", url, stdin=listed(pod("cpu", gpus=0)))
    assert (ran.code, ran.out.strip()) == (0, "No GPU pods in the list.")


@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        pytest.param("", "is empty", id="empty input"),
        pytest.param("No resources found\n", "kubectl get pods -A -o json", id="no JSON"),
        pytest.param('{"kind":"Status"}', "must be a list of pods, is Status", id="another object"),
        pytest.param(
            '{"kind":"List","items":[{"kind":"Pod","spec":{"priority":"x"}}]}', "items[0]", id="a bad pod"
        ),
    ],
)
def test_bad_pods(stdin: str, said: str) -> None:
    """Input that holds no pods is told with its place, exit code 2."""
    ran = run("--pods", "-", "--prometheus-url", "http://127.0.0.1:1", stdin=stdin)
    assert ran.code == 2
    assert ran.err.startswith("error: --pods")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Every bad flag has a line of its own."""
    (tmp_path / "policy.yaml").write_text(POLICY.replace("after: 1h", "after: soon"))
    ran = run(
        *("--pods", "/missing", "--prometheus-url", "prometheus", "--at", "noon", "--interval", "dcgm"),
        *("--matcher", "a-b=c", "--policy", str(tmp_path / "policy.yaml"), "--timeout", "0s"),
        *("--bearer-token-file", "/missing", "--cert-file", "/missing"),
    )
    assert ran.code == 2
    flags = {line.split()[1].rstrip(":") for line in ran.err.splitlines()}
    expected = (
        "--pods --prometheus-url --at --interval --matcher --policy --timeout --bearer-token-file --cert-file"
    )
    assert flags == set(expected.split())


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param("", {}, id="unknown names are no GPUs"),
        pytest.param(
            '[{"pattern": "example.com/npu", "unit": "device"}]',
            {"npu": ("Unknown", "UnsupportedSource")},
            id="of a vendor without metrics",
        ),
        pytest.param(
            '[{"pattern": "example.com/npu", "unit": "device", "vendor": "nvidia"}]',
            {"npu": ("Unknown", "NoSeries")},
            id="of a vendor with metrics",
        ),
    ],
)
def test_further_names(url: str, rows: str, found: dict[str, tuple[str, str]]) -> None:
    """The same rows as the chart's make pods GPU pods, and say whose metrics count."""
    npu = pod("npu")
    npu["spec"]["containers"][0]["resources"]["limits"] = {"example.com/npu": "1"}
    arguments = ("--pods", "-", "--prometheus-url", url, "--at", format_time(NOW), "-o", "json")
    ran = run(*arguments, "--gpu-resources", rows, stdin=listed(npu))
    assert ran.code == 0, ran.err
    assert {name: (one["verdict"], one["reason"]) for name, one in verdicts(ran).items()} == found


def test_wrong_names_are_refused() -> None:
    """Like any other flag, before anything is asked."""
    ran = run("--pods", "-", "--prometheus-url", "http://127.0.0.1:1", "--gpu-resources", "{", stdin=listed())
    assert ran.code == 2
    assert "--gpu-resources: must be a JSON list of rows" in ran.err
