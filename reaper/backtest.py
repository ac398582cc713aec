"""Plays a policy through past days, moment by moment, with the judge and the planner of the reaper itself.

Prometheus is asked as in a cycle, at each moment in a constant number of queries. What is planned is taken
for done: warnings stand, pods acted on are gone. Their devices are watched on, because in truth they went on:
whoever used them again within an hour is regret.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta

from msgspec import structs

from policy.objects import Namespace, ObjectMeta
from policy.profile import Profile
from policy.verdicts import VerdictKind
from reaper.aftermath import REGRET
from reaper.brakes import Brake, advance
from reaper.brakes import Sample as BrakeSample
from reaper.judge import judge
from reaper.lives import Identity, Life, Lives, pod_of
from reaper.marks import Mark
from reaper.memory import Memory
from reaper.observation import Observation, observe
from reaper.pause import Pause
from reaper.plan import Plan, plan
from reaper.plays import Ghost, Play, Result
from reaper.prometheus import PrometheusError, PrometheusPort, Sample
from reaper.records import Phase, Record, record_name
from reaper.signals import PodKey
from reaper.situation import Situation
from reaper.steps import Change
from reaper.subjects import Subject
from reaper.survey import Rules, is_judged, judged, survey
from reaper.turning import turned_idle

OWNERS = (
    "max by (namespace, pod, owner_kind, owner_name) "
    '(kube_pod_owner{owner_is_controller="true", owner_kind!="", owner_name!=""})'
)
PATIENCE = 3
"""Moments without any full answer from the beginning: nobody waits for a week of them."""


class Counted:
    """A PrometheusPort that counts what it is asked."""

    def __init__(self, prometheus: PrometheusPort) -> None:
        self.asked = 0
        self._prometheus = prometheus

    async def query(self, expression: str, at: datetime) -> list[Sample]:
        """Asks; raises PrometheusError."""
        self.asked += 1
        return await self._prometheus.query(expression, at)


class Player:
    """Plays one policy."""

    def __init__(
        self,
        prometheus: PrometheusPort,
        play: Play,
        windows: Collection[int],
        averaged: Collection[int] | None = None,
    ) -> None:
        """`windows` are those of all terms that may hold, in seconds; averages are asked for over `averaged`.

        Without `averaged` they are asked for over all windows, which costs as much as all else.
        """
        self._prometheus = Counted(prometheus)
        self._play = play
        self._windows = tuple(windows)
        self._averaged = averaged
        longest = timedelta(seconds=max(windows))
        self._lives = Lives(play.judging.sources, 2 * longest + timedelta(days=1))
        self._rules = Rules(profile=Profile.ENFORCE, excluded_namespaces=frozenset(play.excluded))
        self._memory = Memory()
        self._marks: dict[str, Mark] = {}
        self._records: dict[str, Record] = {}
        self._ghosts: dict[str, Ghost] = {}
        self._identities: dict[str, Identity] = {}
        self._brake = Brake()
        self._reclaimed = 0
        self.result = Result()

    async def run(self, progress: Callable[[datetime], None] = lambda _at: None) -> Result:
        """Plays from the first moment to the last."""
        for at in self._play.moments():
            await self._moment(at)
            if self.result.held == self.result.moments == PATIENCE:
                break
            self.result.queries = self._prometheus.asked
            progress(at)
        return self.result

    async def _moment(self, at: datetime) -> None:
        self.result.moments += 1
        observation = await observe(
            self._prometheus,
            self._windows,
            at,
            self._play.judging,
            thresholds=(),
            averaged=self._averaged,
        )
        if not observation.complete:
            self.result.held += 1
            self.result.problem = "; ".join(observation.problems) or str(observation.problem)
            return
        self.result.problem = ""
        living = self._lives.at(observation)
        for life in living:
            missed = life.devices * life.unseen.total_seconds()
            if missed > 0 and life.key[0] not in self._play.excluded:
                self.result.of(life.key[0]).missed(missed)
        owners = await self._owners(at)
        subjects = [self._subject(life, owners, at) for life in living]
        self._watch_ghosts(living, observation, at)
        first = self.result.moments == 1
        present = [one for one in subjects if one.pod.uid not in self._ghosts]
        turned, seen = 0, []
        for one in present:
            after, turns = self._judge(one, observation, first=first, at=at)
            seen.append(after)
            turned += turns
        self._count(seen)
        situation = self._situation(seen, turned, at)
        planned = plan(seen, tuple(self._records.values()), situation, self._play.limits, at)
        self._apply(planned, at)
        self._memory.forget_others({one.pod.uid for one in present}, at)

    async def _owners(self, at: datetime) -> Mapping[PodKey, tuple[str, str]]:
        """Asks kube-state-metrics for controllers; nothing where there is none."""
        try:
            found = await self._prometheus.query(OWNERS, at)
        except PrometheusError:
            return {}
        return {
            (one.labels.get("namespace", ""), one.labels.get("pod", "")): (
                one.labels.get("owner_kind", ""),
                one.labels.get("owner_name", ""),
            )
            for one in found
        }

    def _subject(self, life: Life, owners: Mapping[PodKey, tuple[str, str]], at: datetime) -> Subject:
        play = self._play
        who = self._identities.get(life.uid)
        if who is None or (who.assumed and life.key in owners):
            who = play.census.identify(life, owners)
            self._identities[life.uid] = who
        name = f"{life.key[0]}/{life.key[1]} {life.uid}"
        self.result.pods.add(name)
        (self.result.assumed.add if who.assumed else self.result.assumed.discard)(name)
        labels = play.census.namespaces.get(life.key[0])
        pod = pod_of(life, who, play.policies, labels, proposed=play.proposed)
        namespace = Namespace(ObjectMeta(name=life.key[0], labels=dict(labels or {})))
        mark = self._marks.get(life.uid)
        return survey(pod, who.root, mark, namespace, play.policies, self._rules, at)

    def _judge(
        self, subject: Subject, observation: Observation, *, first: bool, at: datetime
    ) -> tuple[Subject, int]:
        if subject.terms is None or not is_judged(subject):
            return subject, 0
        verdict = judge(subject.pod, subject.terms, observation, at, self._play.judging)
        before = self._memory.judged(subject.pod.uid, verdict, at)
        after = judged(subject, verdict, before, self._rules, at)
        span = self._play.brakes.idle_seconds
        turns = turned_idle(after, before, once=False, first=first, span_seconds=span, now=at)
        return after, after.devices if turns else 0

    def _situation(self, subjects: Collection[Subject], turned: int, at: datetime) -> Situation:
        weighed = [one for one in subjects if one.verdict is not None and one.skip is None]
        sample = BrakeSample(
            at=at,
            judged=sum(one.devices for one in weighed),
            unknown=sum(one.devices for one in weighed if one.verdict is not None and one.verdict.puzzling),
            turned_idle=turned,
            reclaimed=self._reclaimed,
        )
        self._reclaimed = 0
        self._brake = advance(self._brake, sample, None, self._play.brakes)
        self.result.braked += self._brake.engaged
        return Situation(pause=Pause(paused=False), brake=self._brake, judged_devices=sample.judged)

    def _count(self, subjects: Collection[Subject]) -> None:
        seconds = self._play.step.total_seconds()
        for one in subjects:
            self.result.of(one.pod.namespace).judged(one, seconds)

    def _apply(self, planned: Plan, at: datetime) -> None:
        for step in planned.steps:
            uid, warned = step.subject.pod.uid, step.subject.mark is not None and step.subject.mark.warned
            tally = self.result.of(step.subject.pod.namespace)
            if step.change is Change.WARN and not warned:
                tally.warned += 1
            if step.change is Change.REMOVE and warned:
                verdict = step.subject.verdict
                tally.active_after_warning += verdict is not None and verdict.kind is VerdictKind.ACTIVE
            if step.mark is None:
                self._marks.pop(uid, None)
            else:
                self._marks[uid] = step.mark
        for group in planned.actions:
            for member in group.members:
                self._take(member, at)

    def _take(self, member: Subject, at: datetime) -> None:
        pod, terms = member.pod, member.terms
        if terms is None:
            return
        self._records[pod.uid] = Record(
            namespace=pod.namespace,
            name=record_name(pod.uid),
            pod_name=pod.name,
            pod_uid=pod.uid,
            owner_uid=member.root.uid,
            devices=member.devices,
            decided_at=at,
            phase=Phase.ACCEPTED,
            completed_at=at,
        )
        self._marks.pop(pod.uid, None)
        self._ghosts[pod.uid] = Ghost(pod, terms, member.devices, at)
        self._reclaimed += member.devices
        tally = self.result.of(pod.namespace)
        tally.taken += 1
        tally.taken_devices += member.devices

    def _watch_ghosts(self, living: Collection[Life], observation: Observation, at: datetime) -> None:
        """Counts the time that devices were free, and sees whether they were used again."""
        alive = {life.uid for life in living}
        for uid in [uid for uid in self._ghosts if uid in alive]:
            ghost = self._ghosts[uid]
            verdict = judge(ghost.pod, ghost.terms, observation, at, self._play.judging)
            tally = self.result.of(ghost.pod.namespace)
            if verdict.kind is VerdictKind.ACTIVE:
                tally.regretted += at - ghost.taken_at <= REGRET
                self._forget(uid)
            else:
                tally.reclaimed_seconds += self._play.step.total_seconds() * ghost.devices

    def _forget(self, uid: str) -> None:
        """Lets a pod that was used again live on, as its owner would have made it again."""
        del self._ghosts[uid]
        self._records[uid] = structs.replace(self._records[uid], pod_uid=f"{uid} before")
