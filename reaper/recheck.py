"""Looks again right before an action: fresh pods, namespace and metrics, lease and pause; acts on nothing.

Whatever cannot be found out, or differs from what was planned, spares the pods; the next cycle decides anew.
"""

from __future__ import annotations

from msgspec import Struct, structs

from policy.terms import Action, Terms
from policy.verdicts import Reason, VerdictKind
from reaper.groups import Group
from reaper.marks import Mark, same_stretch
from reaper.memory import Memory
from reaper.observation import Observation
from reaper.outlook import due_time
from reaper.owners import OwnersUnreadableError
from reaper.pause import Pause
from reaper.podgroups import pod_group_of
from reaper.pods import GpuPod
from reaper.ports import Ports
from reaper.subjects import Subject
from reaper.survey import Rules, survey
from runtime.kube import ApiError, ApiUnreachable


class Refusal(Struct, frozen=True):
    """Why a planned action does not happen."""

    reason: Reason
    sentence: str = ""


class Recheck:
    """Confirms planned actions for one process."""

    def __init__(self, ports: Ports, memory: Memory, rules: Rules) -> None:
        self._ports = ports
        self._memory = memory
        self._rules = rules

    async def confirm(self, group: Group) -> tuple[Subject, ...] | Refusal:
        """Gives the group's pods as they are now, each still due, or why nothing may be done."""
        try:
            return await self._confirm(group)
        except (ApiError, ApiUnreachable, OwnersUnreadableError) as error:
            return Refusal(Reason.CHANGED, f"could not look again: {error}")

    async def _confirm(self, group: Group) -> tuple[Subject, ...] | Refusal:
        # Prometheus may take long, so it is asked first; what is fast to read is read last.
        terms = [one.terms for one in group.members if one.terms is not None]
        observation = await self._ports.observe(terms, self._ports.clock.now())
        if not observation.complete:
            return Refusal(observation.problem or Reason.PARTIAL_ANSWER, "; ".join(observation.problems[:2]))
        joined = await self._joined(group)
        if joined is not None:
            return Refusal(Reason.PEER_NOT_IDLE, f"{joined.name} belongs to {group.root} too")
        pause = await self._ports.pause(self._ports.clock.now())
        if pause.paused:
            return Refusal(Reason.PAUSED, pause.reason)
        confirmed: list[Subject] = []
        for member in group.members:
            found = await self._look(member, group.action, pause, observation)
            if isinstance(found, Refusal):
                return found
            confirmed.append(found)
        return tuple(confirmed) if self._ports.leading() else Refusal(Reason.NOT_LEADER)

    async def _joined(self, group: Group) -> GpuPod | None:
        """Gives a pod of the same owner that was not planned for."""
        namespace = group.members[0].pod.namespace
        others = [
            pod
            for pod in self._ports.pods()
            if pod.namespace == namespace and pod.uid not in group.uids and not (pod.finished or pod.deleting)
        ]
        roots = await self._ports.owners.roots(others, self._ports.clock.now())
        return next((pod for pod in others if group.takes_in(pod, roots[pod.uid])), None)

    async def _look(
        self, member: Subject, action: Action, pause: Pause, observation: Observation
    ) -> Subject | Refusal:
        name = f"pod {member.pod.name}"
        pod = await self._ports.fresh_pod(member.pod.namespace, member.pod.name)
        if pod is None or pod.uid != member.pod.uid:
            return Refusal(Reason.CHANGED, f"{name} is gone")
        if _belonging(pod) != _belonging(member.pod):
            return Refusal(Reason.CHANGED, f"{name} belongs to others than it did")
        namespace = await self._ports.fresh_namespace(pod.namespace)
        now = self._ports.clock.now()
        mark = self._memory.fresh_mark_of(pod)
        fresh = survey(pod, member.root, mark, namespace, self._ports.policies(), self._rules, now)
        if fresh.skip is not None:
            return Refusal(fresh.skip, name)
        if fresh.snooze.until is not None:
            return Refusal(Reason.SNOOZED, f"{name} is kept until {fresh.snooze.until:%Y-%m-%d %H:%MZ}")
        if fresh.ceiling.rank < action.rank or fresh.terms is None:
            return Refusal(Reason.CHANGED, f"what holds for {name} is {fresh.ceiling.value} now")
        if not fresh.may_act_now:
            return Refusal(Reason.OUTSIDE_WINDOW, name)
        if mark is None or not mark.warned or mark.reclaim_at is None:
            return Refusal(Reason.CHANGED, f"{name} carries no warning any more")
        if max(mark.reclaim_at, due_time(mark, fresh.terms, pause.resumed_at)) > now:
            return Refusal(Reason.WITHIN_GRACE, name)
        return self._judge(fresh, fresh.terms, mark, observation)

    def _judge(self, fresh: Subject, terms: Terms, mark: Mark, observation: Observation) -> Subject | Refusal:
        """Judges the fresh pod by its fresh terms; a window that was not observed gives no Idle verdict."""
        name = f"pod {fresh.pod.name}"
        verdict = self._ports.judge(fresh.pod, terms, observation, self._ports.clock.now())
        if verdict.kind is not VerdictKind.IDLE:
            return Refusal(verdict.reason, f"{name} is {verdict.kind.value} now")
        seen = self._memory.seen.get(fresh.pod.uid)
        if not same_stretch(mark, verdict, terms, seen.last_idle if seen else None):
            return Refusal(Reason.CHANGED, f"{name} was in use since its warning")
        return structs.replace(fresh, verdict=verdict)


def _belonging(pod: GpuPod) -> tuple[object, ...]:
    """What the pods that were judged with this one were found by."""
    return pod.owner, pod_group_of(pod)
