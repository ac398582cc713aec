"""The audit log: a line of JSON for all that is done or spared, as docs/audit.md has it; decides nothing.

Writing never makes a cycle wait: entries go through a bounded queue to a thread, and what does not fit, or
cannot be written, is counted as lost. Texts of users are cut and escaped, so that none can forge a line.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import msgspec
import structlog

from policy.durations import format_time
from policy.keys import Label
from reaper import metrics
from reaper.evidence import evidence_document
from reaper.reclaim import requester_of
from reaper.records import Record
from reaper.subjects import Subject
from runtime.log import escape

SCHEMA: Final = "gpu-tenure.io/audit/v1"
STDOUT: Final = "-"
LONGEST_TEXT: Final = 512
MOST_ITEMS: Final = 50
DEEPEST: Final = 4
QUEUED: Final = 10_000
CLOSE_SECONDS: Final = 2.0
log = structlog.get_logger(__name__)


class Audited(StrEnum):
    """What an entry tells of."""

    SIGHTING = "sighting"
    WARNING = "warning"
    MOVED = "moved"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    SNOOZE = "snooze"
    TERMS = "terms"
    SPARED = "spared"
    ACTION = "action"
    REFUSAL = "refusal"
    RESUME = "resume"
    REVERTED = "reverted"
    HOLD = "hold"
    RELEASE = "release"
    OTHER = "other"


MESSAGES: Final[Mapping[str, Audited]] = {
    "pod seen idle": Audited.SIGHTING,
    "pod warned": Audited.WARNING,
    "reclaim moved": Audited.MOVED,
    "reclaim cancelled": Audited.CANCELLED,
    "warning withdrawn": Audited.WITHDRAWN,
    "snooze written": Audited.SNOOZE,
    "terms written": Audited.TERMS,
    "pod spared": Audited.SPARED,
    "eviction answered": Audited.ACTION,
    "stop answered": Audited.ACTION,
    "deadline given": Audited.TERMS,
}
"""What each log line about a pod is called here."""

DONE: Final = frozenset({"Accepted", "Gone"})
"""Outcomes of requests that were not refused."""


class AuditPort(Protocol):
    """Takes entries; tests implement it. Never raises and never waits."""

    def write(self, entry: Mapping[str, Any]) -> None:
        """Takes one entry."""
        ...


class NoAudit:
    """The AuditPort where nobody asked for a log."""

    def write(self, entry: Mapping[str, Any]) -> None:
        """Drops the entry."""


def audited(message: str, fields: Mapping[str, object]) -> Audited:
    """Gives what a log line tells of."""
    found = MESSAGES.get(message, Audited.OTHER)
    if found is Audited.ACTION and fields.get("outcome") not in DONE:
        return Audited.REFUSAL
    return found


def entry_of(message: str, subject: Subject, fields: Mapping[str, object]) -> dict[str, Any]:
    """Gives the entry about one pod: who, what, why, and the evidence."""
    pod, root, verdict, mark = subject.pod, subject.root, subject.verdict, subject.mark
    entry: dict[str, Any] = {
        "event": audited(message, fields).value,
        "message": message,
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "node": pod.node,
        "owner": {"kind": root.kind, "name": root.name, "uid": root.uid},
        "requester": requester_of(pod) or None,
        "class": pod.labels.get(Label.CLASS),
        "policy": subject.policy.name,
        "devices": subject.devices,
        "ceiling": subject.ceiling.value,
        "terms": subject.terms.describe() if subject.terms else None,
        "warnedSince": format_time(mark.idle_since) if mark and mark.warned else None,
        "details": dict(fields),
    }
    if verdict is not None:
        evidence = verdict.evidence
        entry |= {
            "verdict": verdict.kind.value,
            "reason": verdict.reason.value,
            "sentence": verdict.sentence,
            "idleSince": format_time(verdict.idle_since) if verdict.idle_since else None,
            "evidence": {
                "utilization": evidence.utilization,
                "statistic": evidence.statistic,
                **evidence_document(evidence),
            },
        }
    return entry


def entry_of_record(event: Audited, message: str, record: Record, by: str) -> dict[str, Any]:
    """Gives the entry about an action of before, which somebody undid."""
    stop = record.stop
    return {
        "event": event.value,
        "message": message,
        "namespace": record.namespace,
        "pod": record.pod_name,
        "uid": record.pod_uid,
        "owner": {"kind": stop.kind, "name": stop.name, "uid": stop.uid} if stop else None,
        "requester": record.requester or None,
        "devices": record.devices,
        "details": {"by": by, "decided_at": format_time(record.decided_at)},
    }


def bounded(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - JSON of any shape
    """Gives a value with its texts cut and escaped, its lists short and nothing deeper than a few levels."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth < DEEPEST and isinstance(value, Mapping):
        items = list(value.items())[:MOST_ITEMS]
        kept = {bounded(str(key), depth + 1): bounded(item, depth + 1) for key, item in items}
        return {key: item for key, item in kept.items() if item is not None}
    if depth < DEEPEST and isinstance(value, list | tuple | set | frozenset):
        return [bounded(item, depth + 1) for item in list(value)[:MOST_ITEMS]]
    text = escape(str(value))
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def line_of(entry: Mapping[str, Any], at: datetime, by: str, *, dry_run: bool) -> bytes:
    """Gives one entry as one line, without its end."""
    head = {"schema": SCHEMA, "at": format_time(at), "by": by, "dryRun": dry_run}
    return msgspec.json.encode({**head, **bounded(entry)})


