"""Measures what one cycle computes for a whole fleet: what holds, verdicts, the plan; asks nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from statistics import median

from bench.fleet import DEVICES_PER_POD, NOW, POLICIES, FleetError, fleet, namespaces, signals
from bench.measures import Measure, cpu_seconds
from policy.objects import Namespace
from policy.profile import Profile
from reaper.criteria import JudgeSettings
from reaper.judge import judge
from reaper.limits import Limits
from reaper.memory import Seen
from reaper.observation import Observation
from reaper.owners import root_of_pod
from reaper.pause import Pause
from reaper.plan import Plan, plan
from reaper.pods import GpuPod
from reaper.situation import Situation
from reaper.subjects import Subject
from reaper.survey import Rules, judged, survey

PODS = 10_000
LIMIT_SECONDS = 1.0
ROUNDS = 3
RULES = Rules(profile=Profile.ENFORCE)
BEFORE = Seen(first_at=NOW, last_at=NOW)


def measure_judging(say: Callable[[str], None]) -> list[Measure]:
    """Surveys, judges and plans for a fleet that is observed already, several times."""
    say(f"judging and planning {PODS:,} pods with {PODS * DEVICES_PER_POD:,} devices, {ROUNDS} rounds")
    pods, known = fleet(PODS), namespaces()
    observation = Observation(NOW, True, windows={(seen := signals(PODS)).seconds: seen})
    taken: dict[str, list[float]] = {"survey": [], "judge": [], "plan": []}
    for _ in range(ROUNDS):
        began = cpu_seconds()
        subjects = surveyed(pods, known)
        surveyed_at = cpu_seconds()
        subjects = with_verdicts(subjects, observation)
        judged_at = cpu_seconds()
        planned(subjects)
        ended = cpu_seconds()
        taken["survey"].append(surveyed_at - began)
        taken["judge"].append(judged_at - surveyed_at)
        taken["plan"].append(ended - judged_at)
    check(subjects)
    rounds = [sum(parts) for parts in zip(*taken.values(), strict=True)]
    parts = [Measure(f"… of which to {name}", median(found), "s") for name, found in taken.items()]
    what = f"survey, judge and plan {PODS:,} pods, {PODS * DEVICES_PER_POD:,} devices (CPU)"
    return [Measure(what, median(rounds), "s", LIMIT_SECONDS), *parts]


def surveyed(pods: list[GpuPod], known: dict[str, Namespace]) -> list[Subject]:
    """Says of each pod what holds for it."""
    return [
        survey(pod, root_of_pod(pod), None, known.get(pod.namespace), POLICIES, RULES, NOW) for pod in pods
    ]


def with_verdicts(subjects: list[Subject], observation: Observation) -> list[Subject]:
    """Judges each of them."""
    settings = JudgeSettings()
    return [
        judged(subject, judge(subject.pod, subject.terms, observation, NOW, settings), BEFORE, RULES, NOW)
        for subject in subjects
        if subject.terms is not None
    ]


def planned(subjects: list[Subject]) -> Plan:
    """Plans for all of them."""
    situation = Situation(pause=Pause(paused=False), judged_devices=len(subjects) * DEVICES_PER_POD)
    return plan(subjects, [], situation, Limits(), NOW)


def check(subjects: list[Subject]) -> None:
    """Refuses to measure a fleet of which all fare alike, since that would be less work.

    Raises:
        FleetError: a kind of verdict is missing.
    """
    found = Counter(subject.verdict.kind.value for subject in subjects if subject.verdict is not None)
    if len(subjects) != PODS or len(found) != 3:
        msg = f"the fleet is not as it should be: {dict(found)}"
        raise FleetError(msg)
