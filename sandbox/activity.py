"""What a simulated device does at a time: a pure function of profile and time; knows no metric names."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

GIB = 1 << 30
MIB = 1 << 20
BUSY_PERCENT = 96.0
BUSY_MEMORY = 16 * GIB
IDLE_MEMORY = 400 * MIB
BUSY_WATTS, IDLE_WATTS = 300.0, 62.0
# Values that exporters really print for "no value".
GARBAGE = (4294967295.0, 808334905.0, 1.4e14, 9.223372036854775807e18)
KINDS_WITHOUT_NUMBER = ("busy", "idle", "silent", "garbage", "prof-stuck", "hami-false-zero", "frozen")


class ActivityError(ValueError):
    """The text is not an activity; the message names it."""


@dataclass(frozen=True)
class Profile:
    """What one device does over time.

    Attributes:
        kind: One of busy, idle, duty, burst, idle-from, busy-from, silent, silent-from, garbage,
            prof-stuck, hami-false-zero, frozen, xid.
        first: Seconds on for duty, period for burst and garbage, unix time for idle-from, busy-from and
            silent-from (idle before), code for xid.
        second: Seconds off for duty; for xid the seconds after which a reset and a new one come, 0 for never.
    """

    kind: str
    first: float = 0.0
    second: float = 0.0


@dataclass(frozen=True)
class Sample:
    """What the device's sensors say at one time.

    Attributes:
        utilization: Percent of time with a kernel, as the driver counts it.
        profiled: Percent of engine activity, as the profiling module counts it.
        host: Percent of the physical card, as the node's exporter sees it.
        memory: Bytes in use.
        watts: Power.
        joules: Energy since an arbitrary start.
        kernel_age: Seconds since the last kernel.
        xid: The last Xid, 0 for none.
    """

    utilization: float
    profiled: float
    host: float
    memory: float
    watts: float
    joules: float
    kernel_age: float
    xid: int = 0


def parse_activity(text: str, now: float) -> tuple[Profile, ...]:
    """Reads an annotation: one profile for all devices or one each; `now` is what `idle-from:now` means."""
    return tuple(_parse_one(part.strip(), now) for part in text.split(","))


def profile_of(profiles: tuple[Profile, ...], device: int) -> Profile:
    """Gives the profile of a device by its ordinal in the pod; the last one repeats."""
    return profiles[min(device, len(profiles) - 1)]


def is_busy(profile: Profile, at: float, interval: float) -> bool:
    """Says whether kernels run at a unix time; a burst lasts for one scrape interval."""
    if profile.kind == "duty":
        return at % (profile.first + profile.second) < profile.first
    if profile.kind == "burst":
        return at % profile.first < interval
    if profile.kind == "idle-from":
        return at < profile.first
    if profile.kind == "busy-from":
        return at >= profile.first
    return profile.kind in ("busy", "prof-stuck", "hami-false-zero")


def busy_seconds(profile: Profile, start: float, at: float, interval: float) -> float:
    """Gives how many of the seconds between two times were busy."""
    span = max(0.0, at - start)
    if profile.kind == "duty":
        period = profile.first + profile.second
        return _periodic(at, period, profile.first) - _periodic(start, period, profile.first)
    if profile.kind == "burst":
        length = min(interval, profile.first)
        return _periodic(at, profile.first, length) - _periodic(start, profile.first, length)
    if profile.kind == "idle-from":
        return min(span, max(0.0, profile.first - start))
    if profile.kind == "busy-from":
        return max(0.0, at - max(start, profile.first))
    return span if is_busy(profile, at, interval) else 0.0


def kernel_age(profile: Profile, start: float, at: float, interval: float) -> float:
    """Gives the seconds since a kernel last ran, counting the start of the pod as one."""
    if is_busy(profile, at, interval):
        return 0.0
    ended = start
    if profile.kind == "duty":
        ended = at - at % (profile.first + profile.second) + profile.first
    elif profile.kind == "burst":
        ended = at - at % profile.first + interval
    elif profile.kind == "idle-from":
        ended = profile.first
    return max(0.0, at - max(start, ended))


def sample(profile: Profile, memory: float | None, start: float, at: float, interval: float) -> Sample | None:
    """Gives what the sensors of a device say; None where the exporter says nothing at all.

    Args:
        profile: What the device does.
        memory: Bytes in use if the pod says so, else by activity.
        start: When the pod started (unix seconds).
        at: The time asked for (unix seconds).
        interval: The scrape interval in seconds.
    """
    if profile.kind == "silent" or (profile.kind == "silent-from" and at >= profile.first):
        return None
    busy = is_busy(profile, at, interval)
    level = BUSY_PERCENT if busy else 0.0
    used = memory if memory is not None else float(BUSY_MEMORY if busy else IDLE_MEMORY)
    busy_for = busy_seconds(profile, start, at, interval)
    joules = IDLE_WATTS * max(0.0, at - start) + (BUSY_WATTS - IDLE_WATTS) * busy_for
    made = Sample(
        utilization=level,
        profiled=level,
        host=level,
        memory=used,
        watts=BUSY_WATTS if busy else IDLE_WATTS,
        joules=joules,
        kernel_age=kernel_age(profile, start, at, interval),
    )
    return _with_defects(profile, made, at, interval)


def _with_defects(profile: Profile, made: Sample, at: float, interval: float) -> Sample:
    """Applies what is wrong with the sensors of some profiles."""
    changes: dict[str, float | int] = {}
    if profile.kind == "prof-stuck":
        changes = {"utilization": 99.0, "profiled": 0.0}
    elif profile.kind == "hami-false-zero":
        changes = {"utilization": 0.0, "kernel_age": 1.0}
    elif profile.kind == "frozen":
        changes = {"joules": 1000.0}
    elif profile.kind == "xid":
        reset = profile.second and at % profile.second < profile.second / 2
        changes = {"xid": 0 if reset else int(profile.first)}
    elif profile.kind == "garbage" and (not profile.first or at % profile.first < interval):
        value = GARBAGE[int(at // interval) % len(GARBAGE)]
        changes = {"utilization": value, "profiled": value, "host": value}
    return Sample(**{**vars(made), **changes}) if changes else made


def _periodic(at: float, period: float, on: float) -> float:
    return math.floor(at / period) * on + min(at % period, on)


def _parse_one(text: str, now: float) -> Profile:
    kind, _, argument = text.partition(":")
    if not argument and kind in KINDS_WITHOUT_NUMBER:
        return Profile(kind)
    if kind in ("idle-from", "busy-from", "silent-from") and argument:
        return Profile(kind, now if argument == "now" else _unix(argument, text))
    double = re.fullmatch(r"(duty|xid):([1-9]\d*)/([1-9]\d*)", text)
    if double:
        return Profile(double[1], float(double[2]), float(double[3]))
    numbered = re.fullmatch(r"(burst|garbage|xid):([1-9]\d*)", text)
    if numbered:
        return Profile(numbered[1], float(numbered[2]))
    msg = f"not an activity: {text!r}"
    raise ActivityError(msg)


def _unix(text: str, whole: str) -> float:
    try:
        return unix_time(text)
    except ValueError as error:
        msg = f"not an activity: {whole!r}"
        raise ActivityError(msg) from error


def unix_time(text: str) -> float:
    """Reads an RFC 3339 time as unix seconds; without an offset it is UTC."""
    parsed = datetime.fromisoformat(text)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
