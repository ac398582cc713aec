"""Pods with terms and verdicts outside of a running reaper: which terms to assume, and their JSON; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from policy.asking import policy_terms
from policy.classes import ClassSettings, PodClass, class_of
from policy.durations import format_time
from policy.keys import Label
from policy.selection import PolicySet, select
from policy.spec import GPUPolicy
from policy.terms import Terms, terms_from_labels
from policy.verdicts import Reason, VerdictKind
from reaper.criteria import JudgeSettings
from reaper.evidence import Evidence, Verdict, evidence_document
from reaper.judge import judge
from reaper.observation import Observation
from reaper.pods import GpuPod


class Given(Struct, frozen=True):
    """The terms that a pod is judged by.

    Attributes:
        assumed: Whether its labels do not say them, so that they come from a policy or the class's defaults.
        policy: The policy they come from.
    """

    terms: Terms
    pod_class: str
    policy: str
    assumed: bool


class Judged(Struct, frozen=True):
    """A pod, the terms that it is judged by, and the verdict."""

    pod: GpuPod
    given: Given
    verdict: Verdict


def given_terms(pod: GpuPod, policies: PolicySet, namespaces: Mapping[str, Mapping[str, str]]) -> Given:
    """The terms of a pod's labels, or else those that admission would give it today."""
    terms, _ = terms_from_labels(pod.labels)
    if terms is not None:
        name = pod.labels.get(Label.POLICY, "")
        return Given(_with_own(terms, pod, policies.get(name)), pod.labels.get(Label.CLASS, ""), name, False)
    policy = select(policies, pod.namespace, namespaces.get(pod.namespace)).policy
    creators = ClassSettings(creators=policy.classes.creators)
    pod_class: PodClass = class_of(pod.pod, None, pod.namespace, creators).pod_class
    return Given(policy_terms(policy, pod_class), pod_class.value, policy.name, assumed=True)


def _with_own(terms: Terms, pod: GpuPod, policy: GPUPolicy | None) -> Terms:
    """Terms of labels with what has no label: the policy's own, where the policy is known."""
    try:
        pod_class = PodClass(pod.labels.get(Label.CLASS, ""))
    except ValueError:
        return terms
    if policy is None:
        return terms
    own = policy_terms(policy, pod_class)
    return replace(terms, of=own.of, never_touched=own.never_touched)


def judge_all(
    pods: Iterable[tuple[GpuPod, Given]], observation: Observation, settings: JudgeSettings
) -> list[Judged]:
    """Judges pods at the moment of the observation."""
    return [Judged(pod, given, _verdict(pod, given, observation, settings)) for pod, given in pods]


def skip_of(pod: GpuPod, terms: Terms) -> Reason | None:
    """Why a pod is not judged: it is over, a placeholder, or was admitted as exempt."""
    if pod.finished:
        return Reason.FINISHED
    if pod.deleting:
        return Reason.TERMINATING
    if pod.priority < 0:
        return Reason.PLACEHOLDER
    return Reason.EXEMPT if terms.exempt else None


def _verdict(pod: GpuPod, given: Given, observation: Observation, settings: JudgeSettings) -> Verdict:
    terms = given.terms
    skip = skip_of(pod, terms)
    if skip is None:
        return judge(pod, terms, observation, observation.observed_at, settings)
    evidence = Evidence(
        terms.after.seconds, terms.utilization, terms.statistic.value, devices_expected=pod.devices.devices
    )
    return Verdict(VerdictKind.SKIPPED, skip, None, False, evidence, "")


def document(judged: Judged) -> dict[str, Any]:
    """One pod as JSON: times in RFC 3339, spans in seconds, memory in bytes, utilization in percent."""
    pod, verdict = judged.pod, judged.verdict
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "verdict": verdict.kind.value,
        "reason": verdict.reason.value,
        "idleSince": _time(verdict.idle_since),
        "parked": verdict.parked,
        "sentence": verdict.sentence,
        "node": pod.node,
        "devices": dict(pod.devices.counts),
        "evidence": evidence_document(verdict.evidence),
        "terms": _terms(judged.given),
    }


def _terms(given: Given) -> dict[str, Any]:
    terms = given.terms
    return {
        "assumed": given.assumed,
        "policy": given.policy or None,
        "class": given.pod_class or None,
        "action": "exempt" if terms.exempt else terms.action.value,
        "after": terms.after.text,
        "utilization": terms.utilization,
        "statistic": terms.statistic.value,
        "of": terms.of.value,
        "neverTouched": terms.never_touched,
        "memory": str(terms.memory) if terms.memory else None,
        "grace": terms.grace.text,
        "warmUp": terms.warm_up.text,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)
