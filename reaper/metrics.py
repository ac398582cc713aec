"""All metrics of the reaper, none with the name of a pod or a user; must not know how they are fed."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

PODS = Gauge(
    "gpu_tenure_reaper_pods",
    "GPU pods of the last complete cycle by verdict, reason, and the most that may be done to them.",
    ["verdict", "reason", "action"],
)
DEVICES = Gauge(
    "gpu_tenure_reaper_devices",
    "Devices held by GPU pods of the last complete cycle, by verdict.",
    ["verdict"],
)
SKIPS = Gauge(
    "gpu_tenure_reaper_skipped_pods", "GPU pods left alone in the last complete cycle, by reason.", ["reason"]
)
WITHOUT_TERMS = Gauge(
    "gpu_tenure_reaper_pods_without_terms", "GPU pods that were admitted without idle terms."
)
MARKS = Counter(
    "gpu_tenure_reaper_marks_total", "Changes of warnings on pods, by kind and result.", ["change", "result"]
)
ACTIONS = Counter(
    "gpu_tenure_reaper_actions_total", "Pods acted on, by action and result.", ["action", "result"]
)
SPARED = Counter(
    "gpu_tenure_reaper_spared_actions_total",
    "Actions that the check right before them stopped, by reason.",
    ["reason"],
)
RECLAIMED = Counter("gpu_tenure_reaper_reclaimed_devices_total", "Devices of evicted pods.")
RECLAIMED_SECONDS = Counter(
    "gpu_tenure_reaper_reclaimed_device_seconds_total",
    "Device-seconds since actions, until the owner holds devices again, for 24 hours at most.",
)
REGRETTED = Counter(
    "gpu_tenure_reaper_regretted_actions_total",
    "Pods acted on whose owner used devices again within an hour.",
)
WARNINGS_ENDED = Counter(
    "gpu_tenure_reaper_warnings_ended_total",
    "Warnings that were withdrawn, held off or carried out, by cause: activity, snooze, action or other.",
    ["by"],
)
AUDIT = Counter(
    "gpu_tenure_reaper_audit_entries_total",
    "Entries of the audit log, by result: written or lost.",
    ["result"],
)
STOPS_REVERTED = Counter(
    "gpu_tenure_reaper_stops_reverted_total", "Stopped owners that something else started again."
)
MISSING_RIGHTS = Gauge(
    "gpu_tenure_reaper_missing_rights", "Rights that the settings need and the account does not have."
)
CYCLES = Counter("gpu_tenure_reaper_cycles_total", "Cycles by result: complete, held or failed.", ["result"])
CYCLE_SECONDS = Histogram(
    "gpu_tenure_reaper_cycle_duration_seconds",
    "How long a cycle took.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60),
)
DATA_AGE = Gauge("gpu_tenure_reaper_data_age_seconds", "Age of the pod cache at the last cycle.")
LAST_CYCLE = Gauge(
    "gpu_tenure_reaper_last_successful_cycle_timestamp_seconds", "When the last complete cycle ended."
)
BRAKE = Gauge("gpu_tenure_reaper_brake_engaged", "Whether the brake holds every warning and action.")
PAUSED = Gauge("gpu_tenure_reaper_paused", "Whether warnings and actions are paused.")
DRY_RUN = Gauge("gpu_tenure_reaper_dry_run", "Whether this reaper only says what it would do.")
ALERTS = Counter(
    "gpu_tenure_reaper_alerts_total",
    "Alerts to Alertmanager by what became of them: sent, failed, or dropped because too many waited.",
    ["result"],
)
for _result in ("sent", "failed", "dropped"):
    # How much a series grew whose first sample is 1 nobody can see.
    ALERTS.labels(_result)
ALERT_RETRIES = Counter(
    "gpu_tenure_reaper_alert_retries_total", "Attempts to post alerts after one that failed."
)
HINTS = Counter(
    "gpu_tenure_reaper_hints_total",
    "Firing alerts received, by what they led to: looked, unknown (no GPU pod) or unreadable.",
    ["result"],
)
DEADLINES_TOLD = Counter(
    "gpu_tenure_reaper_deadlines_told_total", "Deadlines that users were told of, by what is left.", ["left"]
)
