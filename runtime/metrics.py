"""All metrics of the shared plumbing. Knows nothing of the components' own metrics."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

WATCH_OBJECTS = Gauge("gpu_tenure_runtime_watch_objects", "Objects kept by a watch cache.", ["resource"])
WATCH_SYNCED = Gauge(
    "gpu_tenure_runtime_watch_synced", "Whether a watch cache has read its first complete list.", ["resource"]
)
WATCH_LISTS = Counter("gpu_tenure_runtime_watch_lists_total", "Complete lists read by a cache.", ["resource"])
WATCH_FAILURES = Counter(
    "gpu_tenure_runtime_watch_failures_total",
    "Lists and watches that failed, by the status of the answer (0: no readable answer).",
    ["resource", "status"],
)
WATCH_UNREADABLE = Counter(
    "gpu_tenure_runtime_watch_unreadable_objects_total", "Objects that could not be decoded.", ["resource"]
)
LEASE_LEADER = Gauge("gpu_tenure_runtime_lease_leader", "Whether this process holds the Lease.", ["lease"])
LEASE_CHANGES = Counter(
    "gpu_tenure_runtime_lease_changes_total",
    "Times this process gained or lost the Lease.",
    ["lease", "change"],
)
LEASE_FAILURES = Counter(
    "gpu_tenure_runtime_lease_failures_total", "Attempts to take or renew the Lease that failed.", ["lease"]
)
EVENTS = Counter(
    "gpu_tenure_runtime_events_total",
    "Kubernetes Events by what became of them: created, repeated, known (sent before) or failed.",
    ["result"],
)
CRD_MISSING = Gauge(
    "gpu_tenure_runtime_crd_missing", "Whether the CustomResourceDefinition of GPUPolicy is not installed."
)
INVALID_POLICIES = Gauge(
    "gpu_tenure_runtime_invalid_policies",
    "GPUPolicies that are not valid.",
)
