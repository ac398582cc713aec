"""What one reading of one device says about idleness; one small rule per trap, all pure; knows no pods."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from policy.memory import MemoryLimit
from policy.terms import Statistic, Terms
from policy.verdicts import Reason, VerdictKind
from reaper.criteria import JudgeSettings
from reaper.signals import Board, Device, Reading
from reaper.sources import Role


class Finding(Struct, frozen=True):
    """Why a pod is not idle, or cannot be called so."""

    kind: VerdictKind
    reason: Reason
    sentence: str


def active(reason: Reason, sentence: str) -> Finding:
    """A finding that proves activity."""
    return Finding(VerdictKind.ACTIVE, reason, sentence)


def unknown(reason: Reason, sentence: str) -> Finding:
    """A finding that forbids to call the pod idle."""
    return Finding(VerdictKind.UNKNOWN, reason, sentence)


def freshness(name: str, reading: Reading, at: datetime, settings: JudgeSettings) -> Finding | None:
    """Whether the last sample is young enough."""
    signal = reading.metric.signal
    if reading.last_sample is None:
        return unknown(Reason.STALE, f"{signal} of {name} has no sample in the last minutes")
    if reading.interval is None:
        return unknown(Reason.INTERVAL_UNKNOWN, f"too few samples of {signal} of {name} to tell the interval")
    limit = max(settings.fresh_scrapes * reading.interval, settings.fresh_seconds)
    age = (at - reading.last_sample).total_seconds()
    if age > limit:
        return unknown(Reason.STALE, f"the last sample of {signal} of {name} is {age:.0f} s old")
    return None


def quality(name: str, reading: Reading, at: datetime, settings: JudgeSettings) -> Finding | None:
    """Whether a reading is fresh and covers the window with samples that can be true."""
    stale = freshness(name, reading, at, settings)
    if stale is not None:
        return stale
    signal, coverage = reading.metric.signal, reading.coverage
    if coverage is None:
        return unknown(Reason.INTERVAL_UNKNOWN, f"the samples of {signal} of {name} cannot be counted")
    if reading.maximum is not None and coverage >= settings.coverage:
        return None
    seen = f"{reading.samples} of {reading.expected} samples of {signal} of {name}"
    if reading.discarded or reading.maximum is None:
        return unknown(Reason.GARBAGE_SAMPLES, f"only {seen} can be true, the rest is out of range")
    return unknown(Reason.LOW_COVERAGE, f"only {seen} in the window")


def is_busy(reading: Reading, terms: Terms) -> bool:
    """Whether a reading reaches the threshold by the statistic of the terms."""
    value = reading.average if terms.statistic is Statistic.AVERAGE else reading.maximum
    return value is not None and value >= terms.utilization


def activity(
    name: str, reading: Reading, terms: Terms, at: datetime, settings: JudgeSettings
) -> Finding | None:
    """Whether an activity signal speaks against idleness; None if it agrees."""
    if is_busy(reading, terms):
        return active(
            Reason.ABOVE_THRESHOLD, f"{_value(reading, terms)} of {reading.metric.signal} on {name}"
        )
    lacking = quality(name, reading, at, settings)
    if lacking is None and terms.statistic is Statistic.AVERAGE and reading.average is None:
        return unknown(Reason.LOW_COVERAGE, f"no average of {reading.metric.signal} of {name}")
    return lacking


def memory(device: Device, limit: MemoryLimit, at: datetime, settings: JudgeSettings) -> Finding | None:
    """Whether a device holds more memory than the terms allow for idle; None if it holds less."""
    used = max(device.of(Role.MEMORY), key=lambda one: one.maximum or 0.0, default=None)
    if used is None:
        return unknown(Reason.MEMORY_UNKNOWN, f"no metric tells the memory of {device.name}")
    size = limit.bytes if limit.percent is None else _share(device, limit.percent)
    if size is None:
        return unknown(Reason.MEMORY_UNKNOWN, f"no metric tells the size of the memory of {device.name}")
    if used.maximum is not None and used.maximum >= size:
        held = f"{used.maximum / (1 << 20):.0f} MiB of memory held on {device.name} (idle below {limit})"
        return active(Reason.MEMORY_HELD, held)
    lacking = quality(device.name, used, at, settings)
    return None if lacking is None else unknown(Reason.MEMORY_UNKNOWN, lacking.sentence)


def vetoes(device: str, board: Board) -> list[Finding]:
    """What makes the idleness of a physical device impossible to prove."""
    found: list[Finding] = []
    if board.fault_code:
        found.append(unknown(Reason.DEVICE_FAULT, f"{device} reported Xid {board.fault_code:.0f}"))
    if board.faults:
        found.append(
            unknown(Reason.DEVICE_FAULT, f"{device} counted {board.faults:.0f} uncorrectable errors")
        )
    if board.moved is not None and board.moved <= 0:
        found.append(unknown(Reason.FROZEN_EXPORTER, f"the energy counter of {device} stood still"))
    return found


def host(name: str, board: Board, terms: Terms, shared: bool) -> Finding | None:
    """Whether the physical card is busy although the pod's own signals are not."""
    for reading in board.host:
        if is_busy(reading, terms):
            reason = Reason.SHARED_DEVICE if shared else Reason.SIGNALS_DISAGREE
            return unknown(reason, f"the card of {name} had {_value(reading, terms)}, the pod's share less")
    return None


