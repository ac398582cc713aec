"""Sees stops that did not last, tells, and writes them down once; undoes and repeats nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import structlog

from policy.verdicts import Reason
from reaper import messages, metrics
from reaper.audit import Audited
from reaper.messages import EventReason
from reaper.ports import Ports
from reaper.records import Phase, Record
from reaper.report import Reporter
from reaper.stop_api import Standing
from reaper.stops import RESUMER
from reaper.subjects import Subject
from runtime.events import Regarding
from runtime.kube import ApiError, ApiUnreachable

log = structlog.get_logger(__name__)

SETTLED = timedelta(minutes=2)
"""For so long pods from before a stop may take to go."""

LOOKS_PER_CYCLE = 50


def doubtful(
    records: Iterable[Record], subjects: Collection[Subject], now: datetime
) -> tuple[tuple[Record, ...], ...]:
    """Gives the stops whose owner has pods again, or still: for each owner its records, oldest stop first."""
    living: dict[str, list[Subject]] = {}
    for one in subjects:
        if one.holds_devices:
            living.setdefault(one.root.uid, []).append(one)
    stops: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.stop is not None and record.phase is Phase.ACCEPTED:
            stops.setdefault(record.stop.target, []).append(record)
    found = []
    for some in stops.values():
        taken = {record.pod_uid for record in some}
        owners = {record.owner_uid for record in some}
        late = now - max(record.acted_at for record in some) > SETTLED
        if any(late or one.pod.uid not in taken for uid in owners for one in living.get(uid, ())):
            found.append(tuple(some))
    return tuple(sorted(found, key=lambda some: (some[0].acted_at, some[0].name)))


class Reverted:
    """Looks after stops for one process."""

    def __init__(self, ports: Ports, reporter: Reporter) -> None:
        self._ports = ports
        self._reporter = reporter

    async def run(self, records: Collection[Record], subjects: Collection[Subject], now: datetime) -> None:
        """Looks once; what cannot be read or written is tried again with the next cycle."""
        for some in doubtful(records, subjects, now)[:LOOKS_PER_CYCLE]:
            if not self._ports.leading():
                return
            try:
                await self._look(some, now)
            except (ApiError, ApiUnreachable) as error:
                log.warning("stop not looked after", record=some[0].name, error=str(error))

    async def _look(self, records: tuple[Record, ...], now: datetime) -> None:
        first = records[0]
        if first.stop is None:
            return
        standing = await self._ports.stops.look(first.stop, first.namespace)
        if not standing.exists or standing.stopped:
            return
        if standing.by == RESUMER:
            await self._write(records, Phase.RESUMED, "gpu-tenure resume started it again", now)
            log.info("stop resumed", **_what(first))
            self._reporter.undone(Audited.RESUME, "stop resumed", first, standing.by)
            return
        await self._write(records, Phase.REVERTED, f"{standing.by} started it again", now)
        await self._tell(first, standing)

    async def _write(self, records: Iterable[Record], phase: Phase, message: str, now: datetime) -> None:
        for record in records:
            await self._ports.records.complete(record, phase, message, now)

    async def _tell(self, record: Record, standing: Standing) -> None:
        stop = record.stop
        if stop is None:
            return
        metrics.STOPS_REVERTED.inc()
        log.warning("stop reverted", reason=Reason.STOP_REVERTED.value, by=standing.by, **_what(record))
        self._reporter.undone(Audited.REVERTED, "stop reverted", record, standing.by)
        owner = Regarding(stop.kind, stop.name, stop.uid, record.namespace, stop.api_version)
        text = messages.reverted(stop.kind, stop.name, standing.by)
        await self._reporter.event_on(owner, EventReason.STOP_REVERTED, text)


def _what(record: Record) -> dict[str, str]:
    stop = record.stop
    owner = f"{stop.kind} {stop.name}" if stop is not None else ""
    return {"namespace": record.namespace, "owner": owner, "record": record.name}
