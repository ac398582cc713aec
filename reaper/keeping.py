"""What a user's wish to keep a pod comes to, and what will happen then, in sentences; writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from policy import defaults
from policy.durations import Duration, format_time
from policy.keys import Annotation, Label
from policy.selection import PolicySet
from policy.snooze import DEFAULT_KEEP, snooze_of
from policy.terms import EXEMPT, Action
from reaper.marks import Mark, mark_of
from reaper.pods import GpuPod

DONE = {Action.EVICT.value: "evicted", Action.STOP.value: "stopped with its owner"}


class Kept(Struct, frozen=True):
    """What a wish comes to.

    Attributes:
        until: Until when the pod is kept; None if it is not.
        sentences: What its user should know.
    """

    until: datetime | None
    sentences: tuple[str, ...]

    @property
    def annotations(self) -> Mapping[str, str]:
        """What is to be written on the pod; empty for nothing."""
        return {Annotation.KEEP_UNTIL.value: format_time(self.until)} if self.until else {}


def kept(pod: GpuPod, span: Duration, policies: PolicySet | None, now: datetime) -> Kept:
    """Gives what comes of keeping a pod for a span from now; without policies by the default bound."""
    name = f"{pod.namespace}/{pod.name}"
    if pod.finished or pod.deleting:
        return Kept(None, (f"{name} has ended, or is going: nothing to keep",))
    policy_name = pod.labels.get(Label.POLICY, "")
    policy = policies.get(policy_name) if policies else None
    bound = (policy.bounds.keep_until if policy else None) or DEFAULT_KEEP
    mark = mark_of(pod)
    since = mark.idle_since if mark else None
    until = snooze_of(span.text, now, since, bound).until
    by = f"policy {policy_name or 'built-in'}" if policy else "the default (the policy is not readable)"
    if until is None:
        return Kept(None, (f"{name} cannot be kept longer: {_bound(by, bound, since)}",))
    asked = (now + span.delta).replace(microsecond=0)
    told = f"{name} is kept until {format_time(until)}"
    if until >= asked:
        told += f", {span} from now"
    elif until >= (now + timedelta(seconds=defaults.SNOOZE_SECONDS)).replace(microsecond=0):
        told += f", not for {span}: a snooze lasts {defaults.SNOOZE_SECONDS // 3600}h at most"
    else:
        told += f", not for {span}: {_bound(by, bound, since)}"
    return Kept(until, (told, _what_happens(pod, mark, until)))


def _bound(by: str, bound: Duration, since: datetime | None) -> str:
    start = f", and it is idle since {format_time(since)}" if since else ""
    return f"by {by}, pods can be kept for {bound} after they became idle{start}"


def _what_happens(pod: GpuPod, mark: Mark | None, until: datetime) -> str:
    action = pod.labels.get(Label.IDLE_ACTION, "")
    if action == EXEMPT:
        return "It is exempt: while that holds, nothing is done to it anyway."
    if mark is not None and mark.warned and mark.reclaim_at is not None:
        done = DONE.get(action, DONE[Action.EVICT.value])
        later = max(until, mark.reclaim_at)
        return (
            f"It was to be {done} at {format_time(mark.reclaim_at)}; now not before {format_time(later)}, "
            "and only if it is idle all the time. Any activity ends the warning."
        )
    if mark is not None and mark.warned:
        return "It was only warned: nothing is to be done to it anyway."
    return "No action is announced for it; until then it is not warned either."
