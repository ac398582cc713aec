"""What the dashboards show, as tables; must not know how Grafana wants it written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["stat", "timeseries", "table", "bargauge", "state-timeline"]


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        title: What it shows.
        queries: PromQL with the legend of its series.
        unit: Grafana's name of the unit.
        kind: How it is drawn.
        width, height: Size on the grid of 24 columns.
        about: A sentence that explains it.
    """

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: Kind = "timeseries"
    width: int = 12
    height: int = 8
    about: str = ""


def stat(title: str, query: str, unit: str = "short", about: str = "") -> Panel:
    """A number."""
    return Panel(title, [(query, "")], unit, "stat", 4, 4, about)


LEADER: Final = 'unless on (job, instance) gpu_tenure_runtime_lease_leader{lease="gpu-tenure-reaper"} == 0'
DEVICES: Final = "cluster:gpu_tenure_reaper_devices:sum"
OURS: Final = r'name=~"(.+\\.)?(mutate|validate)\\.gpu-tenure\\.io"'
REJECTIONS: Final = f'apiserver_admission_webhook_rejection_count{{{OURS}, error_type!="no_error"}}'
CYCLE_SECONDS: Final = "gpu_tenure_reaper_cycle_duration_seconds"
RATE: Final = "[$__rate_interval]"

CLUSTER: Final = (
    stat(
        "Devices",
        "cluster:gpu_tenure_allocatable_devices:sum",
        about="As nodes offer them (kube-state-metrics).",
    ),
    stat("Allocated", f"sum({DEVICES})", about="Held by GPU pods, as the reaper counts."),
    stat("Idle", f'sum({DEVICES}{{verdict="Idle"}})', about="For as long as their terms allow."),
    stat("Idle share", "cluster:gpu_tenure_idle_devices:ratio", "percentunit"),
    stat("Mean utilization", "cluster:gpu_tenure_utilization:avg", "percentunit", "Of all devices."),
    stat(
        "Of what is held",
        "cluster:gpu_tenure_allocated_utilization:avg",
        "percentunit",
        "Of devices that pods hold.",
    ),
    Panel(
        "Devices by verdict",
        [(DEVICES, "{{verdict}}"), ("cluster:gpu_tenure_allocatable_devices:sum", "total")],
    ),
    Panel(
        "Utilization",
        [
            ("cluster:gpu_tenure_utilization:avg", "all devices"),
            ("cluster:gpu_tenure_allocated_utilization:avg", "held by pods"),
        ],
        "percentunit",
    ),
    Panel(
        "Devices that nodes offer",
        [("node:gpu_tenure_allocatable_devices:sum", "{{node}}")],
        kind="bargauge",
        width=8,
    ),
    Panel(
        "Devices requested", [("node:gpu_tenure_requested_devices:sum", "{{node}}")], kind="bargauge", width=8
    ),
    Panel(
        "Utilization by node",
        [("node:gpu_tenure_utilization:avg", "{{node}}")],
        "percentunit",
        "bargauge",
        8,
    ),
    Panel("Hot nodes", [("topk(10, node:gpu_tenure_utilization:avg)", "{{node}}")], "percentunit"),
    Panel(
        "Held devices that do least",
        [
            (
                "bottomk(20, avg_over_time(device:gpu_tenure_allocated_utilization:ratio[1h]))",
                "{{node}} {{device}}",
            )
        ],
        "percentunit",
        "table",
    ),
)

