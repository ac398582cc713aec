"""Tells users of deadlines by Events and alerts; decides nothing, and asks neither Prometheus nor the brakes.

A deadline is the kubelet's and the Job controller's: it comes whether the reaper is paused, held, or right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

import structlog

from policy.durations import format_time
from reaper import metrics
from reaper.alertboard import Topic
from reaper.alerts import RECLAIMED_SECONDS, Alert, AlertName, alert_of, owner_labels
from reaper.deadline_views import View, deadlines_of
from reaper.deadlines import Deadline, Left, Notice, notice_of, sentence
from reaper.messages import EventReason
from reaper.ports import Ports
from reaper.subjects import Subject
from runtime.events import Regarding, Sent

log = structlog.get_logger(__name__)


class DeadlineTeller:
    """Tells for one process."""

    def __init__(self, ports: Ports, excluded: Collection[str], contact: str) -> None:
        self._ports = ports
        self._excluded = excluded
        self._contact = contact
        self._told: set[tuple[str, str]] = set()

    async def tell(self, subjects: Collection[Subject], now: datetime) -> None:
        """Says what is to be said now, each Event once."""
        ports = self._ports
        view = View(ports.policies(), ports.namespace, self._excluded, self._contact)
        alerts: list[Alert] = []
        keys: set[tuple[str, str]] = set()
        for deadline in deadlines_of(subjects, ports.jobs(), view):
            notice = notice_of(deadline, now, RECLAIMED_SECONDS)
            if notice is None:
                continue
            if now < notice.until:
                alerts.append(_alert(deadline, notice))
            key = deadline.holder.uid, f"{notice.left}/{format_time(deadline.ends_at)}"
            keys.add(key)
            if notice.fresh and key not in self._told and ports.leading():
                await self._events(deadline, notice, key)
        # What is over, or has gone, is never told again: it is no longer fresh.
        self._told &= keys
        ports.alerts.show(Topic.DEADLINES, alerts, now)

    async def _events(self, deadline: Deadline, notice: Notice, key: tuple[str, str]) -> None:
        over = notice.left is Left.NOTHING
        reason = EventReason.DEADLINE_EXCEEDED if over else EventReason.DEADLINE_APPROACHING
        text = sentence(deadline, notice)
        sent = [
            await self._ports.once.once(key[1], one, reason.value, "Deadline", text, "Warning")
            for one in _regarding(deadline)
        ]
        if Sent.FAILED not in sent:
            self._told.add(key)
        if Sent.CREATED in sent:
            metrics.DEADLINES_TOLD.labels(notice.left.value).inc()
            holder = {"namespace": deadline.holder.namespace, "holder": str(deadline.holder)}
            log.info("deadline told", **holder, left=notice.left.value, ends_at=format_time(deadline.ends_at))


def _regarding(deadline: Deadline) -> Iterator[Regarding]:
    """Gives the objects that are to have the Event: the holder, the root owner, and pods of a Job."""
    for one in dict.fromkeys((deadline.holder, deadline.root)):
        yield Regarding(one.kind, one.name, one.uid, one.namespace, one.api_version)
    for pod in deadline.pods:
        yield Regarding("Pod", pod.name, pod.uid, pod.namespace)


def _alert(deadline: Deadline, notice: Notice) -> Alert:
    over = notice.left is Left.NOTHING
    holder = deadline.holder
    labels = {
        "namespace": holder.namespace,
        holder.kind.lower(): holder.name,
        **owner_labels(deadline.root),
        "requester": deadline.requester,
        "policy": deadline.policy,
        "origin": deadline.origin.value,
        "severity": "info" if over else "warning",
    }
    said = "was ended by its deadline" if over else f"ends at {deadline.ends_at:%Y-%m-%d %H:%MZ}"
    return alert_of(
        AlertName.DEADLINE_EXCEEDED if over else AlertName.DEADLINE_APPROACHING,
        labels if over else {**labels, "left": notice.left.value},
        {
            "summary": f"{holder.kind} {holder.namespace}/{holder.name} {said}",
            "description": sentence(deadline, notice),
            "ends_at": format_time(deadline.ends_at),
            "contact": deadline.contact,
        },
        notice.since,
        notice.until,
    )
