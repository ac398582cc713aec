"""All metrics of the webhook; decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Gauge

from policy.keys import short_name
from webhook.answers import Denied, RefusedBy
from webhook.decision import Decision, Outcome
from webhook.tally import Spread, Tallies, Tally

BUCKETS_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0)
PREFIX = "gpu_tenure_webhook"
WITHOUT_TERMS = (Outcome.NAMESPACE_UNKNOWN, Outcome.PATCH_UNFIT)
"""Outcomes that let an object pass as it was though it should have got something."""

_DRY_RUN = {False: "false", True: "true"}


class WebhookMetrics:
    """The webhook's metrics in one registry. Dry runs are counted apart: they inject nothing."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reviews = Tally(
            f"{PREFIX}_reviews",
            "Reviews answered, by path, outcome and whether the request was a dry run.",
            ["path", "outcome", "dry_run"],
            [("/mutate", outcome.value, "false") for outcome in WITHOUT_TERMS],
        )
        self._seconds = Spread(
            f"{PREFIX}_review_seconds", "Time from the whole body to the answer.", BUCKETS_SECONDS, ["path"]
        )
        self._errors = Tally(f"{PREFIX}_http_errors", "Requests answered with an error status.", ["status"])
        self._pods = Tally(f"{PREFIX}_pods", "GPU pods that got terms, by class.", ["class"])
        self._deadlines = Tally(
            f"{PREFIX}_deadlines",
            "Deadline decisions about pods and Jobs, by the annotation's value.",
            ["decision"],
        )
        self._replaced = Tally(
            f"{PREFIX}_terms_replaced", "Terms that were asked for and not given.", ["term"]
        )
        self._refused = Tally(
            f"{PREFIX}_refusals",
            "Objects that were refused, by what refused them; Later: to be tried again.",
            ["by"],
            [(by.value,) for by in RefusedBy],
        )
        self._missing = Tally(
            f"{PREFIX}_pods_without_terms", "GPU pods that arrived at validation without all of their terms."
        )
        self._exceeding = Tally(
            f"{PREFIX}_terms_exceeding", "Terms beyond the policy that arrived at validation.", ["term"]
        )
        self._rights = Tally(
            f"{PREFIX}_rights_checks", "Questions for the right to use a policy.", ["result"]
        )
        self._certificate = Gauge(
            f"{PREFIX}_serving_not_after_timestamp_seconds",
            "When the certificate ends that is served, as a Unix time; 0 without one.",
            registry=registry,
        )
        parts = (self._reviews, self._seconds, self._errors, self._refused, self._pods, self._deadlines)
        registry.register(Tallies((*parts, self._replaced, self._missing, self._exceeding, self._rights)))

    def serves(self, not_after: Callable[[], datetime]) -> None:
        """Shows when the certificate ends that is served; asked at each scrape."""
        self._certificate.set_function(lambda: not_after().timestamp())

    def failed(self, status: HTTPStatus) -> None:
        """Counts an answer with an error status."""
        self._errors.add(str(status.value))

    def right_checked(self, result: str) -> None:
        """Counts an answer to whether somebody may use a policy."""
        self._rights.add(result)

    def reviewed(self, path: str, decision: Decision, *, dry_run: bool, seconds: float) -> None:
        """Counts one decision and how long it took."""
        self._reviews.add(path, decision.outcome, _DRY_RUN[dry_run])
        self._seconds.add(seconds, path)
        if not dry_run:
            self._effects(decision)

    def _effects(self, decision: Decision) -> None:
        """Counts what a decision does to an object that really comes to be."""
        if decision.outcome is Outcome.PATCHED:
            if decision.pod_class is not None and decision.terms is not None:
                self._pods.add(decision.pod_class)
            if decision.deadline is not None:
                self._deadlines.add(decision.deadline)
            for replacement in decision.replaced:
                self._replaced.add(short_name(replacement.label))
        if isinstance(decision.answer, Denied):
            self._refused.add(decision.answer.by)
        if decision.missing:
            self._missing.add()
        for term in decision.exceeding:
            self._exceeding.add(term)
