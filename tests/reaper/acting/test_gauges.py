"""What the gauges of a complete cycle show: pods by verdict and reason, and the devices that they hold."""

from __future__ import annotations

from prometheus_client import REGISTRY

from policy.verdicts import Reason, VerdictKind
from reaper import report
from tests.reaper.acting.made import subject_of, verdict_of


def shown(name: str, **labels: str) -> float | None:
    """A metric as it is exposed."""
    return REGISTRY.get_sample_value(f"gpu_tenure_reaper_{name}", labels)


def test_pods_that_ended_are_counted_and_hold_nothing() -> None:
    """Devices of all verdicts together are those that are held now."""
    subjects = [
        subject_of("idle"),
        subject_of("busy", verdict_of(VerdictKind.ACTIVE)),
        subject_of("done", None, skip=Reason.FINISHED),
        subject_of("exempt", None, skip=Reason.EXEMPT),
    ]
    report.count(subjects, {})
    assert [shown("devices", verdict=kind.value) for kind in VerdictKind] == [1, 1, 0, 1]
    done = {"verdict": "Skipped", "reason": "Finished", "action": subjects[2].ceiling.value}
    assert shown("pods", **done) == 1
    report.count([], {})
    assert [shown("devices", verdict=kind.value) for kind in VerdictKind] == [0, 0, 0, 0]
    assert shown("pods", **done) is None


def test_how_alerts_may_end_is_shown_before_any_does() -> None:
    """A rule cannot see how much a series grew whose first sample is 1."""
    assert {shown("alerts_total", result=result) is None for result in ("sent", "failed", "dropped")} == {
        False
    }
