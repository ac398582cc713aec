"""Says what a count found: metrics, logs, and one Event per pod that slipped in; changes nothing else."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from policy.gpuquota import GPUQuota
from policy.ledger import Ledger, Weigh, amount_of, held, show_amount, subjects
from policy.ledger_count import Excess, HeldPod, excesses
from quota import metrics
from runtime.events import EventsPort, Regarding
from runtime.quotas import StoredQuota

REASON = "OverQuota"
ACTION = "Count"
MOST_EVENTS = 100
log = structlog.get_logger(__name__)


class Reporter:
    """Remembers what has been said during one leadership."""

    def __init__(self, events: EventsPort, weigh: Weigh) -> None:
        self._events = events
        self._weigh = weigh
        self._told: set[tuple[str, str]] = set()
        self._problems: dict[str, str] = {}
        self._quotas: dict[str, tuple[str, ...]] = {}

    async def counted(self, quota: GPUQuota, ledger: Ledger, pods: Collection[HeldPod]) -> None:
        """Tells of one quota as it is now."""
        self._problems.pop(quota.name, None)
        self._measure(quota, ledger)
        told = {key for key in self._told if key[0] == quota.name}
        over: set[tuple[str, str]] = set()
        for excess in excesses(quota, ledger, pods, self._weigh):
            for pod in excess.pods[:MOST_EVENTS]:
                key = (quota.name, pod.uid)
                if key not in told and key not in over:
                    await self._tell(quota, excess, pod)
                over.add(key)
        self._told = (self._told - told) | over

    async def _tell(self, quota: GPUQuota, excess: Excess, pod: HeldPod) -> None:
        metrics.OVER_PODS.inc()
        whose = "" if excess.subject == "*" else f" for {excess.subject}"
        amount = f"{show_amount(excess.used)} of {show_amount(excess.hard)} {excess.limit}"
        log.warning("pod over quota", quota=quota.name, namespace=pod.namespace, pod=pod.name, held=amount)
        note = (
            f"GPUQuota {quota.name}{whose} is exceeded: {amount} in use, and this is one of the newest pods. "
            "It was created while admission could not refuse it, or the quota was lowered; it is not stopped."
        )
        about = Regarding("Pod", pod.name, pod.uid, pod.namespace)
        await self._events.record(about, REASON, ACTION, note, "Warning")

    def _measure(self, quota: GPUQuota, ledger: Ledger) -> None:
        limits = tuple(quota.hard)
        for old in set(self._quotas.get(quota.name, ())) - set(limits):
            metrics.FULLNESS.remove(quota.name, old)
        self._quotas[quota.name] = limits
        metrics.RESERVATIONS.labels(quota.name).set(len(ledger.reservations))
        metrics.SUBJECTS_OVER.labels(quota.name).set(len(ledger.over))
        holding = [held(ledger, subject) for subject in subjects(ledger)]
        for limit, hard in quota.hard.items():
            most = max((amount_of(counts, limit, self._weigh) for counts in holding), default=0)
            metrics.FULLNESS.labels(quota.name, limit).set(float(most / hard) if hard else float(most > 0))

    def forget_others(self, names: Collection[str]) -> None:
        """Drops the numbers of quotas that are no more."""
        for name in self._quotas.keys() - set(names):
            for limit in self._quotas.pop(name):
                metrics.FULLNESS.remove(name, limit)
            metrics.RESERVATIONS.remove(name)
            metrics.SUBJECTS_OVER.remove(name)

    def unreadable(self, stored: StoredQuota) -> None:
        """Tells once that a quota cannot be read."""
        problem = stored.problem or ""
        if self._problems.get(stored.name) != problem:
            self._problems[stored.name] = problem
            log.error("quota not counted", quota=stored.name, problem=problem)

    @staticmethod
    def released(expired: Collection[str]) -> None:
        """Tells of reservations whose pods never came."""
        if expired:
            metrics.EXPIRED.inc(len(expired))
            log.info("reservations expired", count=len(expired))
