"""What one reaper process remembers between cycles; must not know the API server or Prometheus.

Everything here may be lost without harm: what must outlive the process is on pods and in records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, structs

from policy.verdicts import VerdictKind
from reaper.brakes import Brake
from reaper.evidence import Verdict
from reaper.fates import Fate
from reaper.marks import Mark, mark_of
from reaper.pods import GpuPod

FORGET_AFTER = timedelta(minutes=10)
WATCH_LAG = timedelta(seconds=30)


class Seen(Struct, frozen=True):
    """One pod as earlier cycles saw it.

    Attributes:
        first_at: When it was first seen.
        last_at: When it was last seen.
        kind: Its last verdict; None before the first.
        streak: Idle verdicts in a row, up to the last.
        last_idle: Until when it was Idle without a break; None if it is not now.
        counted_at: When the streak last grew.
    """

    first_at: datetime
    last_at: datetime
    kind: VerdictKind | None = None
    streak: int = 0
    last_idle: datetime | None = None
    counted_at: datetime | None = None

    def after(self, verdict: Verdict, at: datetime, apart_seconds: float = 0) -> Seen:
        """Gives what is known after one more verdict; Idle ones that are closer than this count as one."""
        seen = structs.replace(self, last_at=at, kind=verdict.kind)
        if verdict.kind is not VerdictKind.IDLE:
            return structs.replace(seen, streak=0, last_idle=None, counted_at=None)
        again = self.counted_at is not None and (at - self.counted_at).total_seconds() < apart_seconds
        if again and self.streak:
            return structs.replace(seen, last_idle=at)
        return structs.replace(seen, streak=self.streak + 1, last_idle=at, counted_at=at)


class Memory:
    """The state of a process.

    Attributes:
        seen: Pods by UID.
        held: Marks that could not be written, by pod UID; None stands for a removal that was not written.
        wrote: Marks that were written and that the watch may not have shown yet, by pod UID, with the time.
        warned_at: When this process warned a pod, by UID.
        fates: What an eviction was found to do to a pod's Job, by UID; None where nobody knew.
        told: What was last said about a pod's snooze, by UID.
        not_before: Pods whose next try must wait, by UID.
        brake: The brake.
        statuses: What was last written as the status of each policy.
        slow_until: No action before; None without such a wish of the API server.
        reclaimed: Devices taken since the last brake sample.
        taken: Pods whose action was accepted, by UID, as long as they are seen.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.held: dict[str, Mark | None] = {}
        self.wrote: dict[str, tuple[datetime, Mark | None]] = {}
        self.warned_at: dict[str, datetime] = {}
        self.fates: dict[str, Fate | None] = {}
        self.told: dict[str, str] = {}
        self.not_before: dict[str, datetime] = {}
        self.brake = Brake()
        self.slow_until: datetime | None = None
        self.statuses: dict[str, Mapping[str, Any]] = {}
        self.reclaimed = 0
        self.taken: set[str] = set()

    def meet(self, uids: Iterable[str], now: datetime) -> None:
        """Notes that pods exist."""
        for uid in uids:
            known = self.seen.get(uid)
            self.seen[uid] = structs.replace(known, last_at=now) if known else Seen(now, now)

    def judged(self, uid: str, verdict: Verdict, now: datetime, apart_seconds: float = 0) -> Seen:
        """Notes a verdict and gives what is known before it."""
        before = self.seen.get(uid) or Seen(now, now)
        self.seen[uid] = before.after(verdict, now, apart_seconds)
        return before

    def unjudged(self, uid: str) -> None:
        """Notes that a pod was not judged: its streak is broken."""
        known = self.seen.get(uid)
        if known is not None:
            self.seen[uid] = structs.replace(known, kind=None, streak=0, last_idle=None)

    def forget_others(self, uids: Collection[str], now: datetime) -> None:
        """Drops pods that have been gone for a while."""
        present = set(uids)
        self.seen = {
            uid: seen
            for uid, seen in self.seen.items()
            if uid in present or now - seen.last_at < FORGET_AFTER
        }
        self.held = {uid: mark for uid, mark in self.held.items() if uid in present}
        self.taken &= present
        self.warned_at = {uid: when for uid, when in self.warned_at.items() if uid in present}
        self.fates = {uid: fate for uid, fate in self.fates.items() if uid in present}
        self.told = {uid: said for uid, said in self.told.items() if uid in present}
        self.wrote = {uid: wrote for uid, wrote in self.wrote.items() if now - wrote[0] < WATCH_LAG}
        self.not_before = {uid: when for uid, when in self.not_before.items() if now < when}

    def mark_of(self, pod: GpuPod) -> Mark | None:
        """Gives the mark that counts for a pod.

        What was just written, what it carries, or what is held for it.
        """
        if pod.uid in self.wrote:
            return self.wrote[pod.uid][1]
        return self.fresh_mark_of(pod)

    def fresh_mark_of(self, pod: GpuPod) -> Mark | None:
        """Gives the mark that counts for a pod read from the API server just now."""
        return self.held[pod.uid] if pod.uid in self.held else mark_of(pod)

    def first_seen(self, uid: str) -> datetime | None:
        """Gives when a pod was first seen."""
        known = self.seen.get(uid)
        return known.first_at if known else None
