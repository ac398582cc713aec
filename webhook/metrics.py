"""All metrics of the webhook; decides nothing.

Children are made once and kept: looking one up by its labels costs more than counting.
"""

from __future__ import annotations

from http import HTTPStatus

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from policy.classes import PodClass
from policy.keys import short_name
from webhook.decision import Decision, Outcome

BUCKETS_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0)
PREFIX = "gpu_tenure_webhook"


class WebhookMetrics:
    """The webhook's metrics in one registry. Dry runs are counted apart: they inject nothing."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reviews = Counter(
            f"{PREFIX}_reviews_total",
            "Reviews answered, by path, outcome and whether the request was a dry run.",
            ["path", "outcome", "dry_run"],
            registry=registry,
        )
        self._seconds = Histogram(
            f"{PREFIX}_review_seconds",
            "Time from the whole body to the answer.",
            ["path"],
            buckets=BUCKETS_SECONDS,
            registry=registry,
        )
        self._errors = Counter(
            f"{PREFIX}_http_errors_total",
            "Requests answered with an error status.",
            ["status"],
            registry=registry,
        )
        self._pods = Counter(
            f"{PREFIX}_pods_total", "GPU pods that got terms, by class.", ["class"], registry=registry
        )
        self._deadlines = Counter(
            f"{PREFIX}_deadlines_total",
            "Deadline decisions about pods and Jobs, by the annotation's value.",
            ["decision"],
            registry=registry,
        )
        self._replaced = Counter(
            f"{PREFIX}_terms_replaced_total",
            "Terms that were asked for and not given.",
            ["term"],
            registry=registry,
        )
        self._missing = Counter(
            f"{PREFIX}_pods_without_terms_total",
            "GPU pods that arrived at validation without all of their terms.",
            registry=registry,
        )
        self._exceeding = Counter(
            f"{PREFIX}_terms_exceeding_total",
            "Terms beyond the policy that arrived at validation.",
            ["term"],
            registry=registry,
        )
        self.ready = Gauge(
            f"{PREFIX}_ready", "Whether this replica is ready to answer reviews.", registry=registry
        )
        self._review_children: dict[tuple[str, Outcome, bool], Counter] = {}
        self._second_children: dict[str, Histogram] = {}
        self._pod_children = {pod_class: self._pods.labels(pod_class.value) for pod_class in PodClass}

    def failed(self, status: HTTPStatus) -> None:
        """Counts an answer with an error status."""
        self._errors.labels(str(status.value)).inc()

    def reviewed(self, path: str, decision: Decision, *, dry_run: bool, seconds: float) -> None:
        """Counts one decision and how long it took."""
        key = (path, decision.outcome, dry_run)
        counter = self._review_children.get(key)
        if counter is None:
            counter = self._reviews.labels(path, decision.outcome.value, "true" if dry_run else "false")
            self._review_children[key] = counter
        counter.inc()
        histogram = self._second_children.get(path)
        if histogram is None:
            histogram = self._second_children[path] = self._seconds.labels(path)
        histogram.observe(seconds)
        if not dry_run:
            self._effects(decision)

    def _effects(self, decision: Decision) -> None:
        """Counts what a decision does to an object that really comes to be."""
        if decision.outcome is Outcome.PATCHED:
            if decision.pod_class is not None and decision.terms is not None:
                self._pod_children[decision.pod_class].inc()
            if decision.deadline is not None:
                self._deadlines.labels(decision.deadline).inc()
            for replacement in decision.replaced:
                self._replaced.labels(short_name(replacement.label)).inc()
        if decision.missing:
            self._missing.inc()
        for term in decision.exceeding:
            self._exceeding.labels(term).inc()
