"""Whether Prometheus answers in full, scrapes its exporters, and sees every GPU pod; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts, MetricFacts
from cli.doctor.findings import Finding, Level, fine, some
from cli.doctor.presence import is_absent
from policy.asking import policy_terms
from policy.classes import PodClass
from policy.counting import counted
from policy.verdicts import REASONS, Reason, VerdictKind
from reaper.advice import advise
from reaper.clocks import TOLERANCE_SECONDS
from reaper.dossier import Judged
from reaper.long_windows import Part, recorded_name
from reaper.sources import Role, Source

BLIND: Final = "a reaper without full answers holds every warning and action"
LONG_SECONDS: Final = 6 * 3600
PASSING: Final = frozenset({Reason.TOO_YOUNG, Reason.NEVER_TOUCHED, Reason.SHARED_DEVICE, Reason.NOT_STARTED})
"""Reasons that go by themselves, or are no fault of what is set up."""


def check(facts: Facts) -> Iterator[Finding]:
    """Goes from the address over the exporters to the pods."""
    metrics = facts.metrics
    if metrics.problem:
        yield _unusable(metrics)
        if metrics.observation is None:
            return
    else:
        yield fine("prometheus.answers", f"{metrics.url} answers in full")
    yield from _clock(metrics)
    yield from _targets(metrics)
    yield from _families(facts)
    if not is_absent(facts):
        yield _own(metrics)
    yield from _unseen(metrics)
    yield from _long_windows(facts)


def _unusable(metrics: MetricFacts) -> Finding:
    check = "prometheus.answers"
    if not metrics.url:
        return Finding(
            check, Level.UNKNOWN, metrics.problem, "exporters were not looked at", "--prometheus-url URL"
        )
    what = f"Prometheus at {metrics.url} is of no use: {metrics.problem}"
    if metrics.given:
        todo = "check address, credentials and load; for a partial answer the stores behind it"
        return Finding(check, Level.ERROR, what, BLIND, todo)
    todo = (
        "from outside of the cluster: kubectl -n monitoring port-forward svc/PROMETHEUS 9090, and"
        " --prometheus-url http://localhost:9090; the reaper's own view is its log"
    )
    return Finding(check, Level.UNKNOWN, what, "it may be reachable for the reaper and not from here", todo)


def _clock(metrics: MetricFacts) -> Iterator[Finding]:
    ahead = metrics.ahead_seconds
    if ahead is not None and abs(ahead) > TOLERANCE_SECONDS:
        side = "ahead of" if ahead > 0 else "behind"
        what = f"the clock of Prometheus is {abs(ahead):.0f} s {side} that of the API server"
        why = "samples would be taken for older or younger than they are, so the reaper holds everything"
        yield Finding("prometheus.clock", Level.ERROR, what, why, "let both keep time by NTP")


def _targets(metrics: MetricFacts) -> Iterator[Finding]:
    if metrics.down:
        yield Finding(
            "prometheus.targets",
            Level.WARNING,
            "scrape targets of GPU exporters are down",
            "the devices of these nodes are Unknown, and Unknown never acts",
            "look at the exporter's pods on these nodes, and at the NetworkPolicies before them",
            some(metrics.down),
        )
    elif metrics.families:
        yield fine("prometheus.targets", "every scrape target of GPU exporters is up")


def _families(facts: Facts) -> Iterator[Finding]:
    """Which exporters there are, and how their series name the workload."""
    present = {one.metric for one in facts.metrics.families}
    if not present:
        yield Finding(
            "prometheus.exporters",
            Level.ERROR,
            "Prometheus has no metrics of any GPU exporter that is known",
            "every GPU pod is Unknown, and nothing is ever taken back",
            "install dcgm-exporter (the GPU operator does), have it scraped, and see docs/sources.md",
        )
        return
    for source in facts.sources:
        names = [one.name for one in source.metrics if one.name in present]
        if names:
            proving = any(one.principal and one.name in present for one in source.metrics)
            schemes = ", ".join(_schemes(source, facts.metrics)) or "devices alone"
            what = f"{source.name}: {counted(len(names), 'metric')}, workloads in {schemes}"
            if proving or not any(one.principal for one in source.metrics):
                yield Finding("prometheus.exporters", Level.OK, what, objects=some(names))
            else:
                wanted = [one.name for one in source.metrics if one.principal]
                yield Finding(
                    "prometheus.exporters",
                    Level.WARNING,
                    f"{what}, and none that may prove idleness",
                    "pods that only this exporter sees are never Idle",
                    "add one of these to the exporter's list of counters",
                    some(wanted),
                )


def _schemes(source: Source, metrics: MetricFacts) -> list[str]:
    """The forms of labels that its series have."""
    names = {metric.name for metric in source.metrics}
    present = [one.labels for one in metrics.families if one.metric in names]
    return [
        "/".join(filter(None, (form.namespace, form.pod)))
        for form in source.forms
        if any(form.fits(labels) for labels in present)
    ]


def _own(metrics: MetricFacts) -> Finding:
    if metrics.brake is None:
        what = "Prometheus has no metrics of the reaper"
        why = "nobody is alerted when it stops, is blind, or holds everything"
        todo = (
            "metrics.serviceMonitor.enabled=true and rules.kind=PrometheusRule, or a scrape job of your own"
        )
        return Finding("prometheus.own-metrics", Level.INFO, what, why, todo)
    return fine("prometheus.own-metrics", "Prometheus has the metrics of the reaper")


def _unseen(metrics: MetricFacts) -> Iterator[Finding]:
    """What cannot be judged, by what would help."""
    unknown = [one for one in metrics.judged if one.verdict.kind is VerdictKind.UNKNOWN]
    present = metrics.observation.metrics if metrics.observation is not None else frozenset()
    for reason in dict.fromkeys(one.verdict.reason for one in unknown):
        pods = [one for one in unknown if one.verdict.reason is reason]
        level = Level.INFO if reason in PASSING else Level.WARNING
        unseen = [one.pod for one in pods] if reason is Reason.NO_SERIES else []
        todo = "; ".join(sentence for _, sentence in advise({reason}, unseen, present))
        nodes = sorted({one.pod.node for one in pods if one.pod.node})
        where = f" on {', '.join(some(nodes))}" if nodes else ""
        what = f"{_count(pods)}{where} cannot be judged: {reason.value}"
        yield Finding("prometheus.pods", level, what, REASONS[reason], todo, some(map(_name, pods)))
    if metrics.judged and not unknown:
        yield fine("prometheus.pods", f"{_count(list(metrics.judged))} can be judged")


def _count(pods: list[Judged]) -> str:
    devices = sum(one.pod.devices.devices for one in pods)
    return f"{counted(devices, 'GPU')} of {counted(len(pods), 'pod')}"


def _name(one: Judged) -> str:
    return f"{one.pod.namespace}/{one.pod.name}"


def _long_windows(facts: Facts) -> Iterator[Finding]:
    """Windows that are too long to be asked raw in a large cluster."""
    policies = facts.policies.value.valid if facts.policies.value is not None else ()
    long = [
        one.name
        for one in policies
        if any(policy_terms(one, pod_class).after.seconds > LONG_SECONDS for pod_class in PodClass)
    ]
    present = {one.metric for one in facts.metrics.families}
    lacking = [
        source.name
        for source in facts.sources
        if (own := _recorded(source, present)) and not own & facts.metrics.recorded
    ]
    if long and lacking:
        yield Finding(
            "prometheus.long-windows",
            Level.INFO,
            "policies have windows beyond six hours, and nothing is recorded for them",
            "a query over all raw samples of a day is slow, and with thousands of devices is refused",
            f"rules.kind=PrometheusRule, and rules.longWindows=[{', '.join(lacking)}]",
            some(long),
        )
    elif long:
        yield fine("prometheus.long-windows", "what long windows need is recorded")


def _recorded(source: Source, present: set[str]) -> frozenset[str]:
    return frozenset(
        recorded_name(one, Part.MAXIMUM)
        for one in source.metrics
        if one.role is Role.ACTIVITY and one.name in present
    )
