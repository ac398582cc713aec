"""Stops the owners of a group: find them, record, change each once, complete the records; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from policy.terms import Action
from policy.verdicts import Reason
from reaper.act import Outcome, Result
from reaper.groups import Group
from reaper.owners import OwnersUnreadableError
from reaper.ports import Ports
from reaper.recheck import Refusal
from reaper.recording import Recorder
from reaper.records import Phase, Record
from reaper.report import Reporter
from reaper.stop_api import Found, NotStoppableError
from reaper.subjects import Subject
from runtime.kube import ApiError, ApiUnreachable

ALREADY = Result(Outcome.ACCEPTED, "it was stopped already")
OLDEST_SECONDS = 60.0
"""Nothing is begun on a look that is older than this, whatever took so long: metrics, questions, records."""
TOO_SLOW = Refusal(Reason.CHANGED, "the look is too old by now: what was idle may be in use again")


def is_old(looked: float, now: float) -> bool:
    """True if a look, by the monotonic clock, is too old to begin an action on."""
    return now - looked > OLDEST_SECONDS


class _OtherOwnerError(Exception):
    """A pod's root owner is not the one whose pods were judged."""


class Stopper:
    """Stops for one process."""

    def __init__(self, ports: Ports, reporter: Reporter, recorder: Recorder) -> None:
        self._ports = ports
        self._reporter = reporter
        self._recorder = recorder

    async def stop(self, group: Group, decided_at: datetime, looked: float) -> bool:
        """Stops the owners of a group whose pods may all go; False if the cycle must not act any more.

        `looked` is when, by the monotonic clock, somebody began to look at the pods.
        """
        try:
            found = await self._find(group)
        except NotStoppableError as error:
            await self._refuse(group, decided_at, str(error))
            return True
        except _OtherOwnerError as error:
            self._recorder.spared(group, Refusal(Reason.CHANGED, str(error)))
            return True
        except (ApiError, ApiUnreachable, OwnersUnreadableError) as error:
            self._recorder.spared(group, Refusal(Reason.CHANGED, f"the owner could not be read: {error}"))
            return True
        begun: list[tuple[Subject, Record]] = []
        for member in group.members:
            # Every pod has its record before any owner is touched: whoever comes after knows the whole of it.
            target = found[member.pod.uid]
            record = await self._recorder.begin_stop(member, decided_at, target.stop, already=target.already)
            if record is None:
                return True
            begun.append((member, record))
        if is_old(looked, self._ports.clock.monotonic()):
            self._recorder.spared(group, TOO_SLOW)
            return True
        return await self._change(begun, found)

    async def _change(self, begun: list[tuple[Subject, Record]], found: Mapping[str, Found]) -> bool:
        results: dict[str, Result] = {}
        taken = any(record.phase is Phase.ACCEPTED for _, record in begun)
        for number, (member, record) in enumerate(begun):
            if record.phase is Phase.ACCEPTED:
                continue
            target = found[member.pod.uid]
            if target.stop.uid not in results:
                if results and not taken:
                    # Nothing of the run has been stopped yet, so it can still be kept whole.
                    first = begun[number - 1][0]
                    await self._recorder.not_asked(begun[number:], first, list(results.values())[-1])
                    break
                if not self._ports.leading():
                    return False
                results[target.stop.uid] = await self._stop(target, member)
                taken = taken or results[target.stop.uid].outcome is Outcome.ACCEPTED
            await self._recorder.settle(member, record, results[target.stop.uid])
        return all(result.outcome is not Outcome.BUSY for result in results.values())

    async def _find(self, group: Group) -> Mapping[str, Found]:
        now = self._ports.clock.now()
        chains = []
        for member in group.members:
            chain = await self._ports.owners.chain(member.pod, now)
            if chain and chain[-1].uid != member.root.uid:
                # The pods of that owner were not judged: they may be busy.
                raise _OtherOwnerError(f"pod {member.pod.name} belongs to {chain[-1]} now")
            chains.append((member.pod, chain))
        return await self._ports.stops.find(chains, now)

    async def _stop(self, target: Found, member: Subject) -> Result:
        if target.already:
            return ALREADY
        now = self._ports.clock.now()
        dry_run = self._reporter.dry_run
        return await self._ports.stops.stop(target, member.pod.namespace, now, dry_run=dry_run)

    async def _refuse(self, group: Group, decided_at: datetime, why: str) -> None:
        """Records why nothing can be done, so that it is not tried again in every cycle."""
        first = group.members[0]
        record = await self._recorder.begin(first, decided_at, Action.STOP)
        if record is not None and record.phase is not Phase.ACCEPTED:
            await self._recorder.settle(first, record, Result(Outcome.REFUSED, why))