ENFORCEMENT: Final = (
    Panel("Reviews", [("path:gpu_tenure_webhook_reviews:rate5m", "{{path}} {{outcome}}")], "reqps"),
    Panel(
        "Latency, 99 of 100",
        [
            ("path:gpu_tenure_webhook_review_seconds:p99_5m", "webhook {{path}}"),
            ("webhook:gpu_tenure_admission_seconds:p99_5m", "API server {{name}}"),
        ],
        "s",
    ),
    Panel(
        "Pods that got terms",
        [(f"sum by (class) (rate(gpu_tenure_webhook_pods_total{RATE}))", "{{class}}")],
        "reqps",
    ),
    Panel(
        "Deadlines",
        [(f"sum by (decision) (rate(gpu_tenure_webhook_deadlines_total{RATE}))", "{{decision}}")],
        "reqps",
    ),
    Panel(
        "Refused, by what refuses",
        [(f"sum by (by) (increase(gpu_tenure_webhook_refusals_total{RATE}))", "{{by}}")],
    ),
    Panel(
        "Terms asked for and not given",
        [(f"sum by (term) (increase(gpu_tenure_webhook_terms_replaced_total{RATE}))", "{{term}}")],
    ),
    Panel(
        "Passed us by",
        [
            (
                f"sum by (name) (increase(apiserver_admission_webhook_fail_open_count{{{OURS}}}{RATE}))",
                "let pass: {{name}}",
            ),
            (
                f"sum by (name) (increase({REJECTIONS}{RATE}))",
                "refused: {{name}}",
            ),
            (f"sum(increase(gpu_tenure_webhook_pods_without_terms_total{RATE}))", "came without terms"),
            ("cluster:gpu_tenure_reaper_pods_without_terms:sum", "run without terms"),
        ],
        about="Calls that the API server could not make, where it is scraped; what came without terms, and"
        " what runs without: pods older than the installation do.",
    ),
    Panel(
        "Errors",
        [(f"sum by (status) (rate(gpu_tenure_webhook_http_errors_total{RATE}))", "{{status}}")],
        "reqps",
    ),
    Panel(
        "Quotas: the fullest subject",
        [("quota:gpu_tenure_quota_fullness:max", "{{quota}} {{limit}}")],
        "percentunit",
    ),
    Panel(
        "Quotas: decisions",
        [(f"sum by (outcome) (rate(gpu_tenure_webhook_quota_decisions_total{RATE}))", "{{outcome}}")],
        "reqps",
    ),
    Panel(
        "Certificates: time left",
        [
            ("certificate:gpu_tenure_certs_seconds_left:min", "{{certificate}}"),
            ("min(gpu_tenure_webhook_serving_not_after_timestamp_seconds) - time()", "served"),
        ],
        "s",
    ),
    Panel(
        "Quotas: reservations without a pod",
        [("max by (quota) (gpu_tenure_quota_reservations)", "{{quota}}")],
    ),
)

RECLAIM: Final = (
    stat("Paused", f"max(gpu_tenure_reaper_paused {LEADER})", "bool_yes_no"),
    stat("Brake", f"max(gpu_tenure_reaper_brake_engaged {LEADER})", "bool_yes_no"),
    stat("Dry run", "max(gpu_tenure_reaper_dry_run)", "bool_yes_no"),
    stat(
        "Last complete cycle", "time() - max(gpu_tenure_reaper_last_successful_cycle_timestamp_seconds)", "s"
    ),
    stat(
        "GPU-hours, 30 days",
        "sum(increase(gpu_tenure_reaper_reclaimed_device_seconds_total[30d])) / 3600",
        "h",
        "Of devices that were taken, until their owner held devices again, 24 hours at most.",
    ),
    stat(
        "Regret, 30 days",
        "sum(increase(gpu_tenure_reaper_regretted_actions_total[30d]))"
        ' / sum(increase(gpu_tenure_reaper_actions_total{result="Accepted"}[30d]))',
        "percentunit",
        "Actions whose owner used devices again within an hour.",
    ),
    Panel("Devices by verdict", [(DEVICES, "{{verdict}}")]),
    Panel("Pods by reason", [("cluster:gpu_tenure_reaper_pods:sum", "{{verdict}} {{reason}}")]),
    Panel("Idle and left alone, by reason", [("cluster:gpu_tenure_reaper_skipped_pods:sum", "{{reason}}")]),
    Panel(
        "Actions",
        [
            (
                f"sum by (action, result) (increase(gpu_tenure_reaper_actions_total{RATE}))",
                "{{action}} {{result}}",
            )
        ],
    ),
    Panel(
        "Stopped right before the action",
        [(f"sum by (reason) (increase(gpu_tenure_reaper_spared_actions_total{RATE}))", "{{reason}}")],
    ),
    Panel(
        "What ended warnings",
        [(f"sum by (by) (increase(gpu_tenure_reaper_warnings_ended_total{RATE}))", "{{by}}")],
    ),
    Panel("Cycles", [("cluster:gpu_tenure_reaper_cycles:rate10m", "{{result}}")], "reqps"),
    Panel(
        "Duration of cycles, 99 of 100",
        [
            (
                f"histogram_quantile(0.99, sum by (le) (rate({CYCLE_SECONDS}_bucket{RATE})))",
                "cycle",
            ),
            (f"max(gpu_tenure_reaper_data_age_seconds {LEADER})", "age of what is known of pods"),
        ],
        "s",
    ),
    Panel(
        "Warnings to Alertmanager",
        [(f"sum by (result) (increase(gpu_tenure_reaper_alerts_total{RATE}))", "{{result}}")],
    ),
    Panel(
        "Devices taken",
        [(f"sum(increase(gpu_tenure_reaper_reclaimed_devices_total{RATE}))", "devices")],
    ),
)

DASHBOARDS: Final = {"cluster": CLUSTER, "enforcement": ENFORCEMENT, "reclaim": RECLAIM}
