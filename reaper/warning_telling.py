"""Tells Alertmanager which pods are warned, and what for; decides nothing, and waits for no Alertmanager."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from policy.terms import Action
from reaper.alertboard import Topic
from reaper.alerts import Alert, idle_warning
from reaper.marks import Mark
from reaper.memory import Memory
from reaper.outlook import Ceiling
from reaper.ports import Ports
from reaper.prospects import Prospects
from reaper.subjects import Subject


class WarningTeller:
    """Tells for one process."""

    def __init__(self, ports: Ports, memory: Memory, prospects: Prospects, contact: str) -> None:
        self._ports = ports
        self._memory = memory
        self._prospects = prospects
        self._contact = contact

    async def tell(
        self, subjects: Collection[Subject], ceilings: Mapping[str, Ceiling], now: datetime
    ) -> None:
        """Says which warnings hold, those of this cycle included, and which were read and hold no more.

        `ceilings` are what the plan allows, by the UIDs of pods.
        """
        marks = {one.pod.uid: mark for one in subjects if (mark := self._mark_of(one)) is not None}
        evicted = [
            one.pod
            for one in subjects
            if one.pod.uid in marks and one.holds_devices and _ceiling(one, ceilings).action is Action.EVICT
        ]
        await self._prospects.catch_up(evicted)
        before: list[Alert] = []
        holding: list[Alert] = []
        for one in subjects:
            mark, ceiling = marks.get(one.pod.uid), _ceiling(one, ceilings)
            if mark is not None:
                holding += self._alerts(one, mark, ceiling, now)
            if one.mark is not None and one.mark != mark:
                before += self._alerts(one, one.mark, ceiling, now)
        self._ports.alerts.show(Topic.IDLE, holding, now, before)

    def _mark_of(self, subject: Subject) -> Mark | None:
        # What was just taken is still there, but its warning has come true.
        pod = subject.pod
        return None if pod.uid in self._memory.taken else self._memory.mark_of(pod)

    def _alerts(self, subject: Subject, mark: Mark, ceiling: Ceiling, now: datetime) -> list[Alert]:
        fate = self._memory.fates.get(subject.pod.uid)
        alert = idle_warning(subject, mark, ceiling, fate, self._contact, now)
        return [] if alert is None else [alert]


def _ceiling(subject: Subject, ceilings: Mapping[str, Ceiling]) -> Ceiling:
    return ceilings.get(subject.pod.uid) or Ceiling(subject.ceiling)
