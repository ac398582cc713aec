"""What evicting the pods of a Job does to the Job, read from the Job; evicts nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from policy.objects import ObjectMeta

ATTEMPTS: Final = 6
"""The API server's default of `backoffLimit`."""

DISRUPTED: Final = "DisruptionTarget"
"""The condition of a pod that goes through the Eviction API."""


class Fate(StrEnum):
    """What comes of a Job whose GPU pods are evicted."""

    ENDS = "ends"
    RESTARTS = "restarts"

    @property
    def sentence(self) -> str:
        """The fate as warnings tell it."""
        if self is Fate.ENDS:
            return "This ends the Job: it may not fail any more."
        return "This restarts it: the Job makes the pods again, and they begin anew."


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = "True"


class _Rule(Struct, frozen=True, rename="camel"):
    action: str = ""
    on_pod_conditions: tuple[_Condition, ...] | None = None


class _Policy(Struct, frozen=True):
    rules: tuple[_Rule, ...] = ()


class _Spec(Struct, frozen=True, rename="camel"):
    pod_failure_policy: _Policy | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None


class _Status(Struct, frozen=True):
    failed: int | None = None


class RunningJob(Struct, frozen=True):
    """A Job, as far as it says what a failed pod does to it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status | None = None


def fate_of(job: RunningJob, pods: int) -> Fate:
    """Gives what comes of a Job when so many of its pods are evicted at once."""
    action = _action_on_disruption(job.spec.pod_failure_policy)
    if action == "Ignore":
        return Fate.RESTARTS
    if action == "FailJob":
        return Fate.ENDS
    if job.spec.backoff_limit_per_index is not None:
        return Fate.RESTARTS if job.spec.backoff_limit_per_index > 0 else Fate.ENDS
    limit = ATTEMPTS if job.spec.backoff_limit is None else job.spec.backoff_limit
    failed = (job.status.failed if job.status else None) or 0
    return Fate.RESTARTS if failed + pods <= limit else Fate.ENDS


def _action_on_disruption(policy: _Policy | None) -> str | None:
    """The action of the first rule that an evicted pod meets for certain; rules by exit code may not hold."""
    for rule in policy.rules if policy is not None else ():
        conditions = rule.on_pod_conditions or ()
        if any((one.type, one.status or "True") == (DISRUPTED, "True") for one in conditions):
            return rule.action
    return None
