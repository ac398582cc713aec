"""A pod's own devices among all that was observed, and what evidence they give; decides no verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from policy.resources import Unit
from reaper.evidence import SignalEvidence
from reaper.exporters import SOURCES, vendors_by_card, vendors_by_source
from reaper.pods import GpuPod
from reaper.signals import Board, Device, Reading, Signals
from reaper.sources import PROVING_ROLES, Role, Sharing, Source

WHOLE_PERCENT: Final = 100
EVIDENT_ROLES: Final = frozenset(
    {Role.ACTIVITY, Role.HOST, Role.MEMORY, Role.KERNEL, Role.POWER, Role.ALLOCATED, Role.PROCESS}
)
"""Roles of the signals that evidence shows."""


def devices(pod: GpuPod, signals: Signals, sources: tuple[Source, ...] = SOURCES) -> Iterator[Device]:
    """The devices that the pod's own containers hold, by the most telling exporter.

    What tells of a device must see the kind of device that the pod asked for.
    """
    holders = pod.devices.containers
    vendors = frozenset(rule.vendor for rule in pod.devices.rules)
    seen = vendors_by_source(sources)
    found = [
        device
        for device in signals.pods.get((pod.namespace, pod.name), ())
        if (not device.container or not holders or device.container in holders)
        and (not device.uid or device.uid == pod.uid)
        and any(not vendors.isdisjoint(seen.get(name, ())) for name in _told_by(device))
    ]
    shares = [device for device in found if device.sharing is Sharing.SHARE]
    if shares:
        # Where HAMi tells of shares, what others say of the device counts for the whole card only.
        by_card = not vendors.isdisjoint(vendors_by_card(sources))
        return (joined(one, signals.boards) if by_card else one for one in shares)
    sliced = {device.device for device in found if device.instance}
    kept = (device for device in found if device.instance or device.device not in sliced)
    return (joined(_cut(pod, one), signals.boards) for one in kept)


def joined(device: Device, boards: Mapping[str, Board]) -> Device:
    """The device with what is told of it as a whole, where its own series do not tell whether it computes."""
    for reading in device.readings:
        if reading.metric.principal and reading.metric.role is Role.ACTIVITY:
            return device
    board = boards.get(device.device, Board())
    whole = board.whole.get(device.instance) or board.whole.get("", ())
    apart = bool(device.instance) and device.instance not in board.whole
    if device.sharing is Sharing.SHARE:
        whole = (*board.host, *(one for one in whole if one.metric.role is Role.ACTIVITY))
    if not proves(whole):
        return device
    told = {one.metric.role for one in device.readings}
    more = (_of_card(one) for one in whole if one.metric.role in PROVING_ROLES or one.metric.role not in told)
    shared = device.virtual or apart or device.sharing is Sharing.SHARE
    readings = (*device.readings, *more)
    return replace(device, sharing=Sharing.DEVICE, readings=readings, virtual=shared, joined=True)


def proves(readings: Iterable[Reading]) -> bool:
    """Whether one of the readings may prove idleness."""
    return any(reading.metric.principal for reading in readings)


def partial(pod: GpuPod, devices: Iterable[Device]) -> str | None:
    """Why the devices that were seen are not those that the pod holds, as a sentence; None if they are.

    Its node has one exporter of a kind, which sees all of them. Sources that see some each may name one
    device in two ways.
    """
    names: dict[str, set[str]] = {}
    for device in devices:
        for reading in device.of(Role.ACTIVITY):
            if reading.metric.principal:
                names.setdefault(reading.source, set()).add(device.name)
    seen, asked = len(set().union(*names.values())), pod.devices.devices
    if seen != asked:
        return f"{seen} of {asked} devices were seen"
    most = max((len(some) for some in names.values()), default=0)
    if most < asked and len({rule.vendor for rule in pod.devices.rules}) == 1:
        return f"{most} of {asked} devices were seen by one source; others may have other names for these"
    return None


def at_rest(device: Device, board: Board) -> tuple[Reading, ...] | None:
    """What tells that a device did nothing at all for anybody; None if it did, or if nothing tells.

    The values of one sharer tell nothing of the others, and are printed as 0 where they are not known.
    """
    if board.activity.get(device.instance, 0.0) > 0 or board.activity.get("", 0.0) > 0:
        return None
    if device.joined:
        readings = device.of(Role.ACTIVITY)
    elif device.virtual:
        readings = board.whole.get(device.instance, ())
    else:
        return () if device.instance in board.activity else None
    resting = all(one.maximum == 0 for one in readings if one.metric.role is Role.ACTIVITY)
    return readings if resting and proves(readings) else None


def _told_by(device: Device) -> Iterator[str]:
    """The sources that tell of the device; the first is mostly the only one."""
    last = ""
    for reading in device.readings:
        if reading.source != last:
            last = reading.source
            yield last


def _of_card(reading: Reading) -> Reading:
    """The activity of a card as that of a device."""
    if reading.metric.role is not Role.HOST:
        return reading
    return replace(reading, metric=replace(reading.metric, role=Role.ACTIVITY))


def _cut(pod: GpuPod, device: Device) -> Device:
    """The device as a divided one, if the pod asked for a part and its metrics only tell of the whole."""
    return replace(device, divided=True) if device.rests and asks_for_slices(pod) else device


def of_given(pod: GpuPod, device: Device) -> Device:
    """The share with its utilization as a percentage of the cores that the pod was given, not of the card."""
    part = given_percent(pod)
    if device.sharing is not Sharing.SHARE or part >= WHOLE_PERCENT:
        return device
    factor = WHOLE_PERCENT / part
    readings = (_times(one, factor) if one.metric.role is Role.ACTIVITY else one for one in device.readings)
    return replace(device, readings=tuple(readings))


def _times(reading: Reading, factor: float) -> Reading:
    """The reading with larger values; when it was above a threshold before the window is not known then."""
    values = (None if one is None else one * factor for one in (reading.maximum, reading.average))
    maximum, average = values
    return replace(reading, maximum=maximum, average=average, above={})


def given_percent(pod: GpuPod) -> int:
    """The cores of a card, in percent, that the pod may use per share; 100 without a limit.

    Where several containers hold shares, only the sum is known: the least that one of them can have counts.
    """
    devices = pod.devices
    cores = [
        count
        for name, count in devices.counts.items()
        if (rule := devices.table.rule_of(name)) is not None and rule.unit is Unit.CORE
    ]
    if not cores or not devices.devices:
        return WHOLE_PERCENT
    if len(devices.containers) > 1:
        return max(1, min(WHOLE_PERCENT, sum(cores) - WHOLE_PERCENT * (devices.devices - 1)))
    return max(1, min(WHOLE_PERCENT, sum(cores) // devices.devices))


def asks_for_shares(pod: GpuPod) -> bool:
    """Whether a resource of the pod is a part of a device: a share, or HAMi's companions."""
    return any(rule.unit not in {Unit.DEVICE, Unit.SLICE} for rule in pod.devices.rules)


