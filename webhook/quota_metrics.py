"""The metrics of the webhook's quota path; decides nothing."""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import CollectorRegistry

from webhook.tally import Tallies, Tally

PREFIX = "gpu_tenure_webhook"


class QuotaOutcome(StrEnum):
    """What became of a pod under a GPUQuota."""

    RESERVED = "Reserved"
    KNOWN = "Known"
    LOOKED = "Looked"
    OVER = "Over"
    LATER = "Later"
    STALE = "Stale"
    RESOURCE_QUOTA = "ResourceQuota"


OUTCOMES: dict[QuotaOutcome, str] = {
    QuotaOutcome.RESERVED: "The pod was written into the ledgers.",
    QuotaOutcome.KNOWN: "Nothing had to be written: the pod was in the ledgers, or the quota is gone.",
    QuotaOutcome.LOOKED: "It was a dry run: the ledgers were only read.",
    QuotaOutcome.OVER: "The pod does not fit.",
    QuotaOutcome.LATER: "It could not be told now; the client was asked to try again.",
    QuotaOutcome.STALE: "Quotas could not be read, so one might be new; the client was asked to try again.",
    QuotaOutcome.RESOURCE_QUOTA: "A ResourceQuota is full, so nothing was reserved.",
}
"""What each outcome means."""


class QuotaMetrics:
    """Counts decisions about pods under quotas, and what they cost in writes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Tally(
            f"{PREFIX}_quota_decisions", "Pods under a GPUQuota, by what became of them.", ["outcome"]
        )
        self._writes = Tally(f"{PREFIX}_quota_writes", "Writes of ledgers that were tried.")
        self._conflicts = Tally(
            f"{PREFIX}_quota_conflicts", "Writes of ledgers in which somebody else was faster."
        )
        self._failures = Tally(
            f"{PREFIX}_quota_failures", "Requests for ledgers that failed or were not answered."
        )
        registry.register(Tallies((self._decisions, self._writes, self._conflicts, self._failures)))

    def decided(self, outcome: QuotaOutcome) -> None:
        """Counts one pod."""
        self._decisions.add(outcome)

    def wrote(self) -> None:
        """Counts one write, before its answer."""
        self._writes.add()

    def conflicted(self) -> None:
        """Counts a write that came too late."""
        self._conflicts.add()

    def failed(self) -> None:
        """Counts a request without a useful answer."""
        self._failures.add()
