"""Asks Prometheus what the checks look at; judges with the reaper's own means, and decides nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from cli.doctor.facts import Facts, Family, MetricFacts
from policy.keys import Enforcement, enforcement_of
from policy.selection import PolicySet
from reaper import queries
from reaper.criteria import JudgeSettings
from reaper.dossier import Given, given_terms, judge_all, skip_of
from reaper.long_windows import Part, recorded_name
from reaper.observation import observe
from reaper.pods import GpuPod
from reaper.prometheus import HttpPrometheus, PrometheusError, PrometheusOptions
from reaper.queries import quoted
from reaper.sources import Role, Source

LOOK_SECONDS: Final = 600
"""The window in which exporters are looked at."""
HOUR: Final = 3600
NOW_SECONDS: Final = 300
"""How old a sample may be to count as present."""
BRAKE_QUERY: Final = "max(gpu_tenure_reaper_brake_engaged)"


class Asked(Struct, frozen=True):
    """Where to ask, and how: `given` if a person named the address."""

    options: PrometheusOptions
    settings: JudgeSettings
    given: bool


async def ask(facts: Facts, asked: Asked | None, prometheus: HttpPrometheus | None) -> MetricFacts:
    """Asks everything; what goes wrong is part of the answer."""
    if asked is None or prometheus is None:
        return MetricFacts(problem="no address is known; give --prometheus-url")
    known = MetricFacts(url=asked.options.url, given=asked.given)
    try:
        return await _Questions(prometheus, facts, asked).answered()
    except PrometheusError as error:
        return MetricFacts(url=known.url, given=known.given, problem=f"{error.reason.value}: {error}")


class _Questions:
    """The questions to one Prometheus at one time."""

    def __init__(self, prometheus: HttpPrometheus, facts: Facts, asked: Asked) -> None:
        self._prometheus = prometheus
        self._facts = facts
        self._asked = asked
        self._settings = asked.settings
        self._extra = queries.matchers_of(asked.settings.matchers)

    async def answered(self) -> MetricFacts:
        """Gives what is known; raises PrometheusError."""
        families = await self._families(NOW_SECONDS)
        lately = await self._families(HOUR)
        pods = self._pods()
        windows = {given.terms.after.seconds for pod, given in pods if skip_of(pod, given.terms) is None}
        observation, down, crowded, recorded, brake = await asyncio.gather(
            # When a stretch began is of no interest here, and costs the most.
            observe(
                self._prometheus, windows | {LOOK_SECONDS}, self._facts.at, self._settings, thresholds=()
            ),
            self._down({one.job for one in lately}),
            self._crowded({one.metric for one in families}),
            self._recorded(),
            self._brake(),
        )
        problem = "; ".join(observation.problems) if not observation.complete else ""
        theirs = self._prometheus.answered_at
        return MetricFacts(
            url=self._asked.options.url,
            given=self._asked.given,
            problem=problem,
            ahead_seconds=(theirs - self._facts.at).total_seconds() if theirs else None,
            families=families,
            down=down,
            observation=observation,
            judged=tuple(judge_all(pods, observation, self._settings)) if observation.complete else (),
            crowded=crowded,
            recorded=recorded,
            brake=brake,
            window=LOOK_SECONDS,
        )

    def _pods(self) -> list[tuple[GpuPod, Given]]:
        """The pods that the reaper would judge."""
        facts = self._facts
        policies = facts.policies.value or PolicySet()
        labels = {one.metadata.name or "": one.metadata.labels or {} for one in facts.namespaces.value or ()}
        alone = {name for name, own in labels.items() if enforcement_of(own) is Enforcement.DISABLED}
        alone |= set(facts.excluded)
        return [
            (pod, given_terms(pod, policies, labels))
            for pod in facts.pods.value or ()
            if pod.namespace not in alone
        ]

    async def _families(self, seconds: int) -> tuple[Family, ...]:
        expression = queries.discovery(seconds, self._extra, self._settings.sources)
        found = await self._prometheus.query(expression, self._facts.at)
        return tuple(
            Family(
                one.labels.get("__name__", ""),
                one.labels.get("job", ""),
                queries.found_labels(one.labels),
            )
            for one in found
        )

    async def _down(self, jobs: set[str]) -> tuple[str, ...]:
        named = sorted(jobs - {""})
        if not named:
            return ()
        pattern = quoted("|".join(_literal(job) for job in named))
        found = await self._prometheus.query(f"up{{job=~{pattern}}} == 0", self._facts.at)
        return tuple(f"{one.labels.get('job', '')} {one.labels.get('instance', '')}" for one in found)

    async def _crowded(self, present: set[str]) -> Mapping[str, tuple[str, ...]]:
        """Devices whose first principal metric comes from several targets."""
        found: dict[str, tuple[str, ...]] = {}
        for source in self._settings.sources:
            metric = next((one for one in source.metrics if one.principal and one.name in present), None)
            if metric is None or not source.device:
                continue
            device = ", ".join(filter(None, (*source.device, source.instance)))
            selector = metric.name + queries.braces(self._extra)
            expression = f"count by ({device}) (group by ({device}, job, instance) ({selector})) > 1"
            samples = await self._prometheus.query(expression, self._facts.at)
            if samples:
                found[source.name] = tuple(_device(one.labels, source) for one in samples)
        return found

    async def _recorded(self) -> frozenset[str]:
        """The names of what the rules for long windows have recorded within two of their intervals."""
        names = "|".join(
            recorded_name(metric, Part.MAXIMUM)
            for source in self._settings.sources
            for metric in source.metrics
            if metric.role is Role.ACTIVITY
        )
        expression = f"group by (__name__) (last_over_time({{__name__=~{quoted(names)}}}[15m]))"
        samples = await self._prometheus.query(expression, self._facts.at)
        return frozenset(one.labels.get("__name__", "") for one in samples)

    async def _brake(self) -> bool | None:
        found = await self._prometheus.query(BRAKE_QUERY, self._facts.at)
        return found[0].value > 0 if found else None


def _device(labels: Mapping[str, str], source: Source) -> str:
    return "/".join(filter(None, (labels.get(name, "") for name in (*source.device, source.instance))))


def _literal(text: str) -> str:
    """Writes a text as a regular expression that means just that, in the dialect of Prometheus."""
    return "".join(one if one.isalnum() or one in "-_/ " else f"\\{one}" for one in text)