def asks_for_slices(pod: GpuPod) -> bool:
    """Whether a resource of the pod is a slice of a device, such as a MIG instance."""
    return any(rule.unit is Unit.SLICE for rule in pod.devices.rules)


def unseen(pod: GpuPod, vendors: Collection[str]) -> str | None:
    """Which of the pod's resources no source sees, as a sentence; None if all are seen."""
    if pod.devices.unresolved:
        return str(pod.devices.unresolved[0])
    for name in pod.devices.counts:
        rule = pod.devices.table.rule_of(name)
        if rule is None or rule.vendor not in vendors:
            return f"no source of metrics is known for {name}"
    return None


def calm_since(reading: Reading, threshold: int) -> datetime | None:
    """Since when a signal is below the threshold, without a gap in its data; None if that is not known."""
    if threshold not in reading.above or reading.seen_since is None:
        return None
    return reading.above[threshold] or reading.seen_since


def held(device: Device, boards: Mapping[str, Board]) -> float | None:
    """The device memory in use now, in bytes; where no metric tells, what a process holds of the device."""
    used = [reading.last for reading in device.of(Role.MEMORY) if reading.last is not None]
    told = boards.get(device.device, Board()).processes
    if not used and told is not None and device.sharing is Sharing.DEVICE and not device.instance:
        return told.last
    return max(used, default=None)


def signals(
    devices: Iterable[Device], boards: Mapping[str, Board], threshold: int
) -> Iterator[SignalEvidence]:
    """The evidence of the signals that matter to people, device by device."""
    for device in devices:
        board = boards.get(device.device, Board())
        host = board.host if device.sharing is Sharing.SHARE else ()
        told = () if board.processes is None else (board.processes,)
        for reading in (*device.readings, *host, *told):
            if reading.metric.role in EVIDENT_ROLES:
                yield _signal(device, reading, threshold)


def _signal(device: Device, reading: Reading, threshold: int) -> SignalEvidence:
    is_kernel = reading.metric.role is Role.KERNEL
    return SignalEvidence(
        name=reading.metric.signal,
        source=reading.source,
        metric=reading.metric.name,
        device=device.name,
        unit=reading.metric.unit,
        maximum=reading.last if is_kernel else reading.maximum,
        average=reading.average,
        coverage=reading.coverage,
        samples=min(reading.samples, reading.expected),
        expected_samples=reading.expected,
        discarded=reading.discarded,
        last_sample=reading.last_sample,
        interval=reading.interval,
        last_active=reading.ran_at if is_kernel else reading.above.get(threshold),
        query=reading.query,
    )
