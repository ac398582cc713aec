"""Writes into records what came of earlier actions, and counts it; nothing is decided by it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import structlog

from reaper import metrics
from reaper.aftermath import reclaimed_seconds, sequels
from reaper.observation import Observation
from reaper.ports import Ports
from reaper.records import Record
from reaper.sources import Source
from reaper.subjects import Subject
from runtime.kube import ApiError, ApiUnreachable

log = structlog.get_logger(__name__)
SEQUELS_PER_CYCLE = 50


class Lookback:
    """Looks back for one process."""

    def __init__(self, ports: Ports, sources: tuple[Source, ...]) -> None:
        self._ports = ports
        self._sources = sources
        self._credited_at: datetime | None = None

    async def run(
        self,
        subjects: Collection[Subject],
        records: Collection[Record],
        observation: Observation | None,
        now: datetime,
    ) -> None:
        """Looks once; what cannot be written is tried again with the next cycle."""
        metrics.RECLAIMED_SECONDS.inc(reclaimed_seconds(records, self._credited_at or now, now))
        self._credited_at = now
        found = sequels(records, subjects, observation, self._ports.endings, now, self._sources)
        for sequel in found[:SEQUELS_PER_CYCLE]:
            if not self._ports.leading():
                return
            try:
                await self._ports.records.note(sequel.record, sequel.status)
            except (ApiError, ApiUnreachable) as error:
                log.debug("sequel not written", record=sequel.record.name, error=str(error))
            else:
                metrics.REGRETTED.inc(sequel.regretted)
