"""Tells Alertmanager which pods are warned; decides nothing, and waits for nothing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from reaper.alertboard import Topic
from reaper.alerts import Alert, idle_warning
from reaper.marks import Mark
from reaper.memory import Memory
from reaper.ports import Ports
from reaper.subjects import Subject


def tell_warnings(
    ports: Ports, memory: Memory, subjects: Collection[Subject], contact: str, now: datetime
) -> None:
    """Says which warnings hold, those of this cycle included, and which were read and hold no more."""
    before: list[Alert] = []
    holding: list[Alert] = []
    for one in subjects:
        # What was just taken is still there, but its warning has come true.
        mark = None if one.pod.uid in memory.taken else memory.mark_of(one.pod)
        if mark is not None:
            holding += _alerts(one, mark, contact, now)
        if one.mark is not None and one.mark != mark:
            before += _alerts(one, one.mark, contact, now)
    ports.alerts.show(Topic.IDLE, holding, now, before)


def _alerts(subject: Subject, mark: Mark, contact: str, now: datetime) -> list[Alert]:
    alert = idle_warning(subject, mark, contact, now)
    return [] if alert is None else [alert]
