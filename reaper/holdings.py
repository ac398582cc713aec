"""A pod's own devices among all that was observed, and what evidence they give; decides no verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from policy.resources import Unit
from reaper.evidence import SignalEvidence
from reaper.pods import GpuPod
from reaper.signals import Board, Device, Reading, Signals
from reaper.sources import SEEN_VENDORS, Role, Sharing


def devices(pod: GpuPod, signals: Signals) -> Iterator[Device]:
    """The devices that the pod's own containers hold, by the most telling exporter."""
    holders = pod.devices.containers
    found = [
        device
        for device in signals.pods.get((pod.namespace, pod.name), ())
        if (not device.container or not holders or device.container in holders)
        and (not device.uid or device.uid == pod.uid)
    ]
    shares = [device for device in found if device.sharing is Sharing.SHARE]
    if shares:
        # Where HAMi tells of shares, what others say of the device counts for the whole card only.
        return iter(shares)
    sliced = {device.device for device in found if device.instance}
    return (device for device in found if device.instance or device.device not in sliced)


def asks_for_shares(pod: GpuPod) -> bool:
    """Whether a resource of the pod is a part of a device: a share, or HAMi's companions."""
    return any(rule.unit not in {Unit.DEVICE, Unit.SLICE} for rule in pod.devices.rules)


def unseen(pod: GpuPod) -> str | None:
    """Which of the pod's resources no source sees, as a sentence; None if all are seen."""
    if pod.devices.unresolved:
        return str(pod.devices.unresolved[0])
    for name in pod.devices.counts:
        rule = pod.devices.table.rule_of(name)
        if rule is None or rule.vendor not in SEEN_VENDORS:
            return f"no source of metrics is known for {name}"
    return None


def calm_since(reading: Reading, threshold: int) -> datetime | None:
    """Since when a signal is below the threshold, without a gap in its data; None if that is not known."""
    if threshold not in reading.above or reading.seen_since is None:
        return None
    return reading.above[threshold] or reading.seen_since


def held(device: Device) -> float | None:
    """The device memory in use now, in bytes."""
    return next((reading.last for reading in device.of(Role.MEMORY)), None)


def signals(devices: Iterable[Device], boards: Mapping[str, Board]) -> Iterator[SignalEvidence]:
    """The evidence of the signals that matter to people, device by device."""
    for device in devices:
        host = boards.get(device.device, Board()).host
        for reading in (*device.readings, *(host if device.sharing is Sharing.SHARE else ())):
            if reading.metric.role in {Role.ACTIVITY, Role.HOST, Role.MEMORY, Role.KERNEL, Role.POWER}:
                yield _signal(device, reading)


def _signal(device: Device, reading: Reading) -> SignalEvidence:
    return SignalEvidence(
        name=reading.metric.signal,
        source=reading.source,
        metric=reading.metric.name,
        device=device.name,
        unit=reading.metric.unit,
        maximum=reading.last if reading.metric.role is Role.KERNEL else reading.maximum,
        average=reading.average,
        coverage=reading.coverage,
        samples=min(reading.samples, reading.expected),
        expected_samples=reading.expected,
        discarded=reading.discarded,
        last_sample=reading.last_sample,
        interval=reading.interval,
    )
