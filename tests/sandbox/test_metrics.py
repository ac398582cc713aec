"""A real Prometheus scrapes what simulated exporters say about pods that really run."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests

from sandbox.activity import unix_time
from sandbox.cluster import Sandbox
from sandbox.deadline import wait, wall_clock
from sandbox.faults import Fault, FaultProxy
from sandbox.history import write_history
from sandbox.ports import LOOPBACK

PREFIX = "sandbox.gpu-tenure.io/"
UTIL = "DCGM_FI_DEV_GPU_UTIL"
GPU = {"nvidia.com/gpu": "1"}
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000"}


def query(sandbox: Sandbox, expression: str) -> list[dict[str, Any]]:
    """The result of an instant query."""
    answer = requests.post(
        f"{sandbox.prometheus_url}/api/v1/query", data={"query": expression}, timeout=10
    ).json()
    assert answer["status"] == "success", answer
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def run(sandbox: Sandbox, namespace: str, name: str, limits: dict[str, str] = GPU, **notes: str) -> None:
    """Makes a pod and waits until it runs."""
    annotations = {PREFIX + key.replace("_", "-"): value for key, value in notes.items()}
    container = {"name": "main", "image": "train:1", "resources": {"limits": limits}}
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container]}}
    sandbox.api().create(f"/api/v1/namespaces/{namespace}/pods", body)
    sandbox.api().wait_running(namespace, name)


def annotate(sandbox: Sandbox, namespace: str, name: str, **notes: str) -> None:
    """Changes what a pod does."""
    annotations = {PREFIX + key: value for key, value in notes.items()}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    sandbox.api().patch(path, {"metadata": {"annotations": annotations}})


@pytest.mark.parametrize(
    ("exporter", "limits", "metric", "names"),
    [
        pytest.param(
            "dcgm", GPU, UTIL, ("exported_namespace", "exported_pod"), id="dcgm with honor_labels off"
        ),
        pytest.param("dcgm-honored", GPU, UTIL, ("namespace", "pod"), id="dcgm with honor_labels on"),
        pytest.param(
            "hami",
            HAMI,
            "hami_container_device_utilization_ratio",
            ("exported_namespace", "exported_pod"),
            id="HAMi with honor_labels off",
        ),
        pytest.param(
            "hami-legacy",
            HAMI,
            "Device_utilization_desc_of_container",
            ("podnamespace", "podname"),
            id="legacy HAMi has label names of its own",
        ),
        pytest.param(
            "amd",
            {"amd.com/gpu": "1"},
            "gpu_gfx_activity",
            ("exported_namespace", "exported_pod"),
            id="AMD with honor_labels off",
        ),
    ],
)
def test_prometheus_attributes_series_by_the_labels_of_the_scrape(
    sandbox: Sandbox,
    namespace: str,
    exporter: str,
    limits: dict[str, str],
    metric: str,
    names: tuple[str, str],
) -> None:
    """The labels of the workload are where the real exporters' would be."""
    run(sandbox, namespace, "p", limits, activity="busy", exporter=exporter)
    expression = f'{metric}{{{names[0]}="{namespace}",{names[1]}="p"}}'
    found = wait(lambda: query(sandbox, expression), 15, f"{metric} is scraped")
    assert [one["value"][1] for one in found] == ["96"]
    assert found[0]["metric"]["job"] == exporter


def test_a_changed_annotation_shows_with_the_next_scrape(sandbox: Sandbox, namespace: str) -> None:
    """A pod turns busy between two looks."""
    run(sandbox, namespace, "p", activity="idle")
    level = f'{UTIL}{{exported_namespace="{namespace}"}} == '
    wait(lambda: query(sandbox, level + "0"), 15, "the pod is idle")
    annotate(sandbox, namespace, "p", activity="busy")
    wait(lambda: query(sandbox, level + "96"), 5, "the pod is busy")


def test_a_deleted_pod_has_no_series_any_more(sandbox: Sandbox, namespace: str) -> None:
    """The device is free again and its series has no pod."""
    run(sandbox, namespace, "p")
    series = f'{UTIL}{{exported_namespace="{namespace}"}}'
    wait(lambda: query(sandbox, series), 15, "the pod is seen")
    sandbox.api().delete(f"/api/v1/namespaces/{namespace}/pods/p")
    wait(lambda: not query(sandbox, series), 15, "the series has ended")


def test_an_hour_is_full_at_once_and_seamless(sandbox: Sandbox, namespace: str) -> None:
    """History and live scraping are one series without a gap, with the same labels."""
    run(sandbox, namespace, "idle", activity="idle", started_ago="90m")
    run(sandbox, namespace, "burst", activity="burst:600", started_ago="90m")
    run(sandbox, namespace, "young", activity="idle", started_ago="10m")
    assert write_history(sandbox, 65, [namespace]) > 2 * 3600

    def window(function: str) -> dict[str, float]:
        found = query(sandbox, f'{function}({UTIL}{{exported_namespace="{namespace}"}}[1h])')
        return {one["metric"]["exported_pod"]: float(one["value"][1]) for one in found}

    wait(lambda: len(window("count_over_time")) == 3, 10, "all pods have series")
    counts = window("count_over_time")
    assert counts["idle"] >= 3600 * 0.99
    assert counts["burst"] >= 3600 * 0.99
    assert counts["young"] == pytest.approx(600, abs=30)
    assert {name: window("max_over_time")[name] for name in counts} == {"idle": 0, "burst": 96, "young": 0}
    assert 5 <= window("sum_over_time")["burst"] / 96 <= 7
    energy = f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{exported_namespace="{namespace}"}}'
    assert {one["value"][1] for one in query(sandbox, f"resets({energy}[1h])")} == {"0"}


