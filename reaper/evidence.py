"""What a verdict rests on, as values that go into logs, records and JSON; decides nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from policy.durations import format_time
from policy.verdicts import Reason, VerdictKind

EXPECTED = frozenset({Reason.TOO_YOUNG, Reason.NOT_STARTED})
"""Unknown verdicts that turnover brings every day, and that say nothing about the metrics."""


class SignalEvidence(Struct, frozen=True):
    """One signal of one device over the window.

    Attributes:
        name: The signal, such as `utilization`.
        source: The exporter's table, such as `dcgm`.
        metric: The name of the metric.
        device: UUID of the device, with the MIG or virtual instance after a slash.
        unit: `%`, `B`, `s` or `W`, of maximum and average.
        maximum: The largest valid sample; None without one.
        average: The mean of the valid samples; None where it was not asked for.
        coverage: The share of the expected samples that exist and are valid, 0 to 1; None if not counted.
        samples: How many of the expected samples exist and are valid.
        expected_samples: How many a series without gaps has.
        discarded: How many samples were out of range.
        last_sample: When the last sample was taken; None if it is older than Prometheus looks back.
        interval: Seconds between two scrapes; None if it cannot be told.
        last_active: When it was last at or above the threshold, or a kernel last ran, as far as was looked.
        query: PromQL that gives the maximum, for all devices.
    """

    name: str
    source: str
    metric: str
    device: str
    unit: str
    maximum: float | None = None
    average: float | None = None
    coverage: float | None = None
    samples: int = 0
    expected_samples: int = 0
    discarded: int = 0
    last_sample: datetime | None = None
    interval: float | None = None
    last_active: datetime | None = None
    query: str = ""


class Evidence(Struct, frozen=True):
    """Everything that a verdict rests on.

    Attributes:
        window: Seconds that were looked at.
        utilization: The threshold, in percent.
        statistic: `maximum` or `average`.
        devices_expected: How many devices the pod asked for.
        devices_seen: How many of them have series.
        devices_idle: How many of those are idle by themselves.
        maximum: The largest value of any activity signal of any device, in percent.
        samples: The samples of the worst-covered activity signal.
        expected_samples: How many those should be.
        memory: The largest memory use of any device, in bytes.
        vetoes: What forbids to call the pod idle, as sentences.
        signals: The signals one by one.
    """

    window: int
    utilization: int
    statistic: str
    devices_expected: int
    devices_seen: int = 0
    devices_idle: int = 0
    maximum: float | None = None
    samples: int = 0
    expected_samples: int = 0
    memory: int | None = None
    vetoes: tuple[str, ...] = ()
    signals: tuple[SignalEvidence, ...] = ()


class Verdict(Struct, frozen=True):
    """Whether a pod is idle, why, and how that is known.

    Attributes:
        kind: Active, Idle or Unknown; Skipped where a caller did not judge.
        reason: One reason.
        idle_since: The start of the idle stretch as far as the data goes; set if and only if the pod is Idle.
        parked: Whether the idle pod holds device memory, as a model server without requests does.
        sentence: What was seen, for people: `240 of 240 samples below 5 %`.
    """

    kind: VerdictKind
    reason: Reason
    idle_since: datetime | None
    parked: bool
    evidence: Evidence
    sentence: str

    @property
    def puzzling(self) -> bool:
        """True if metrics that should be there say nothing; of pods that have just begun none should."""
        return self.kind is VerdictKind.UNKNOWN and self.reason not in EXPECTED


def evidence_document(evidence: Evidence) -> dict[str, Any]:
    """As JSON: times in RFC 3339, spans in seconds, memory in bytes, utilization in percent."""
    return {
        "windowSeconds": evidence.window,
        "devicesExpected": evidence.devices_expected,
        "devicesSeen": evidence.devices_seen,
        "devicesIdle": evidence.devices_idle,
        "maximum": _number(evidence.maximum),
        "samples": evidence.samples,
        "expectedSamples": evidence.expected_samples,
        "memoryBytes": evidence.memory,
        "vetoes": list(evidence.vetoes),
        "signals": [_signal(signal) for signal in evidence.signals],
    }


def _signal(signal: SignalEvidence) -> dict[str, Any]:
    return {
        "name": signal.name,
        "source": signal.source,
        "metric": signal.metric,
        "device": signal.device,
        "unit": signal.unit,
        "maximum": _number(signal.maximum),
        "average": _number(signal.average),
        "coverage": _number(signal.coverage),
        "samples": signal.samples,
        "expectedSamples": signal.expected_samples,
        "discarded": signal.discarded,
        "lastSample": _time(signal.last_sample),
        "intervalSeconds": _number(signal.interval),
        "lastActive": _time(signal.last_active),
        "query": signal.query,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)


def _number(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