class AuditLog:
    """The AuditPort that appends to a file, which may be moved away at any time, or to standard output."""

    def __init__(
        self, target: str, now: Callable[[], datetime], by: str, *, dry_run: bool, queued: int = QUEUED
    ) -> None:
        """Opens the file, and starts to write.

        Raises:
            OSError: the file cannot be opened.
        """
        self._target = target
        self._now = now
        self._by = by
        self._dry_run = dry_run
        self._queue: queue.Queue[bytes | None] = queue.Queue(queued)
        self._file = self._open()
        self._broken = False
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Takes one entry; counts it as lost if the file is too slow."""
        try:
            self._queue.put_nowait(line_of(entry, self._now(), self._by, dry_run=self._dry_run) + b"\n")
        except queue.Full:
            metrics.AUDIT.labels("lost").inc()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Writes what is left, for a moment at most."""
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _run(self) -> None:
        while (line := self._queue.get()) is not None:
            self._append(line)
        if self._file is not sys.stdout.buffer:
            self._file.close()

    def _append(self, line: bytes) -> None:
        try:
            self._follow()
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
            self._file.flush()
        except (OSError, ValueError) as error:
            metrics.AUDIT.labels("lost").inc()
            if not self._broken:
                log.error("audit log not written", target=self._target, error=str(error))
            self._broken = True
        else:
            metrics.AUDIT.labels("written").inc()
            self._broken = False

    def _follow(self) -> None:
        """Opens the file again if it was moved away, as those who rotate logs do, or could not be written."""
        if self._target == STDOUT:
            return
        try:
            there = Path(self._target).stat()
            moved = (there.st_dev, there.st_ino) != _identity(self._file)
        except FileNotFoundError:
            moved = True
        if moved or self._broken:
            self._file.close()
            self._file = self._open()
            if self._broken and self._file.tell():
                # A line may have been cut in the middle.
                self._file.write(b"\n")

    def _open(self) -> BinaryIO:
        if self._target == STDOUT:
            return sys.stdout.buffer
        return Path(self._target).open("ab", buffering=0)


def _identity(file: BinaryIO) -> tuple[int, int]:
    known = os.fstat(file.fileno())
    return known.st_dev, known.st_ino
