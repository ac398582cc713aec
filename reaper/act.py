"""Writes on pods and evicts them, one request each, and says what came of it; decides nothing.

Every write carries the pod's UID, so that it can only ever reach the pod that was judged. An eviction never
falls back to a delete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from reaper.disruptions import UnreadableBudgetError, read_budgets, short_of
from reaper.pods import GpuPod
from runtime.kube import MERGE_PATCH, ApiError, ApiUnreachable, KubePort

EVICTION_SECONDS = 20.0
"""The server itself may take ten seconds over a disruption budget."""

STALE_BUDGET_SECONDS = 10.0

TOO_MANY = "more than 1000 annotations"
"""Words of the guard that bounds the reaper's writes; its answer names no field."""


class Written(StrEnum):
    """What came of a write on a pod; `held` is a dry run's, `full` a pod's whose annotations have no room."""

    WRITTEN = "written"
    HELD = "held"
    GONE = "gone"
    FULL = "full"
    FAILED = "failed"


class Outcome(StrEnum):
    """What came of an eviction."""

    ACCEPTED = "Accepted"
    BUDGET = "Budget"
    BUSY = "Busy"
    GONE = "Gone"
    ENDING = "Ending"
    REFUSED = "Refused"
    UNKNOWN = "Unknown"


class Result(Struct, frozen=True):
    """The outcome of one eviction.

    Attributes:
        outcome: What it was.
        message: The API server's sentence.
        retry_after: Seconds it asked to wait; None if it did not.
    """

    outcome: Outcome
    message: str = ""
    retry_after: float | None = None

    @property
    def refuses(self) -> bool:
        """True if it is a refusal that was meant, and not one that says nothing of the pod."""
        real = self.outcome is Outcome.BUDGET and self.retry_after is None
        return real or self.outcome is Outcome.REFUSED


class ActorPort(Protocol):
    """Does what was planned; tests implement it."""

    async def annotate(self, pod: GpuPod, annotations: Mapping[str, str | None]) -> Written:
        """Writes annotations (None removes)."""
        ...

    async def label(self, pod: GpuPod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Written:
        """Writes labels and annotations."""
        ...

    async def evict(self, pod: GpuPod, *, dry_run: bool = False) -> Result:
        """Evicts the pod, or asks the API server what it would say."""
        ...

    async def refused_together(self, pods: Sequence[GpuPod]) -> tuple[GpuPod, Result] | None:
        """Gives the pod that keeps these pods of one namespace from all going, and why; None if they may."""
        ...


class KubeActor:
    """The ActorPort on the API server."""

    def __init__(self, client: KubePort) -> None:
        self._client = client

    async def annotate(self, pod: GpuPod, annotations: Mapping[str, str | None]) -> Written:
        """Writes annotations (None removes)."""
        return await self._patch(pod, {"annotations": dict(annotations)})

    async def label(self, pod: GpuPod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Written:
        """Writes labels and annotations."""
        return await self._patch(pod, {"labels": dict(labels), "annotations": dict(annotations)})

    async def evict(self, pod: GpuPod, *, dry_run: bool = False) -> Result:
        """Evicts the pod, or asks the API server what it would say."""
        options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": options,
        }
        path = f"{_path(pod)}/eviction"
        try:
            await self._client.request("POST", path, body=body, timeout=EVICTION_SECONDS)
        except ApiError as error:
            return result_of(error)
        except ApiUnreachable as error:
            return Result(Outcome.UNKNOWN, f"no answer: {error}")
        return Result(Outcome.ACCEPTED)

    async def refused_together(self, pods: Sequence[GpuPod]) -> tuple[GpuPod, Result] | None:
        """Gives the pod that keeps these pods of one namespace from all going, and why; None if they may."""
        try:
            short = short_of(await read_budgets(self._client, pods[0].namespace), pods)
        except UnreadableBudgetError as error:
            return pods[0], Result(Outcome.BUDGET, str(error))
        except ApiError as error:
            return pods[0], _unread(error)
        except ApiUnreachable as error:
            return pods[0], Result(Outcome.UNKNOWN, f"no answer: {error}")
        if short is None:
            return None
        wait = STALE_BUDGET_SECONDS if short.stale else None
        return short.pod, Result(Outcome.BUDGET, short.sentence, wait)

    async def _patch(self, pod: GpuPod, metadata: Mapping[str, Any]) -> Written:
        body = {"metadata": {"uid": pod.uid, **metadata}}
        try:
            await self._client.request("PATCH", _path(pod), body=body, content_type=MERGE_PATCH)
        except ApiError as error:
            return written_of(error)
        except ApiUnreachable:
            return Written.FAILED
        return Written.WRITTEN


def _path(pod: GpuPod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def written_of(error: ApiError) -> Written:
    """Reads a refused write: gone, annotations full, or neither."""
    if error.status in {404, 409}:
        return Written.GONE
    if error.status != 422:
        return Written.FAILED
    # A pod of another UID is refused with 422 too: the precondition names the field.
    fields = {cause.field or "" for cause in error.causes}
    if TOO_MANY in error.message or any(field.startswith("metadata.annotations") for field in fields):
        return Written.FULL
    return Written.GONE if any(field == "metadata.uid" for field in fields) else Written.FAILED


def result_of(error: ApiError) -> Result:
    """Reads a refused eviction as the API server means it."""
    message = error.message or error.reason or f"status {error.status}"
    return Result(_outcome(error), message, error.retry_after)


def _unread(error: ApiError) -> Result:
    """Reads a refused look at the budgets: what they would say is not known."""
    result = result_of(error)
    if result.outcome is Outcome.BUSY:
        return result
    # A version that is forgotten between two pages (410) comes again, unlike a right that is missing.
    if error.status >= 500 or error.status == 410:
        return Result(Outcome.UNKNOWN, result.message)
    return Result(Outcome.BUDGET, f"The disruption budgets cannot be read: {result.message}")


def _outcome(error: ApiError) -> Outcome:
    if error.status in {404, 409}:
        return Outcome.GONE
    if error.status == 429:
        return Outcome.BUDGET if error.has_cause("DisruptionBudget") else Outcome.BUSY
    if error.status == 403:
        if error.has_cause("NamespaceTerminating"):
            return Outcome.ENDING
        return Outcome.BUDGET if error.has_cause("DisruptionBudget") else Outcome.REFUSED
    if error.status == 500 and "more than one PodDisruptionBudget" in error.message:
        return Outcome.REFUSED
    return Outcome.UNKNOWN if error.status >= 500 else Outcome.REFUSED
