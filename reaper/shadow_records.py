"""The records of a dry run: what a real run would have written, kept in memory alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from msgspec import structs

from reaper.records import Phase, Record, RecordsPort

Forget = Callable[[Collection[Record]], Collection[Record]]
"""Gives the records that a real run would drop as old enough."""


class ShadowRecords:
    """The RecordsPort of a dry run: reads the real records, keeps its own to itself, as long as those."""

    def __init__(self, real: RecordsPort, forget: Forget) -> None:
        self._real = real
        self._forget = forget
        self._own: dict[str, Record] = {}

    async def fetch(self) -> Collection[Record]:
        """Gives the real records and those that a real run would have written."""
        for record in self._forget(tuple(self._own.values())):
            self._own.pop(record.name, None)
        found = {record.name: record for record in await self._real.fetch()}
        return tuple((found | self._own).values())

    async def begin(self, record: Record, spec: Mapping[str, Any]) -> Record:  # noqa: ARG002 - the port's
        """Remembers a record; gives the existing one if there is one."""
        return self._own.setdefault(record.name, record)

    async def complete(self, record: Record, phase: Phase, message: str, now: datetime) -> Record:
        """Remembers how the action would have gone."""
        done = structs.replace(record, phase=phase, message=message, completed_at=now)
        self._own[record.name] = done
        return done

    async def note(self, record: Record, status: Mapping[str, Any]) -> None:
        """Writes nothing: what a dry run has only said has no consequences."""

    async def remove(self, record: Record) -> None:
        """Deletes nothing."""