def whole(device: Device, board: Board, terms: Terms) -> Finding | None:
    """Whether series that name nobody, or another pod, show the device busy; maxima only."""
    value = board.activity.get(device.instance, 0.0)
    if terms.statistic is Statistic.MAXIMUM and value >= terms.utilization:
        return unknown(
            Reason.SIGNALS_DISAGREE, f"series without this pod show {device.name} busy ({value:.3g} %)"
        )
    return None


def processes(device: Device, terms: Terms) -> Finding | None:
    """Whether a process computes although the device seems idle; one that only holds memory may be parked."""
    for reading in device.of(Role.PROCESS):
        if not reading.metric.works:
            continue
        mean = reading.average if terms.statistic is Statistic.AVERAGE else None
        value = reading.maximum if mean is None else mean
        # Another unit than percent would be out of range, and no proof of rest either.
        if reading.maximum is None or value is None or value >= terms.utilization:
            seen = "cannot be true" if reading.maximum is None or value is None else f"{value:.3g} %"
            return unknown(
                Reason.SIGNALS_DISAGREE, f"{reading.metric.signal} on {device.name} compute ({seen})"
            )
    return None


def rest(device: Device, board: Board, settings: JudgeSettings) -> Finding | None:
    """Whether such a device as AMD's is at rest: its activity can read 0 when busy, its power cannot."""
    if not device.rests:
        return None
    if device.divided or device.instance not in {"", "0"}:
        return unknown(
            Reason.UNSUPPORTED_SOURCE, f"partition {device.name} has no activity signal of its own"
        )
    if board.watts is None:
        return unknown(Reason.SIGNALS_DISAGREE, f"no power metric confirms that {device.name} is at rest")
    if board.watts >= settings.rest_watts:
        return unknown(Reason.SIGNALS_DISAGREE, f"{device.name} took {board.watts:.0f} W with no activity")
    return None


def kernel(
    name: str, reading: Reading, terms: Terms, at: datetime, settings: JudgeSettings
) -> Finding | None:
    """Whether a kernel ran within the window; a small value always means activity."""
    ran = reading.ran_at
    if ran is not None and at - ran < timedelta(seconds=terms.after.seconds):
        return active(Reason.RECENT_KERNEL, f"a kernel ran {(at - ran).total_seconds():.0f} s ago on {name}")
    stale = freshness(name, reading, at, settings)
    if stale is None and reading.last is None:
        return unknown(Reason.GARBAGE_SAMPLES, f"last-kernel of {name} is out of range")
    if stale is None and reading.moved is not None and reading.moved <= 0:
        # Time passes for an idle share too: such an exporter repeats what it once saw.
        return unknown(Reason.FROZEN_EXPORTER, f"the seconds since the last kernel stand still on {name}")
    return stale


def _share(device: Device, percent: int) -> float | None:
    """So many percent of the device's memory (or the vGPU's limit), in bytes."""
    limit = next((reading.last for reading in device.of(Role.LIMIT) if reading.last), None)
    used = next((reading.last for reading in device.of(Role.MEMORY)), None)
    free = next((reading.last for reading in device.of(Role.FREE)), None)
    if limit is None and used is not None and free is not None:
        limit = used + free
    return limit * percent / 100 if limit else None


def _value(reading: Reading, terms: Terms) -> str:
    value = reading.average if terms.statistic is Statistic.AVERAGE else reading.maximum
    return f"{terms.statistic} {value or 0:.3g} %"
