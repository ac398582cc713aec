"""Fakes that keep what a cycle writes down and tells: records and Events; knows no cycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from policy.durations import parse_time
from policy.terms import Action
from reaper.records import Phase, Record
from reaper.stops import Stop
from runtime.events import Regarding, Sent


class FakeEvents:
    """Keeps Events."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str]] = []

    async def record(
        self,
        regarding: Regarding,
        reason: str,
        action: str,
        note: str,
        type: str = "Normal",  # noqa: A002
    ) -> bool:
        """Remembers an Event as (pod, reason, note)."""
        assert action == "Reclaim"
        assert type in {"Normal", "Warning"}
        self.sent.append((regarding.name, reason, note))
        return True

    def reasons(self, pod: str) -> list[str]:
        """Gives the reasons of the Events on a pod."""
        return [reason for name, reason, _ in self.sent if name == pod]


class FakeOnce:
    """Keeps Events by name as the API server does, for other processes too; `broken` loses them."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], tuple[str, str, str]] = {}
        self.calls = 0
        self.broken = False

    async def once(
        self,
        key: str,
        regarding: Regarding,
        reason: str,
        action: str,
        note: str,
        type: str = "Normal",  # noqa: A002
    ) -> Sent:
        """Remembers an Event as (object, reason, note)."""
        assert (action, type) == ("Deadline", "Warning")
        self.calls += 1
        if self.broken:
            return Sent.FAILED
        if (regarding.uid, key) in self.kept:
            return Sent.KNOWN
        self.kept[regarding.uid, key] = (f"{regarding.kind} {regarding.name}", reason, note)
        return Sent.CREATED

    @property
    def told(self) -> list[tuple[str, str]]:
        """What was said, as (object, reason), in its order."""
        return [(name, reason) for name, reason, _ in self.kept.values()]

    @property
    def notes(self) -> list[str]:
        """The sentences, in their order."""
        return [note for _, _, note in self.kept.values()]


class FakeRecords:
    """Keeps records; `broken` raises on writing."""

    def __init__(self) -> None:
        self.kept: dict[str, Record] = {}
        self.specs: dict[str, Mapping[str, Any]] = {}
        self.notes: list[tuple[str, Mapping[str, Any]]] = []
        self.broken: Exception | None = None

    async def fetch(self) -> Collection[Record]:
        """Gives all records."""
        return tuple(self.kept.values())

    async def begin(self, record: Record, spec: Mapping[str, Any]) -> Record:
        """Keeps a record."""
        if self.broken is not None:
            raise self.broken
        self.specs.setdefault(record.name, spec)
        return self.kept.setdefault(record.name, record)

    async def complete(self, record: Record, phase: Phase, message: str, now: datetime) -> Record:
        """Changes a record."""
        done = structs.replace(record, phase=phase, message=message, completed_at=now)
        self.kept[record.name] = done
        return done

    async def note(self, record: Record, status: Mapping[str, Any]) -> None:
        """Remembers what was added, and the times of it."""
        self.notes.append((record.pod_name, status))
        names = {"endedAt": "ended_at", "returnedAt": "returned_at", "activeAgainAt": "active_again_at"}
        if "stop" in status:
            stop = msgspec.convert(status["stop"], Stop)
            kept = self.kept[record.name]
            self.kept[record.name] = structs.replace(kept, action=Action.STOP, stop=stop)
        times = {names[key]: parse_time(value) for key, value in status.items() if key in names}
        self.kept[record.name] = structs.replace(self.kept[record.name], **times)

    async def remove(self, record: Record) -> None:
        """Drops a record."""
        self.kept.pop(record.name, None)
