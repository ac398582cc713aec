"""All metrics of the quota component, none named after a pod or user; must not know how they are fed."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

FULLNESS = Gauge(
    "gpu_tenure_quota_fullness_ratio",
    "What the fullest subject holds of a limit, reservations included, by quota and limit.",
    ["quota", "limit"],
)
SUBJECTS_OVER = Gauge("gpu_tenure_quota_subjects_over", "Subjects whose pods exceed a limit.", ["quota"])
RESERVATIONS = Gauge("gpu_tenure_quota_reservations", "Reservations without a pod yet.", ["quota"])
OVER_PODS = Counter("gpu_tenure_quota_over_pods_total", "Pods that slipped in over a quota, once each.")
EXPIRED = Counter("gpu_tenure_quota_expired_reservations_total", "Reservations whose pods never came.")
WRITES = Counter(
    "gpu_tenure_quota_writes_total", "Writes of ledgers: written, conflict or failed.", ["result"]
)
ROUND_SECONDS = Gauge("gpu_tenure_quota_round_seconds", "Duration of the last round over all quotas.")
RESTORES = Counter("gpu_tenure_quota_restores_total", "Times the API server's data went back in time.")
INVALID = Gauge("gpu_tenure_quota_invalid_quotas", "GPUQuotas that cannot be read.")
