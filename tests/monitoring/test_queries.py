"""Rules and dashboards against what is exported: every metric and label, every query on a real Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import prometheus_client.metrics
import pytest
import requests
import yaml
from prometheus_client import CollectorRegistry, Counter, Histogram

import certs.metrics
import quota.metrics
import reaper.metrics
import runtime.metrics
from reaper.exporters import SOURCES
from sandbox.balancer import Mode
from sandbox.cluster import Sandbox
from sandbox.install import Installation
from sandbox.prometheus import ScrapeJob
from webhook.metrics import WebhookMetrics
from webhook.quota_metrics import QuotaMetrics
from webhook.tally import Spread, Tally

ROOT = Path(__file__).parents[2]
FILES = ROOT / "manifests" / "chart" / "files"
NOT_OURS = {"long-windows", "low-usage"}
"""Rules about exporters alone, which are tested where the tables of exporters are."""
DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
TARGET = {"job", "instance"}
WORKLOAD = {"namespace", "pod", "exported_namespace", "exported_pod"}
DCGM = {"UUID", "GPU_I_ID", "Hostname", "hostname", *WORKLOAD}
EXPORTERS = {
    "DCGM_FI_DEV_GPU_UTIL": DCGM,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": DCGM,
    "hami_host_gpu_utilization_ratio": {"device_uuid", "node"},
    "hami_vgpu_memory_limit_bytes": {"device_uuid"},
    "HostCoreUtilization": {"deviceuuid", "nodeid"},
    "vGPU_device_memory_limit_in_bytes": {"deviceuuid"},
    "gpu_gfx_activity": {"hostname", "gpu_id", "gpu_partition_id", *WORKLOAD},
}
"""Metrics of the exporters in docs/sources.md, with the labels that rules look at."""
KUBE_STATE_METRICS = {
    "kube_node_status_allocatable": {"node", "resource", "unit"},
    "kube_pod_container_resource_requests": {"namespace", "pod", "container", "node", "resource", "unit"},
    "kube_pod_status_phase": {"namespace", "pod", "phase"},
    "kube_pod_start_time": {"namespace", "pod"},
    "kube_pod_owner": {"namespace", "pod", "owner_kind", "owner_name"},
    "kube_cronjob_info": {"namespace", "cronjob"},
    "kube_cronjob_created": {"namespace", "cronjob"},
    "kube_cronjob_next_schedule_time": {"namespace", "cronjob"},
    "kube_cronjob_status_last_schedule_time": {"namespace", "cronjob"},
    "kube_cronjob_status_last_successful_time": {"namespace", "cronjob"},
}
"""Metrics of kube-state-metrics that its documentation calls stable."""
API_SERVER = {
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
    "apiserver_admission_webhook_rejection_count": {
        "name",
        "type",
        "operation",
        "error_type",
        "rejection_code",
    },
    "apiserver_admission_webhook_admission_duration_seconds_bucket": {
        "name",
        "type",
        "operation",
        "rejected",
        "le",
    },
}
Known = dict[str, set[str]]


def endings(kind: type, name: str, labels: set[str]) -> Known:
    """The series of one metric with their labels."""
    if kind in (Histogram, Spread):
        return {f"{name}_bucket": {*labels, "le"}, f"{name}_sum": labels, f"{name}_count": labels}
    return {f"{name}_total" if kind in (Counter, Tally) else name: labels}


def exported_by_us() -> Known:
    """Every series that our components export, by the definitions of their metrics."""
    found: Known = {}
    registry = CollectorRegistry()
    parts = [*vars(WebhookMetrics(registry)).values(), *vars(QuotaMetrics(registry)).values()]
    for module in (certs.metrics, quota.metrics, reaper.metrics, runtime.metrics):
        parts += vars(module).values()
    for part in parts:
        if isinstance(part, (Tally, Spread)):
            found |= endings(type(part), vars(part)["_name"], {*vars(part)["_labels"]})
        elif isinstance(part, prometheus_client.metrics.MetricWrapperBase):
            found |= endings(type(part), vars(part)["_name"], {*vars(part)["_labelnames"]})
    return found


def rules() -> list[dict[str, Any]]:
    """Every rule about us."""
    files = [file for file in sorted((FILES / "rules").glob("*.yaml")) if file.stem not in NOT_OURS]
    return [
        rule
        for file in files
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
    ]


def panels() -> list[dict[str, Any]]:
    """Every panel of every dashboard."""
    return [panel for file in DASHBOARDS for panel in json.loads(file.read_text())["panels"]]


def expressions() -> dict[str, str]:
    """Every query, by where it stands; variables of Grafana as it would fill them in."""
    found = {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules()}
    for panel in panels():
        for target in panel["targets"]:
            found[f"{panel['title']} {target['refId']}"] = target["expr"].replace("$__rate_interval", "5m")
    return found


class Parsed:
    """A query as Prometheus parses it: series with the labels that it looks at, and labels that it makes."""

    def __init__(self, tree: Any) -> None:
        self.series: list[tuple[str, set[str]]] = []
        self.grouped: set[str] = set()
        self.made: set[str] = set()
        self._walk(tree)

    def _walk(self, node: Any) -> None:
        if isinstance(node, list):
            for one in node:
                self._walk(one)
        if not isinstance(node, dict):
            return
        if node.get("type") in ("vectorSelector", "matrixSelector"):
            looked = {one["name"] for one in node["matchers"]} - {"__name__"}
            self.series.append((node["name"], looked))
            return
        if node.get("type") == "call" and node["func"]["name"] in ("label_replace", "label_join"):
            self.made.add(node["args"][1]["val"])
        self.grouped |= {*(node.get("grouping") or []), *((node.get("matching") or {}).get("labels") or [])}
        for child in node.values():
            self._walk(child)


@pytest.fixture(scope="module")
def ask(sandbox: Sandbox) -> Callable[[str, str], Any]:
    """Asks Prometheus: `query` or `parse_query` of an expression."""

    def call(what: str, expression: str) -> Any:
        url = f"{sandbox.prometheus_url}/api/v1/{what}"
        answer = requests.post(url, data={"query": expression}, timeout=10).json()
        assert answer["status"] == "success", (expression, answer)
        assert not answer.get("warnings"), answer
        return answer["data"]

    return call


def all_known(ask: Callable[[str, str], Any]) -> Known:
    """Every series that there can be, with its labels: a recording has those that its rule keeps."""
    known = exported_by_us() | EXPORTERS | KUBE_STATE_METRICS | API_SERVER
    for rule in rules():
        if "record" in rule:
            query = Parsed(ask("parse_query", rule["expr"]))
            above = {label for name, _ in query.series if ":" in name for label in known[name]}
            known[rule["record"]] = query.grouped | query.made | above
    return known


@pytest.fixture(scope="module")
def site(
    sandbox: Sandbox, installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """Webhook, reaper and quota, scraped by a Prometheus that has all rules."""
    before, jobs = list(sandbox.rule_files), list(sandbox.scrape_jobs)
    installation.start_webhooks(1)
    urls = {"reaper": installation.start_reaper("--cycle=1s")}
    (backend,) = installation.webhooks.values()
    urls["webhook"] = backend.ready_url.removesuffix("/readyz")
    ours = [ScrapeJob(f"gpu-tenure-{name}", url.removeprefix("http://")) for name, url in urls.items()]
    folder = tmp_path_factory.mktemp("rules")
    for file in (FILES / "rules").glob("*.yaml"):
        content = yaml.safe_load(file.read_text())
        for group in content["groups"]:
            group["interval"] = "1s"
        (folder / file.name).write_text(yaml.safe_dump(content))
    names = [str(folder / file.name) for file in sorted(folder.iterdir()) if file.stem not in NOT_OURS]
    sandbox.configure_prometheus([*jobs, *ours], names)
    yield sandbox
    sandbox.configure_prometheus(jobs, before)
    sandbox.stop("reaper")
    installation.stop_webhooks()


def pod(name: str) -> dict[str, Any]:
    """A GPU pod."""
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    }


def test_every_metric_and_label_is_exported(ask: Callable[[str, str], Any]) -> None:
    """By our code, by a rule, or by an exporter that is named here."""
    assert {*EXPORTERS} <= {metric.name for source in SOURCES for metric in source.metrics}
    known = all_known(ask)
    parsed = {where: Parsed(ask("parse_query", text)) for where, text in expressions().items()}
    for where, query in parsed.items():
        assert query.series, where
        labels = set(query.made)
        for name, looked in query.series:
            assert name in known, (where, name)
            assert looked <= known[name] | TARGET, (where, name, looked - known[name])
            labels |= known[name] | TARGET
        assert query.grouped <= labels, (where, query.grouped - labels)


def test_every_legend_names_a_label(ask: Callable[[str, str], Any]) -> None:
    """Of what its query gives."""
    known = all_known(ask)
    for panel in panels():
        for target in panel["targets"]:
            query = Parsed(ask("parse_query", target["expr"].replace("$__rate_interval", "5m")))
            labels = query.grouped or {label for name, _ in query.series for label in known[name]}
            assert {*re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])} <= labels, (panel["title"], labels)


def test_every_query_is_answered(site: Sandbox, ask: Callable[[str, str], Any], namespace: str) -> None:
    """Without an error or a warning; what can have data here does."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    site.api().create(pods, pod("seen"))
    site.api().wait_running(namespace, "seen")

    def count(name: str) -> int:
        return len(ask("query", name)["result"])

    for name in (
        "path:gpu_tenure_webhook_reviews:rate5m",
        "cluster:gpu_tenure_reaper_devices:sum",
        "cluster:gpu_tenure_reaper_pods_without_terms:sum",
        "cluster:gpu_tenure_idle_devices:ratio",
        "cluster:gpu_tenure_reaper_cycles:rate10m",
        "node:gpu_tenure_utilization:avg",
        "cluster:gpu_tenure_utilization:avg",
        "cluster:gpu_tenure_allocated_utilization:avg",
    ):
        what = f"{name} has samples; see {site.log('reaper')}"
        site.api().wait(lambda name=name: count(name) > 0, 60, what)
    for text in expressions().values():
        ask("query", text)
    firing = {one["metric"]["alertname"] for one in ask("query", 'ALERTS{alertstate="firing"}')["result"]}
    assert firing == set()


def test_the_api_server_counts_what_it_could_not_ask(
    site: Sandbox, installation: Installation, namespace: str
) -> None:
    """With the names and labels that the rules look at."""
    installation.balancer.mode = Mode.REFUSE
    try:
        reply = site.api().raw("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod("open"))
        assert reply.status == 201, reply.text
    finally:
        installation.balancer.mode = Mode.PASS
    # The parser of the client library renames counters that do not end in _total.
    lines = re.findall(r"^(\w+)\{(.*)\} \S+$", site.api().raw("GET", "/metrics").text, re.MULTILINE)
    ours = [(name, labels) for name, labels in lines if 'name="mutate.gpu-tenure.io"' in labels]
    found = {name: {*re.findall(r'(\w+)="', labels)} for name, labels in ours}
    for name in ("fail_open_count", "admission_duration_seconds_bucket"):
        metric = f"apiserver_admission_webhook_{name}"
        assert API_SERVER[metric] <= found[metric], found
