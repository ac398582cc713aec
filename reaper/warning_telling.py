"""Tells Alertmanager which pods are warned; decides nothing, and waits for nothing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from reaper.alertboard import Topic
from reaper.alerts import Alert, idle_warning
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
        was = idle_warning(one, one.mark, contact, now)
        if was is not None:
            before.append(was)
        # What was just taken is still there, but its warning has come true.
        mark = None if one.pod.uid in memory.taken else memory.mark_of(one.pod)
        alert = idle_warning(one, mark, contact, now)
        if alert is not None:
            holding.append(alert)
    ports.alerts.show(Topic.IDLE, holding, now, before)
