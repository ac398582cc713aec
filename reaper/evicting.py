"""Carries out a plan's actions: look again, record, evict or stop, complete the record; decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime

from msgspec import structs

from policy.terms import Action
from policy.verdicts import Reason
from reaper.act import Outcome, Result
from reaper.groups import Group
from reaper.ports import Ports
from reaper.recheck import Recheck, Refusal
from reaper.recording import Recorder
from reaper.records import Phase, Record
from reaper.report import Reporter
from reaper.stopping import TOO_SLOW, Stopper, is_old
from reaper.subjects import Subject

ASKING_SECONDS = 30.0
"""Asking about the pods of a run takes no longer than this, or the run is spared."""

ALL_AT_ONCE = frozenset({Reason.PAUSED, Reason.NOT_LEADER})
"""Refusals that concern every action of the cycle."""


class Evictor:
    """Acts for one process."""

    def __init__(self, ports: Ports, reporter: Reporter, recheck: Recheck, recorder: Recorder) -> None:
        self._ports = ports
        self._reporter = reporter
        self._recheck = recheck
        self._recorder = recorder
        self._stopper = Stopper(ports, reporter, recorder)

    async def run(self, groups: Collection[Group], records: Collection[Record]) -> None:
        """Acts on the groups, in their order."""
        by_uid = {record.pod_uid: record for record in records}
        for group in groups:
            # Prometheus may take most of the time that a look is worth something.
            looked = self._ports.clock.monotonic()
            confirmed = await self._confirm(group)
            if confirmed is None:
                return
            if isinstance(confirmed, Refusal):
                self._recorder.spared(group, confirmed)
                if confirmed.reason in ALL_AT_ONCE:
                    return
                continue
            if not await self._act(structs.replace(group, members=confirmed), by_uid, looked):
                return

    async def _confirm(self, group: Group) -> tuple[Subject, ...] | Refusal | None:
        """Looks again at a group; None if this process is to stop, since nothing has begun yet."""
        stop = asyncio.ensure_future(self._ports.stop.wait())
        look = asyncio.ensure_future(self._recheck.confirm(group))
        try:
            await asyncio.wait({look, stop}, return_when=asyncio.FIRST_COMPLETED)
            return None if self._ports.stop.is_set() else look.result()
        finally:
            look.cancel()
            stop.cancel()
            await asyncio.gather(look, stop, return_exceptions=True)

    async def _act(self, group: Group, by_uid: dict[str, Record], looked: float) -> bool:
        """Acts on one group, at which somebody began to look then; False if the cycle must act no more."""
        started = [by_uid[uid].decided_at for uid in group.uids if uid in by_uid]
        decided_at = min(started, default=self._ports.clock.now().replace(microsecond=0))
        asked = self._ports.clock.monotonic()
        if len(group.members) > 1 or group.action is Action.STOP:
            refused = await self._first_refusal(group, by_uid, decided_at)
            if refused is not None:
                return refused is not Outcome.BUSY
            if self._ports.clock.monotonic() - asked > ASKING_SECONDS:
                why = "asking about every pod of the run took too long"
                self._recorder.spared(group, Refusal(Reason.CHANGED, why))
                return True
        if self._ports.stop.is_set():
            return False
        if is_old(looked, self._ports.clock.monotonic()):
            self._recorder.spared(group, TOO_SLOW)
            return True
        if group.action is Action.STOP:
            return await self._stopper.stop(group, decided_at, looked)
        return await self._evict(group, decided_at, looked)

    async def _evict(self, group: Group, decided_at: datetime, looked: float) -> bool:
        begun: list[tuple[Subject, Record]] = []
        for member in group.members:
            # Every pod has its record before the first goes: whoever comes after knows the whole of the run.
            record = await self._recorder.begin(member, decided_at, Action.EVICT)
            if record is None:
                return True
            begun.append((member, record))
        if is_old(looked, self._ports.clock.monotonic()):
            self._recorder.spared(group, TOO_SLOW)
            return True
        taken = any(record.phase is Phase.ACCEPTED for _, record in begun)
        for number, (member, record) in enumerate(begun, start=1):
            if record.phase is Phase.ACCEPTED:
                continue
            if not self._ports.leading():
                return False
            result = await self._ports.actor.evict(member.pod, dry_run=self._reporter.dry_run)
            await self._recorder.settle(member, record, result)
            if result.outcome is Outcome.BUSY:
                return False
            taken = taken or result.outcome is Outcome.ACCEPTED
            if not taken:
                # Nothing of the run has gone yet, so it can still be kept whole.
                await self._recorder.not_asked(begun[number:], member, result)
                return True
        return True

    async def _first_refusal(
        self, group: Group, by_uid: dict[str, Record], decided_at: datetime
    ) -> Outcome | None:
        """Asks about every pod of a run first, because it goes whole or not at all; None if all would go."""
        for member in group.members:
            result = await self._ports.actor.evict(member.pod, dry_run=True)
            if result.outcome is not Outcome.ACCEPTED:
                return await self._refused(group, member, result, by_uid, decided_at)
        if len(group.members) == 1:
            return None
        # What was tried used up no budget: one that lets any of the pods go may not let all of them go.
        short = await self._ports.actor.refused_together([member.pod for member in group.members])
        if short is None:
            return None
        pod, result = short
        member = next(one for one in group.members if one.pod.uid == pod.uid)
        return await self._refused(group, member, result, by_uid, decided_at)

    async def _refused(
        self,
        group: Group,
        member: Subject,
        result: Result,
        by_uid: dict[str, Record],
        decided_at: datetime,
    ) -> Outcome:
        """Notes which pod keeps its run, and why."""
        if result.outcome in {Outcome.GONE, Outcome.ENDING}:
            # Somebody restarts or ends the run: a successor of this pod would be taken unseen.
            self._recorder.spared(group, Refusal(Reason.CHANGED, f"pod {member.pod.name} is gone or going"))
            return result.outcome
        if not result.refuses:
            self._recorder.doubted(member, group.action, result)
            return result.outcome
        record = by_uid.get(member.pod.uid) or await self._recorder.begin(member, decided_at, group.action)
        if record is not None:
            await self._recorder.settle(member, record, result)
        return result.outcome
