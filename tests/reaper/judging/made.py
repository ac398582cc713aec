"""Signals, terms and verdicts, made by hand."""

from __future__ import annotations

from datetime import datetime, timedelta

from policy.durations import parse_duration
from policy.terms import Action, Statistic, Terms
from policy.verdicts import Reason
from reaper.criteria import JudgeSettings
from reaper.evidence import Verdict
from reaper.exporters import DCGM, HAMI
from reaper.judge import judge
from reaper.observation import Observation
from reaper.pods import GpuPod
from reaper.signals import Board, Device, Reading, Signals
from reaper.sources import Metric, Sharing
from tests.reaper.judging.past import HOUR, NOW, gpu

METRICS = {metric.signal: metric for source in (DCGM, HAMI) for metric in source.metrics}
UTILIZATION, ENGINE = METRICS["utilization"], METRICS["engine"]
SETTINGS = JudgeSettings()
ACTIVE = {Reason.ABOVE_THRESHOLD, Reason.RECENT_KERNEL, Reason.MEMORY_HELD}


def ago(seconds: float) -> datetime:
    """A moment before NOW."""
    return NOW - timedelta(seconds=seconds)


def terms(**more: object) -> Terms:
    """Idle for an hour below 5 %."""
    fields = {
        "action": Action.EVICT,
        "after": parse_duration("1h"),
        "utilization": 5,
        "statistic": Statistic.MAXIMUM,
        "memory": None,
        "grace": parse_duration("30m"),
        "warm_up": parse_duration("30m"),
    }
    return Terms(**{**fields, **more})  # type: ignore[arg-type]


def reading(metric: Metric = DCGM.metrics[0], **more: object) -> Reading:
    """A full and idle reading."""
    fields = {
        "metric": metric,
        "source": "dcgm",
        "maximum": 0.0,
        "average": 0.0,
        "samples": 240,
        "expected": 240,
        "interval": 15.0,
        "last_sample": NOW - timedelta(seconds=10),
    }
    return Reading(**{**fields, **more})  # type: ignore[arg-type]


def device(*readings: Reading, name: str = "GPU-0", **more: object) -> Device:
    """A device of the container `main`."""
    fields = {"device": name, "instance": "", "container": "main", "sharing": Sharing.DEVICE}
    return Device(**{**fields, **more}, readings=readings or (reading(),))  # type: ignore[arg-type]


def observed(*devices: Device, boards: dict[str, Board] | None = None) -> Observation:
    """A complete observation of one pod."""
    signals = Signals(HOUR, {("team", "p"): devices}, boards or {})
    return Observation(NOW, True, windows={HOUR: signals})


def verdict(
    *devices: Device, pod: GpuPod | None = None, boards: dict[str, Board] | None = None, **more: object
) -> Verdict:
    """The verdict on a pod that holds as many devices as are given."""
    count = len({one.name for one in devices}) or 1
    return judge(pod or gpu("p", count), terms(**more), observed(*devices, boards=boards), NOW, SETTINGS)
