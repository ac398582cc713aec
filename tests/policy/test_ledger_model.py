"""A model of etcd, webhook replicas and quota leaders that interleave in any order, on the real arithmetic.

Whatever happens (caches that lag, lost answers, requests that die, leaders that pause and come back), the
ledger never shows less than the pods that exist, and they never hold more than the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policy.gpuquota import GPUQuota, Per
from policy.ledger import Ask, Fits, Ledger, NotYet, Short, held, judge_ask, release, reserve
from policy.ledger_count import HeldPod, count_pods, may_count

GPU = "nvidia.com/gpu"
HARD = 4
QUOTA = GPUQuota("q", "u", 1, per=Per.QUOTA, hard={"devices": Fraction(HARD)})
NAMESPACES = ("a", "b")


def weigh(_: str) -> Fraction:
    """Every unit is a device."""
    return Fraction(1)


@dataclass
class Stored:
    """The quota as somebody read it: the ledger and its resource version."""

    ledger: Ledger
    revision: int


@dataclass
class Leader:
    """A process that counts; whether it still holds the Lease makes no difference to what is right."""

    at: int = 0
    gone: set[str] = field(default_factory=set)
    read: Stored | None = None


class Model(RuleBasedStateMachine):
    """etcd and all that write to it."""

    def __init__(self) -> None:
        super().__init__()
        self.revision = 1
        self.pods: dict[str, HeldPod] = {}
        self.history: list[tuple[int, dict[str, HeldPod]]] = [(1, {})]
        first = Ledger(observed_generation=1, namespaces=NAMESPACES, pods_resource_version="1")
        self.quota = Stored(first, 1)
        self.replicas = [Stored(first, 1) for _ in range(3)]
        self.leaders = [Leader(1), Leader(1)]
        self.let_in: dict[str, Ask] = {}
        self.number = 0

    def store(self, ledger: Ledger) -> Stored:
        """One write of the quota."""
        self.revision += 1
        self.quota = Stored(ledger, self.revision)
        return self.quota

    def store_pods(self, pods: dict[str, HeldPod]) -> None:
        """One write of a pod."""
        self.revision += 1
        self.pods = pods
        self.history.append((self.revision, pods))

    @rule(replica=st.integers(0, 2), namespace=st.sampled_from(NAMESPACES), gpus=st.integers(1, HARD))
    def review(self, replica: int, namespace: str, gpus: int) -> None:
        """A replica decides from what it knows; a conflict makes it read again."""
        self.number += 1
        ask = Ask(str(self.number), namespace, f"p{self.number}", None, {GPU: gpus})
        for _ in range(2):
            known = self.replicas[replica]
            match judge_ask(QUOTA, known.ledger, ask, weigh):
                case Fits():
                    if known.revision == self.quota.revision:
                        self.replicas[replica] = self.store(reserve(QUOTA, known.ledger, ask, ""))
                        self.let_in[ask.uid] = ask
                        return
                    self.replicas[replica] = self.quota
                case Short() | NotYet():
                    return

    @rule(replica=st.integers(0, 2))
    def replica_catches_up(self, replica: int) -> None:
        """The watch brings the quota."""
        self.replicas[replica] = self.quota

    @precondition(lambda self: self.let_in)
    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        """The API server stores a pod that was let in."""
        ask = self.let_in.pop(data.draw(st.sampled_from(sorted(self.let_in))))
        pod = HeldPod(ask.uid, ask.namespace, ask.name, None, dict(ask.counts))
        self.store_pods({**self.pods, ask.uid: pod})

    @precondition(lambda self: self.let_in)
    @rule(data=st.data(), back=st.booleans())
    def refuse_later(self, data: st.DataObject, back: bool) -> None:
        """Something else refuses the pod; whoever reserved gives back, or dies before."""
        uid = data.draw(st.sampled_from(sorted(self.let_in)))
        del self.let_in[uid]
        if back:
            self.store(release(self.quota.ledger, [uid]))

    @rule(number=st.integers(0, 1), namespace=st.sampled_from(NAMESPACES))
    def pod_comes_and_is_counted(self, number: int, namespace: str) -> None:
        """The usual course: a review, the pod, and a leader that sees and counts it at once."""
        self.replicas[0] = self.quota
        before = self.number
        self.review(0, namespace, 1)
        ask = self.let_in.pop(str(before + 1), None)
        if ask is not None:
            self.store_pods(
                {**self.pods, ask.uid: HeldPod(ask.uid, ask.namespace, ask.name, None, ask.counts)}
            )
            self.leader_watches(number, len(self.history))
            self.leader_writes(number, fresh=True)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), ends=st.booleans())
    def delete_or_end(self, data: st.DataObject, ends: bool) -> None:
        """A pod goes, or comes to its end and stays."""
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        rest = {one: pod for one, pod in self.pods.items() if one != uid}
        if ends:
            pod = self.pods[uid]
            rest[uid] = HeldPod(uid, pod.namespace, pod.name, None, pod.counts, ended=True)
        self.store_pods(rest)

    @rule(number=st.integers(0, 1), events=st.integers(1, 5))
    def leader_watches(self, number: int, events: int) -> None:
        """A leader's cache moves on by some events and sees what is deleted."""
        leader = self.leaders[number]
        for revision, pods in [one for one in self.history if one[0] > leader.at][:events]:
            leader.gone |= self._cache(leader).keys() - pods.keys()
            leader.at = revision

    @rule(number=st.integers(0, 1))
    def leader_lists(self, number: int) -> None:
        """A leader starts, or must list again: it sees nothing of what came and went."""
        self.leaders[number] = Leader(self.history[-1][0], set(), self.leaders[number].read)

    @rule(number=st.integers(0, 1))
    def leader_reads(self, number: int) -> None:
        """A leader reads the quota; it may use it much later."""
        self.leaders[number].read = self.quota

    @rule(number=st.integers(0, 1), fresh=st.booleans())
    def leader_writes(self, number: int, fresh: bool) -> None:
        """A leader counts what its cache has, if it may, and writes by compare-and-swap."""
        leader = self.leaders[number]
        leader.read = self.quota if fresh else leader.read
        if leader.read is None or not may_count(leader.read.ledger, str(leader.at)):
            return
        pods = self._cache(leader).values()
        after = count_pods(QUOTA, leader.read.ledger, pods, NAMESPACES, str(leader.at), weigh, leader.gone)
        if leader.read.revision == self.quota.revision:
            leader.read = self.store(after)

    @precondition(lambda self: self.quota.ledger.reservations)
    @rule(number=st.integers(0, 1), data=st.data())
    def expire(self, number: int, data: st.DataObject) -> None:
        """The API server's time-out has passed since a reservation was seen, and a GET finds no such pod."""
        uid = data.draw(st.sampled_from(sorted(self.quota.ledger.reservations)))
        self.let_in.pop(uid, None)
        if uid not in self.pods:
            self.leaders[number].gone.add(uid)

    def _cache(self, leader: Leader) -> dict[str, HeldPod]:
        """What a leader's cache holds."""
        return next(pods for revision, pods in reversed(self.history) if revision <= leader.at)

    @invariant()
    def used_is_never_below_the_truth(self) -> None:
        """Every pod that exists, and every one that may yet come, is in the ledger."""
        truth = sum(pod.counts[GPU] for pod in self.pods.values() if not pod.ended)
        coming = sum(ask.counts[GPU] for ask in self.let_in.values())
        assert held(self.quota.ledger, "*").get(GPU, 0) >= truth + coming

    @invariant()
    def the_limit_is_kept(self) -> None:
        """Pods never hold more than the limit."""
        assert sum(pod.counts[GPU] for pod in self.pods.values() if not pod.ended) <= HARD


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
