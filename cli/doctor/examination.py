"""All checks over all facts, the worst findings first; reads and prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from cli.doctor import (
    admission,
    alerting,
    cluster,
    exporters,
    guards,
    installation,
    policies,
    presence,
    prometheus,
    rights,
    visibility,
)
from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Level
from policy.durations import format_time

CHECKS: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    visibility.check,
    rights.check,
    installation.check,
    admission.check,
    guards.check,
    policies.check,
    prometheus.check,
    exporters.check,
    cluster.check,
    alerting.check,
)
WITHOUT_INSTALLATION: Final = (
    visibility.check,
    presence.check,
    prometheus.check,
    exporters.check,
    cluster.check,
)
"""The checks that make sense before anything is installed."""


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Gives all findings: groups by their worst, and within a group the worst first."""
    checks = WITHOUT_INSTALLATION if presence.is_absent(facts) else CHECKS
    found = [finding for check in checks for finding in check(facts)]
    worst: dict[str, int] = {}
    for one in found:
        worst[one.group] = min(one.level.rank, worst.get(one.group, one.level.rank))
    groups = list(worst)
    return tuple(sorted(found, key=lambda one: (worst[one.group], groups.index(one.group), one.level.rank)))


def document(facts: Facts, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """The answer as docs/doctor.md has it."""
    return {
        "at": format_time(facts.at),
        "namespace": facts.namespace,
        "version": facts.version,
        "kubernetes": facts.git_version,
        "profile": facts.profile.value if facts.switches.value is not None else None,
        "counts": {level.value: sum(one.level is level for one in findings) for level in Level},
        "findings": [
            {
                "check": one.check,
                "level": one.level.value,
                "what": one.what,
                "why": one.why,
                "todo": one.todo,
                "objects": list(one.objects),
            }
            for one in findings
        ],
    }