def test_writing_history_twice_changes_nothing(sandbox: Sandbox, namespace: str) -> None:
    """Samples lie on a grid, so the second time they fall on the first."""
    run(sandbox, namespace, "p", activity="idle", started_ago="30m")
    expression = f'count_over_time({UTIL}{{exported_namespace="{namespace}"}}[20m] offset 5m)'
    write_history(sandbox, 40, [namespace])
    before = [one["value"][1] for one in query(sandbox, expression)]
    write_history(sandbox, 40, [namespace])
    assert [one["value"][1] for one in query(sandbox, expression)] == before == ["1200"]


def test_a_killed_prometheus_comes_back_with_its_data(sandbox: Sandbox, namespace: str) -> None:
    """Nobody answers while it is dead; history and live samples are there again afterwards."""
    run(sandbox, namespace, "p", activity="idle", started_ago="90m")
    write_history(sandbox, 65, [namespace])
    sandbox.kill("prometheus")
    with pytest.raises(requests.ConnectionError):
        query(sandbox, "up")
    sandbox.start_part("prometheus")
    found = query(sandbox, f'count_over_time({UTIL}{{exported_namespace="{namespace}"}}[1h])')
    assert float(found[0]["value"][1]) > 3500


def test_a_restarted_exporter_gives_the_same_devices(sandbox: Sandbox, namespace: str) -> None:
    """Assignments and the meaning of `now` survive."""
    run(sandbox, namespace, "p", activity="idle-from:now")
    state = wait(
        lambda: requests.get(f"{sandbox.exporter_url}/state", timeout=5).json(), 5, "the state is told"
    )
    sandbox.kill("exporter")
    sandbox.start_part("exporter")
    uid = sandbox.api().get(f"/api/v1/namespaces/{namespace}/pods/p")["metadata"]["uid"]
    after = wait(
        lambda: requests.get(f"{sandbox.exporter_url}/state", timeout=5).json(), 5, "the state is told"
    )
    assert after["slots"][uid] == state["slots"][uid]
    assert after["activities"][uid] == state["activities"][uid]


def test_a_hanging_prometheus_is_a_time_out(sandbox: Sandbox) -> None:
    """Both ways of hanging: a suspended process, and a proxy that swallows."""
    with FaultProxy(sandbox.prometheus_url) as proxy:
        assert requests.get(f"{proxy.url}/-/ready", timeout=5).status_code == 200
        proxy.fault = Fault("hang")
        with pytest.raises(requests.ReadTimeout):
            requests.get(f"{proxy.url}/-/ready", timeout=0.3)
    sandbox.suspend("prometheus")
    try:
        with pytest.raises(requests.ReadTimeout):
            requests.get(f"{sandbox.prometheus_url}/-/ready", timeout=0.3)
    finally:
        sandbox.resume("prometheus")
    assert requests.get(f"{sandbox.prometheus_url}/-/ready", timeout=10).status_code == 200


def test_the_api_server_can_be_killed_and_comes_back(sandbox: Sandbox, namespace: str) -> None:
    """Everything is still there, the exporter went on, and controllers and kwok work on."""
    run(sandbox, namespace, "before", activity="idle")
    level = f'{UTIL}{{exported_namespace="{namespace}",exported_pod="before"}} == 0'
    wait(lambda: query(sandbox, level), 15, "the pod is scraped")
    sandbox.kill("apiserver")
    with pytest.raises(requests.ConnectionError):
        sandbox.api().get("/readyz")
    assert requests.get(f"{sandbox.exporter_url}/dcgm/metrics", timeout=5).text.count('pod="before"') > 1
    sandbox.start_part("apiserver")
    run(sandbox, namespace, "after", activity="busy")
    level = f'{UTIL}{{exported_namespace="{namespace}",exported_pod="after"}} == 96'
    wait(lambda: query(sandbox, level), 30, "the new pod is scraped")


def test_alerts_reach_a_webhook_through_alertmanager(sandbox: Sandbox, namespace: str) -> None:
    """Prometheus evaluates a rule, Alertmanager takes its alert and sends it on."""
    got: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        """Keeps what it is sent."""

        def do_POST(self) -> None:
            """Takes a notification."""
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    rules = sandbox.dir / f"{namespace}.yml"
    rules.write_text(
        f"groups: [{{name: g, rules: [{{alert: GPUIdle, expr: 'vector(1)',"
        f" labels: {{test: {namespace}}}}}]}}]"
    )
    before = list(sandbox.rule_files)
    sandbox.configure_alertmanager(f"http://{LOOPBACK}:{server.server_address[1]}")
    sandbox.configure_prometheus(rule_files=[str(rules)])
    try:
        wait(lambda: got, 20, "the alert has arrived")
    finally:
        sandbox.configure_prometheus(rule_files=before)
        sandbox.configure_alertmanager("")
        server.shutdown()
        server.server_close()
        thread.join()
    assert got[0]["alerts"][0]["labels"]["test"] == namespace


def test_pods_that_start_later_have_a_later_past(
    sandbox: Sandbox, make_namespace: Callable[..., str]
) -> None:
    """History never begins before the start of the pod."""
    namespace = make_namespace()
    run(sandbox, namespace, "p", activity="idle", started_ago="5m")
    write_history(sandbox, 65, [namespace])
    start = unix_time(sandbox.api().get(f"/api/v1/namespaces/{namespace}/pods/p")["status"]["startTime"])
    first = query(sandbox, f'min_over_time(timestamp({UTIL}{{exported_namespace="{namespace}"}})[1h:1s])')
    assert start <= float(first[0]["value"][1]) <= start + 2 < wall_clock()
