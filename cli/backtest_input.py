"""Reads what `gpu-tenure backtest` is given: times, policies, and who the pods were; plays nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from msgspec import Struct

from cli import judge_input
from cli.cluster import Cluster, connected
from cli.podlist import read_bytes, read_pods
from policy.asking import policy_terms
from policy.classes import PodClass
from policy.defaults import ACTIONS_PER_CYCLE, ACTIONS_PER_NAMESPACE, CYCLE_SECONDS
from policy.errors import FieldError, InvalidError
from policy.keys import DEFAULT_EXCLUDED_NAMESPACES
from policy.objects import Namespace
from policy.resources import ResourceTable
from policy.selection import PolicySet
from policy.spec import BUILT_IN
from policy.terms import Terms, terms_from_labels
from reaper.criteria import JudgeSettings
from reaper.limits import Limits
from reaper.lives import Census
from reaper.owners import OwnerResolver, OwnersUnreadableError, Root
from reaper.plays import Play
from reaper.pods import GpuPod, gpu_pod
from reaper.world import decode_pod

SHORTEST_STEP = 60.0
LONGEST_PLAY = 90 * 86_400.0


class Wanted(Struct, frozen=True, kw_only=True):
    """What was asked for.

    Attributes:
        since: The first moment,
        until: the last,
        step: and what lies between two.
        proposed: Policies of files; None takes the cluster's.
        pods: Pods and namespaces of a list; None asks the cluster.
        namespaces: Labels of the namespaces of that list.
        otherwise: The class of pods of which nothing is known.
        table: The names of GPU resources.
        judging: How strict judging is.
    """

    since: datetime
    until: datetime
    step: timedelta
    proposed: PolicySet | None
    pods: list[GpuPod] | None
    namespaces: dict[str, dict[str, str]]
    otherwise: PodClass
    table: ResourceTable
    judging: JudgeSettings

    async def play(self, kubeconfig: Path | None, context: str | None) -> Play:
        """Gives what is to be played; asks the cluster for what was not given."""
        if self.proposed is not None and self.pods is not None:
            census = Census(_by_key(self.pods), {}, self.namespaces, self.otherwise)
            return self._play(self.proposed, census)
        async with connected(kubeconfig, context) as cluster:
            policies = self.proposed if self.proposed is not None else await cluster.policies()
            if policies is None:
                why = f"GPUPolicies are {cluster.missing['GPUPolicies']}; give proposed ones"
                raise InvalidError([FieldError("--policy", why)])
            return self._play(policies, await self._census(cluster))

    def terms(self, play: Play) -> Sequence[Terms]:
        """All terms that pods may have."""
        policies = (*play.policies.valid, BUILT_IN)
        found = [policy_terms(one, each) for one in policies for each in PodClass]
        if not play.proposed:
            carried = (terms_from_labels(pod.labels)[0] for pod in play.census.pods.values())
            found += [terms for terms in carried if terms is not None]
        return found

    def _play(self, policies: PolicySet, census: Census) -> Play:
        cycles = max(1, round(self.step.total_seconds() / CYCLE_SECONDS))
        limits = Limits(
            idle_verdicts=1,
            actions_per_cycle=ACTIONS_PER_CYCLE * cycles,
            actions_per_namespace=ACTIONS_PER_NAMESPACE * cycles,
        )
        return Play(
            since=self.since,
            until=self.until,
            step=self.step,
            policies=policies,
            census=census,
            proposed=self.proposed is not None,
            judging=self.judging,
            limits=limits,
            excluded=DEFAULT_EXCLUDED_NAMESPACES,
        )

    async def _census(self, cluster: Cluster) -> Census:
        if self.pods is not None:
            return Census(_by_key(self.pods), {}, self.namespaces, self.otherwise)
        pods = await cluster.listed("pods", "/api/v1/pods", lambda raw: decode_pod(raw, self.table)) or []
        listed = await cluster.listed("namespaces", "/api/v1/namespaces", _namespace) or []
        labels = {one.metadata.name or "": one.metadata.labels or {} for one in listed}
        living = [pod for pod in pods if not pod.finished]
        roots: Mapping[str, Root] = {}
        try:
            roots = await OwnerResolver(cluster.client).roots(living, cluster.now)
        except OwnersUnreadableError as error:
            cluster.missing["owners"] = str(error)
        return Census(_by_key(living), roots, labels, self.otherwise)


def asked(
    texts: tuple[str, str | None, str, str],
    policies: Sequence[Path],
    pods: Path | None,
    table: ResourceTable,
    judging: JudgeSettings | None,
    errors: list[FieldError],
) -> Wanted | None:
    """Reads times (since, until, step), the class, policies and pods; None if something is wrong."""
    since, until, step, otherwise = texts
    before = len(errors)
    end = judge_input.moment(until, errors, "--until")
    span = judge_input.seconds("--since", since, errors)
    pace = judge_input.seconds("--step", step, errors)
    if pace < SHORTEST_STEP:
        errors.append(FieldError("--step", "must be at least 1m"))
    if not pace <= span <= LONGEST_PLAY:
        errors.append(FieldError("--since", "must be at least a step and at most 90d"))
    if otherwise not in set(PodClass):
        errors.append(FieldError("--class", f"must be one of {', '.join(PodClass)}"))
    proposed = judge_input.policies(policies, errors) if policies else None
    namespaces: dict[str, dict[str, str]] = {}
    found: list[GpuPod] | None = None
    readable = len(errors)
    data = read_bytes(pods, errors) if pods is not None else b""
    if pods is not None and len(errors) == readable:
        listed = read_pods(data, errors)
        found = [pod for one in listed.pods if (pod := gpu_pod(one, table)) is not None]
        namespaces = listed.namespaces
    if len(errors) > before or judging is None:
        return None
    return Wanted(
        since=end - timedelta(seconds=span),
        until=end,
        step=timedelta(seconds=pace),
        proposed=proposed,
        pods=found,
        namespaces=namespaces,
        otherwise=PodClass(otherwise),
        table=table,
        judging=judging,
    )


def _by_key(pods: Sequence[GpuPod]) -> dict[tuple[str, str], GpuPod]:
    return {(pod.namespace, pod.name): pod for pod in pods if not pod.finished}


def _namespace(raw: msgspec.Raw) -> Namespace:
    return msgspec.json.decode(raw, type=Namespace)
